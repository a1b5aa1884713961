package templates

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
)

// soakCaptures is the number of captures at the same time.
const soakCaptures = 200

// TestSoakCaptures captures VMs at once, with the process of the chart. Each capture is whole, and nothing else is left.
func TestSoakCaptures(t *testing.T) {
	soak.Only(t)
	f := newFixture(t)
	_, err := f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{"mode": "manage"}}, controlplane.Workload{})
	must(t, err)
	controller, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardTemplates})
	must(t, err)
	for i := range 10 {
		f.machine(t, fmt.Sprintf("soak-%d", i), fmt.Sprintf("soak-%d-root", i), fmt.Sprintf("soak-%d-data", i))
	}
	started := time.Now()
	var all []*v1beta1.VirtualMachineTemplateRequest
	for i := range soakCaptures {
		all = append(all, f.request(t, fmt.Sprintf("soak-%d", i), fmt.Sprintf("soak-%d", i%10)))
	}
	deadline := time.Now().Add(10 * time.Minute)
	for _, request := range all {
		for !f.settled(t, request)() && time.Now().Before(deadline) {
			<-time.After(100 * time.Millisecond)
		}
		if c := f.condition(t, request, v1beta1.RequestCompleted); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", request.Name, c)
		}
		f.isWhole(t, request)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", controller.PID()))
	must(t, err)
	t.Logf("%d captures took %s; the process:\n%s", soakCaptures, time.Since(started).Round(time.Second), status)
}

// TestSoakTemplates has 500 templates of 100 kB in the cluster. The process keeps their names only.
func TestSoakTemplates(t *testing.T) {
	soak.Only(t)
	f := newFixture(t)
	_, err := f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{"mode": "manage"}}, controlplane.Workload{})
	must(t, err)
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "${NAME}", "annotations": map[string]any{"text": strings.Repeat("x", 100_000)}},
		"spec":     map[string]any{"runStrategy": "Halted", "template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}, "memory": map[string]any{"guest": "1Gi"}}}}},
	})
	must(t, err)
	const count = 500
	for i := range count {
		must(t, f.Client().Create(t.Context(), &v1beta1.VirtualMachineTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: fmt.Sprintf("soak-%d", i)},
			Spec: v1beta1.VirtualMachineTemplateSpec{
				VirtualMachine: &runtime.RawExtension{Raw: text}, Parameters: []v1beta1.Parameter{{Name: "NAME", Generate: "expression", From: "vm-[a-z]{5}"}},
			},
		}))
	}
	started := time.Now()
	controller, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardTemplates})
	must(t, err)
	for i := range count {
		template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: fmt.Sprintf("soak-%d", i)}}
		f.templateIs(t, template, metav1.ConditionTrue, v1beta1.ReasonTemplateReady, "")
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", controller.PID()))
	must(t, err)
	var anonymous int64
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	_, err = fmt.Sscan(rest, &anonymous)
	must(t, err)
	t.Logf("%d templates took %s; RssAnon is %d kB", count, time.Since(started).Round(time.Second), anonymous)
	if anonymous > 200<<10 {
		t.Errorf("RssAnon is %d kB: the templates have 50 MB, and are not kept", anonymous)
	}
}
