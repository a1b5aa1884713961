package guards

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
)

// TestAccounts sends the requests of a stolen token of Virtward. The users have all permissions for webhook configurations
// and APIServices, so only the guard denies.
func TestAccounts(t *testing.T) {
	cases, err := admissionpolicies.AccountCases()
	if err != nil {
		t.Fatal(err)
	}
	c := &accountCluster{config: pool.Take(t).Config()}
	c.admin = c.as(t, "")
	for _, name := range []string{"mutate.virtward.io", "another.example.org"} {
		must(t, c.admin.Create(t.Context(), c.mutating(name)))
	}
	for _, name := range []string{"validate.virtward.io", "mutate.virtward.io", "another.example.org"} {
		must(t, c.admin.Create(t.Context(), c.validating(name)))
	}
	for _, name := range []string{"v1alpha1.subresources.template.kubevirt.io", "v1beta1.subresources.template.kubevirt.io", "v1.another.example.org"} {
		must(t, c.admin.Create(t.Context(), c.registration(name)))
	}
	objects, err := admissionpolicies.Objects()
	must(t, err)
	for _, object := range objects {
		if object.GetName() == admissionpolicies.Accounts {
			must(t, c.admin.Create(t.Context(), object))
		}
	}
	users := map[string]client.Client{}
	for _, each := range cases {
		if users[each.User] == nil {
			users[each.User] = c.as(t, each.User)
		}
	}
	controller := users["system:serviceaccount:virtward-system:virtward-controller"]
	eventually(t, "the guard is active", func() bool {
		return apierrors.IsForbidden(controller.Create(t.Context(), c.mutating("probe.example.org"), client.DryRunAll))
	})
	for _, each := range cases {
		t.Run(each.Name, func(t *testing.T) { c.evaluate(t, users[each.User], each) })
	}
}

type accountCluster struct {
	config *rest.Config
	admin  client.Client
}

// as returns a client of a user with all permissions.
func (c *accountCluster) as(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(c.config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	}
	made, err := client.New(config, client.Options{})
	must(t, err)
	return made
}

func (c *accountCluster) clientConfig() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		CABundle: c.config.CAData,
		Service:  &admissionregistrationv1.ServiceReference{Namespace: "virtward-system", Name: "virtward-webhook"},
	}
}

// configRules match no existing kind.
func configRules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"kubevirt.io"}, APIVersions: []string{"v1"}, Resources: []string{"virtualmachines"}},
	}}
}

func (c *accountCluster) mutating(name string) *admissionregistrationv1.MutatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name, ClientConfig: c.clientConfig(), Rules: configRules(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func (c *accountCluster) validating(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	none := admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name, ClientConfig: c.clientConfig(), Rules: configRules(), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

// registration is an APIService whose server does not exist.
func (c *accountCluster) registration(name string) *unstructured.Unstructured {
	version, group, _ := strings.Cut(name, ".")
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
			"service":  map[string]any{"namespace": "virtward-system", "name": "virtward-apiserver", "port": int64(443)},
			"caBundle": base64.StdEncoding.EncodeToString(c.config.CAData),
		},
	}}
}

func (c *accountCluster) evaluate(t *testing.T, user client.Client, each admissionpolicies.AccountCase) {
	kind, name, _ := strings.Cut(each.Object, "/")
	var object client.Object = c.mutating(name)
	switch kind {
	case "validating":
		object = c.validating(name)
	case "apiservice":
		object = c.registration(name)
	}
	var err error
	switch each.Verb {
	case "create":
		err = user.Create(t.Context(), object, client.DryRunAll)
	case "delete":
		err = user.Delete(t.Context(), object, client.DryRunAll)
	default:
		body, encoded := json.Marshal(each.Patch)
		must(t, encoded)
		err = user.Patch(t.Context(), object, client.RawPatch(types.JSONPatchType, body), client.DryRunAll)
	}
	switch {
	case each.Denied == "" && err != nil:
		t.Errorf("it is denied: %v", err)
	case each.Denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), each.Denied)):
		t.Errorf("want %q, got: %v", each.Denied, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
