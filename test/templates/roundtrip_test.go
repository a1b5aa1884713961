package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	captured "github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// TestRoundTrip captures a virtual machine, exports its template, and imports the OVA in another namespace: its disks have the same bytes, and
// the template is the same but for where its disks are.
func TestRoundTrip(t *testing.T) {
	programs := map[string]string{}
	for _, name := range []string{exportServer, importServer} {
		program, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
		must(t, err)
		if _, err := os.Stat(program); err != nil {
			t.Skipf("bin/%s is not built: run make build", name)
		}
		programs[name] = program
	}
	const abroad = "abroad"
	f := newFixture(t)
	must(t, f.EnsureNamespace(t.Context(), abroad))
	_, err := f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{
		"mode": "manage", "exports": map[string]any{"enabled": true}, "imports": map[string]any{"enabled": true, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}}},
	}}, controlplane.Workload{})
	must(t, err)
	for _, deployment := range []string{controlplane.VirtwardTemplates, controlplane.VirtwardExports, controlplane.VirtwardImports} {
		process, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: deployment})
		must(t, err)
		t.Cleanup(func() {
			if log, err := os.ReadFile(process.Log()); err == nil && t.Failed() {
				t.Logf("%s:\n%s", deployment, log)
			}
		})
	}
	disks, contents := map[string][]byte{}, map[string][]byte{}
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // a test
	for i, claim := range []string{"ship-root", "ship-data"} {
		content := make([]byte, (3+i)<<20)
		for n := range 1 << 20 {
			content[n+1<<20] = byte(random.IntN(256)) //nolint:gosec // a byte
		}
		disks[claim] = content
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	x := &exporting{fixture: f, pods: simulators.StartExports(ctx, f.ControlPlane, programs[exportServer], t.TempDir(), contents)}
	appliances := simulators.StartAppliances(ctx, f.ControlPlane, programs[importServer], t.TempDir())
	f.cdi.Follow(appliances.Verdict)

	f.machine(t, "ship", "ship-root", "ship-data")
	request := f.request(t, "ship", "ship")
	f.until(t, request, v1beta1.RequestCompleted, metav1.ConditionTrue, v1beta1.ReasonReconciled)
	for claim, content := range disks {
		contents[catalogue+"/"+captured.CloneName(request, claim)] = content // the snapshot, and so the source of the clone, is deleted
	}
	exported := &v1beta1.VirtualMachineTemplate{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: request.Status.TemplateRef.Name}, exported))

	export := &v1beta1.VirtualMachineTemplateExport{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "ship"}}
	export.Spec.TemplateRef.Name = exported.Name
	must(t, f.Client().Create(t.Context(), export))
	x.is(t, export, v1beta1.ReasonServing)
	ova := x.download(t, export, 0)
	must(t, f.Client().Delete(t.Context(), export))

	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"ship"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(ova))
	}))
	t.Cleanup(web.Close)
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: abroad, Name: "ship"}}
	of.Spec.Source.HTTP = &v1beta1.ImportHTTP{URL: web.URL + "/ship.ova"}
	of.Spec.Verify = v1beta1.ImportVerifyRequire
	must(t, f.Client().Create(t.Context(), of))
	await.Until(t, func() error {
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(of), of))
		if !meta.IsStatusConditionTrue(of.Status.Conditions, v1beta1.RequestReady) {
			return fmt.Errorf("the import is %+v; faults of the simulation: %q", of.Status, appliances.Faults())
		}
		return nil
	})
	for i, claim := range []string{"ship-root", "ship-data"} {
		disk := of.Status.Disks[i]
		(&importing{fixture: f, content: disks[claim]}).compare(t, appliances.Disk(disk.Name))
	}
	imported := &v1beta1.VirtualMachineTemplate{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: abroad, Name: of.Status.TemplateRef.Name}, imported))
	if diff := cmp.Diff(portable(t, exported), portable(t, imported)); diff != "" {
		t.Errorf("the template (-exported +imported):\n%s", diff)
	}
}

// portable is the spec of a template without where the content of its volumes is.
func portable(t *testing.T, template *v1beta1.VirtualMachineTemplate) map[string]any {
	t.Helper()
	machine := map[string]any{}
	must(t, json.Unmarshal(template.Spec.VirtualMachine.Raw, &machine))
	volumes, _ := machine["spec"].(map[string]any)["dataVolumeTemplates"].([]any) //nolint:forcetypeassert // it has one
	for _, v := range volumes {
		spec, _ := v.(map[string]any)["spec"].(map[string]any) //nolint:forcetypeassert // as above
		if source, _ := spec["source"].(map[string]any); source["pvc"] == nil {
			t.Errorf("a volume has the source %v", source)
		}
		delete(spec, "source")
	}
	guest, _ := machine["spec"].(map[string]any)["template"].(map[string]any) //nolint:forcetypeassert // it has one
	if metadata, _ := guest["metadata"].(map[string]any); len(metadata) == 0 {
		delete(guest, "metadata") // an export removes empty objects
	}
	spec := template.Spec.DeepCopy()
	spec.VirtualMachine = nil
	rest, err := json.Marshal(spec)
	must(t, err)
	return map[string]any{"machine": machine, "rest": strings.TrimSpace(string(rest))}
}
