package templateapi

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  resources: [{group: subresources.template.kubevirt.io}]
- level: None
`

// TestAudit holds that the server's own audit log has the parameters of a request, its user and the digest of the template:
// kube-apiserver's has not, because it only passes the request on.
func TestAudit(t *testing.T) {
	t.Parallel()
	f := prepare(t)
	f.must(f.EnsureNamespace(t.Context(), controlplane.VirtwardNamespace))
	f.ensure(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: "audit"}, Data: map[string]string{"policy.yaml": auditPolicy}})
	f.install(map[string]any{"server": map[string]any{"auditPolicyConfigMap": "audit"}})
	f.namespaces("templates")
	f.template("templates", "fedora")
	if _, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("audited"), ""); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		log, err := os.ReadFile(f.VirtwardAPIServerProcess().Log())
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			event := &auditv1.Event{}
			if json.Unmarshal([]byte(line), event) != nil || event.ObjectRef == nil || event.ObjectRef.Subresource != subresources.Create {
				continue
			}
			if event.User.Username != "sandbox-admin" || event.RequestObject == nil || !strings.Contains(string(event.RequestObject.Raw), `"NAME":"audited"`) ||
				!strings.HasPrefix(event.Annotations["template.virtward.io/digest"], "sha256:") || event.ResponseStatus.Code != 201 {
				return fmt.Errorf("the event is %s", line)
			}
			return nil
		}
		return fmt.Errorf("no event of the request")
	})
}
