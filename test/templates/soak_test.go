package templates

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/controlplane"
)

// soakCaptures is the number of captures at the same time.
const soakCaptures = 200

// TestSoakCaptures captures VMs at once, with the process of the chart. Each capture is whole, and nothing else is left.
func TestSoakCaptures(t *testing.T) {
	if os.Getenv("VIRTWARD_SOAK") == "" {
		t.Skip("it takes a while: set VIRTWARD_SOAK")
	}
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
