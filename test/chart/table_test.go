package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/processes"
)

// enable sets the values of the chart that install the chosen processes, and keeps the others.
func enable(values map[string]any, chosen func(*processes.Process) bool) {
	for _, p := range processes.All() {
		if chosen(&p) {
			p.Enable(values)
		}
	}
}

// everyProcess is what the chart renders of values with all processes. Two of them exclude each other: the Job of the library is
// part of a first release only.
func everyProcess(t *testing.T, values ...string) []client.Object {
	t.Helper()
	enabled := map[string]any{}
	enable(enabled, func(*processes.Process) bool { return true })
	var all []string
	for _, section := range slices.Sorted(maps.Keys(enabled)) {
		value, err := json.Marshal(enabled[section])
		must(t, err)
		all = append(all, section+"="+string(value))
	}
	return renderFor(t, nil, append(all, values...)...)
}

// workload is what the chart has of a process.
type workload struct {
	Job     bool
	Account string
	Command string
	Metrics int32
}

// TestTableOfProcesses holds that the chart installs the processes of the table, and no other: each under an account of its own, with
// its command, and with the port of its metrics.
func TestTableOfProcesses(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, folder, "values.yaml"))
	must(t, err)
	var values map[string]any
	must(t, yaml.Unmarshal(content, &values))
	want := map[string]workload{}
	for _, p := range processes.All() {
		w := workload{Job: p.Job, Account: p.Name, Command: p.Command}
		if p.Metrics != "" {
			port, is := valueAt(values, p.Metrics).(float64)
			if !is {
				t.Fatalf("%s: the chart has no value %s", p.Name, p.Metrics)
			}
			w.Metrics = int32(port)
		}
		if p.Resources != "" && valueAt(values, p.Resources+".limits.memory") == nil {
			t.Errorf("%s: the chart has no value %s.limits.memory", p.Name, p.Resources)
		}
		for _, path := range slices.Concat(p.Ports...) {
			if _, is := valueAt(values, path).(float64); !is {
				t.Errorf("%s: the chart has no port at the value %s", p.Name, path)
			}
		}
		want[p.Name] = w
	}
	got := map[string]workload{}
	objects := everyProcess(t)
	for _, deployment := range every[*appsv1.Deployment](objects) {
		got[deployment.Name] = workloadOf(&deployment.Spec.Template.Spec, false)
	}
	for _, set := range every[*appsv1.DaemonSet](objects) {
		got[set.Name] = workloadOf(&set.Spec.Template.Spec, false)
	}
	for _, job := range every[*batchv1.Job](objects) {
		got[job.Name] = workloadOf(&job.Spec.Template.Spec, true)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("processes (-table +chart):\n%s", diff)
	}
	var accounts []string
	for _, account := range every[*corev1.ServiceAccount](objects) {
		accounts = append(accounts, account.Name)
	}
	slices.Sort(accounts)
	if diff := cmp.Diff(processes.Names(), accounts); diff != "" {
		t.Errorf("accounts (-table +chart):\n%s", diff)
	}
}

// workloadOf reads a pod. The first argument of the program virtward is its command; other programs have flags only.
func workloadOf(pod *corev1.PodSpec, job bool) workload {
	container := &pod.Containers[0]
	w := workload{Job: job, Account: pod.ServiceAccountName}
	if first := container.Args[0]; !strings.HasPrefix(first, "-") {
		w.Command = first
	}
	for _, port := range container.Ports {
		if port.Name == "metrics" {
			w.Metrics = port.ContainerPort
		}
	}
	return w
}

func valueAt(values map[string]any, path string) any {
	var at any = values
	for name := range strings.SplitSeq(path, ".") {
		section, _ := at.(map[string]any)
		at = section[name]
	}
	return at
}

// TestAccountsAreGuarded evaluates the expression of the guard of Virtward's accounts on the name of each, in any namespace.
func TestAccountsAreGuarded(t *testing.T) {
	var expression string
	for _, policy := range every[*admissionregistrationv1.ValidatingAdmissionPolicy](everyProcess(t)) {
		if policy.Name == admissionpolicies.Accounts {
			expression = policy.Spec.MatchConditions[0].Expression
		}
	}
	quoted := regexp.MustCompile(`^request\.userInfo\.username\.matches\('(.*)'\)$`).FindStringSubmatch(expression)
	if quoted == nil {
		t.Fatalf("the guard has the condition %q", expression)
	}
	guarded := regexp.MustCompile(quoted[1])
	for _, name := range processes.Names() {
		if user := "system:serviceaccount:somewhere:" + name; !guarded.MatchString(user) {
			t.Errorf("the guard does not cover %s", user)
		}
	}
	if user := "system:serviceaccount:somewhere:virtward-webhook-params"; guarded.MatchString(user) {
		t.Errorf("the guard covers %s", user)
	}
}

// TestPagesHaveAllProcesses holds that docs/accounts.md has a section of each account, with its permissions if it lasts, and that
// docs/memory.md has a table of each process that does not end.
func TestPagesHaveAllProcesses(t *testing.T) {
	pages := map[string]string{}
	for _, name := range []string{"accounts.md", "memory.md"} {
		content, err := os.ReadFile(filepath.Join(root, "docs", name))
		must(t, err)
		pages[name] = string(content)
	}
	for _, p := range processes.All() {
		section := "\n## `" + p.Name + "`\n"
		if strings.Count(pages["accounts.md"], section) != 1 {
			t.Errorf("docs/accounts.md has not one section %s", strconv.Quote(section))
		}
		if p.Job {
			continue
		}
		if tableOf(p.Name).FindString(pages["accounts.md"]) == "" {
			t.Errorf("docs/accounts.md has no permissions of %s", p.Name)
		}
		if !strings.Contains(pages["memory.md"], "<!-- generated: memory of "+p.Name+" -->\n") {
			t.Errorf("docs/memory.md has no table of %s", p.Name)
		}
	}
}
