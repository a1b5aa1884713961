package rollouts

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/soak"
)

const (
	// soakMachines is the number of virtual machines of a soak, unless VIRTWARD_SOAK_MACHINES has another.
	soakMachines = 5000
	// soakMemory is the most resident memory of the process without its binary, in kB, and soakWrites the most writes to each
	// virtual machine, its annotation and the status of the rollout apart.
	soakMemory = 150_000
	soakWrites = 3
)

// TestSoakRollout restarts a fleet with the process of the chart.
func TestSoakRollout(t *testing.T) {
	soak.Only(t)
	machines := soakMachines
	if text := os.Getenv("VIRTWARD_SOAK_MACHINES"); text != "" {
		var err error
		machines, err = strconv.Atoi(text)
		must(t, err)
	}
	plane := planes.Start(t, controlplane.Options{Audit: true})
	f := &fixture{ControlPlane: plane, clock: &shifted{}}
	end, err := simulate(t.Context(), plane)
	must(t, err)
	t.Cleanup(func() { must(t, end()) })
	_, err = plane.InstallVirtward(t.Context(), nil, controlplane.Workload{})
	must(t, err)
	f.namespace(t, "soak", machines)
	w := f.watch(t, "soak")
	process, err := plane.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardRollouts})
	must(t, err)

	const limit = 50
	began, most, shown, lost := time.Now(), 0, 0, false
	r := f.rollout(t, "soak", "grace", patch(needsRestart, 40), atOnce(limit))
	for r.Status.Phase != v1alpha1.PhaseComplete {
		if time.Since(began) > time.Hour {
			t.Fatalf("%+v", r.Status.Counts)
		}
		<-time.After(time.Second)
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r))
		pid := process.PID()
		if pid == 0 { // on a busy machine, it can lose its Lease: the next start continues
			lost = report(t, process, lost)
			continue
		}
		most = max(most, resident(t, pid))
		if done := int(r.Status.Counts.Done); done >= shown+machines/10 {
			shown = done
			t.Logf("%d are done after %s, with %s of CPU and %d kB", done, time.Since(began).Round(time.Second), processor(t, pid), most)
		}
	}
	writes := f.writes(t)
	t.Logf("%d virtual machines in %s: at most %d unavailable, %.2f writes for each, RssAnon at most %d MB, %s of CPU",
		machines, time.Since(began).Round(time.Second), w.worst(machines), float64(writes)/float64(machines), most/1000, processor(t, process.PID()))
	if worst := w.worst(machines); worst > limit || writes > soakWrites*machines || most > soakMemory {
		t.Errorf("%d were unavailable, %d writes, %d kB", worst, writes, most)
	}
	exactly(t, w, 1)
}

// report writes the end of the log of a process that has ended, once.
func report(t *testing.T, process *controlplane.Virtward, reported bool) bool {
	t.Helper()
	if !reported {
		log, err := os.ReadFile(process.Log())
		must(t, err)
		t.Logf("the process has ended:\n%s", log[max(0, len(log)-2000):])
	}
	return true
}

// resident is the memory of a process in kB, without its binary.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "RssAnon:"); found {
			kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return kilobytes
		}
	}
	t.Fatal("the kernel reports no RssAnon")
	return 0
}

// processor is the CPU time of a process.
func processor(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(t, err)
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before can have spaces
	total := time.Duration(0)
	for _, field := range fields[11:13] { // of the user, and of the system
		ticks, err := strconv.Atoi(field)
		must(t, err)
		total += time.Duration(ticks) * 10 * time.Millisecond
	}
	return total
}

// writes counts what the account of rollouts wrote, in the audit log: neither Leases, Events and ConfigMaps, nor statuses and
// annotations of pending changes.
func (f *fixture) writes(t *testing.T) int {
	t.Helper()
	file, err := os.Open(f.AuditLog())
	must(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	count := 0
	for lines.Scan() {
		var event struct {
			Stage, Verb, RequestURI string
			User                    struct{ Username string }
			ObjectRef               struct{ Resource, Subresource string }
		}
		must(t, json.Unmarshal(lines.Bytes(), &event))
		if event.Stage != "ResponseComplete" || !strings.HasSuffix(event.User.Username, ":"+controlplane.VirtwardRollouts) {
			continue
		}
		vm := event.ObjectRef.Resource == "virtualmachines" && (event.ObjectRef.Subresource == "restart" || event.Verb == "patch" && strings.Contains(event.RequestURI, "fieldManager=virtward-rollouts"))
		if vm || event.ObjectRef.Resource == "virtualmachineinstancemigrations" && event.Verb == "create" {
			count++
		}
	}
	must(t, lines.Err())
	return count
}
