package rollout_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/rollouts"
)

const (
	vmPath       = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/db"
	vmiPath      = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db"
	revisionPath = "/apis/apps/v1/namespaces/shop/controllerrevisions/revision-start-vm-1-1"
)

// spec of the VM, in the flow style of YAML.
const spec = `{runStrategy: Always, template: {spec: {architecture: amd64, domain: {cpu: {sockets: 2, cores: 1, threads: 1}, memory: {guest: 2Gi}, machine: {type: q35}, firmware: {uuid: 11111111-2222-4333-8444-555555555555}, devices: {}}}}}`

// objects are a VM that runs as it was started, by their paths.
func objects() map[string]string {
	return map[string]string{
		"/apis/kubevirt.io/v1/kubevirts": `{apiVersion: kubevirt.io/v1, kind: KubeVirtList, items: [{apiVersion: kubevirt.io/v1, kind: KubeVirt, metadata: {name: kubevirt, namespace: kubevirt}, spec: {workloadUpdateStrategy: {workloadUpdateMethods: [LiveMigrate]}}}]}`,
		vmPath:                           `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: db, namespace: shop, uid: "1", annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"template":{"spec":{"hostname":"old"}}}}'}}, spec: ` + spec + `}`,
		vmiPath: `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: db, namespace: shop, ownerReferences: [{apiVersion: kubevirt.io/v1, kind: VirtualMachine, name: db, uid: "1", controller: true}]},
			spec: {architecture: amd64, domain: {cpu: {sockets: 2, cores: 1, threads: 1, maxSockets: 8, model: host-model}, memory: {guest: 2Gi, maxGuest: 8Gi}, machine: {type: q35}, firmware: {uuid: 11111111-2222-4333-8444-555555555555}, devices: {}}},
			status: {phase: Running, virtualMachineRevisionName: revision-start-vm-1-1, memory: {guestAtBoot: 2Gi, guestCurrent: 2Gi}, conditions: [{type: LiveMigratable, status: "True"}]}}`,
		revisionPath: `{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: revision-start-vm-1-1, namespace: shop}, data: {spec: ` + spec + `}}`,
	}
}

// serve serves objects, and patches them as a dry run only.
func serve(t *testing.T, objects map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object, err := yaml.YAMLToJSON([]byte(objects[r.URL.Path]))
		switch {
		case objects[r.URL.Path] == "":
			w.WriteHeader(http.StatusNotFound)
			object = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		case objects[r.URL.Path] == clitest.Forbidden || r.Method == http.MethodPatch && objects["patch"] == clitest.Forbidden:
			w.WriteHeader(http.StatusForbidden)
			object = []byte(clitest.Forbidden)
		case r.Method == http.MethodPatch:
			if objects["denied"] != "" && denies(t, w, r, objects["denied"]) {
				return
			}
			if r.URL.Query().Get("dryRun") != "All" || r.Header.Get("Content-Type") != "application/merge-patch+json" {
				t.Errorf("%s %s is no dry run", r.Method, r.URL)
			}
			body, readErr := io.ReadAll(r.Body)
			if readErr != nil {
				t.Error(readErr)
			}
			object, err = jsonpatch.MergePatch(object, body)
		case r.Method != http.MethodGet:
			t.Errorf("%s %s changes the cluster", r.Method, r.URL)
		}
		if err != nil {
			t.Error(err)
		}
		if _, err := w.Write(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// denies denies a patch that has a text.
func denies(t *testing.T, w http.ResponseWriter, r *http.Request, text string) bool {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(body), text) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		return false
	}
	w.WriteHeader(http.StatusUnprocessableEntity)
	if _, err := w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"` + text + ` is denied"}`)); err != nil {
		t.Error(err)
	}
	return true
}

func call(t *testing.T, objects map[string]string, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, stdin, append(append([]string{"rollout", "plan"}, args...), "--server", serve(t, objects), "-n", "shop")...)
}

// manifest changes some fields of the VM.
func manifest(fields string) string {
	return "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: db}\nspec: {template: {spec: " + fields + "}}\n"
}

func TestTable(t *testing.T) {
	got := call(t, objects(), manifest("{domain: {cpu: {sockets: 4}}}"), "-f", "-")
	const want = `VirtualMachine shop/db
FIELD                                  RUNS  DESIRED  TAKES
spec.template.spec.domain.cpu.sockets  2     4        LiveOnMigration

LiveOnMigration: KubeVirt migrates the VM, and the guest gets the change with the migration. Check the value first: KubeVirt cannot revert it until the migration has ended.
  spec.template.spec.domain.cpu.sockets
`
	if got.Code != clitest.ExitOK || got.Out != want {
		t.Errorf("%d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

func TestFailOn(t *testing.T) {
	both := manifest("{hostname: x, domain: {cpu: {sockets: 9}}}")
	for _, test := range []struct {
		failOn string
		code   int
		errOut string
	}{
		{"restart", clitest.ExitFailed, "error: changes of --fail-on: 2 Restart\n"},
		{"restart,never", clitest.ExitFailed, "error: changes of --fail-on: 2 Restart\n"},
		{"migration", clitest.ExitOK, ""},
		{"reboot", clitest.ExitUsage, "error: unknown value of --fail-on \"reboot\": the known ones are restart, migration, never, blocked\n"},
	} {
		got := call(t, objects(), both, "-f", "-", "--fail-on", test.failOn)
		if got.Code != test.code || got.ErrOut != test.errOut {
			t.Errorf("%s: %d\n%s", test.failOn, got.Code, got.ErrOut)
		}
	}
}

// plans of the JSON output.
type plans struct {
	Plans []struct {
		Namespace, Name string
		Running         bool
		rollouts.Result
		Notes []string
	}
	NotPlanned []string
}

func decode(t *testing.T, got clitest.Result) plans {
	t.Helper()
	var p plans
	if err := json.Unmarshal([]byte(got.Out), &p); err != nil || len(p.Plans) != 1 {
		t.Fatalf("%d: %v\n%s%s", got.Code, err, got.Out, got.ErrOut)
	}
	return p
}

func TestOutputs(t *testing.T) {
	edit := manifest("{hostname: x}")
	p := decode(t, call(t, objects(), edit, "-f", "-", "-o", "json")).Plans[0]
	if !p.Running || p.Name != "db" || p.RestartRequired != rollouts.ReasonTemplate || len(p.Changes) != 1 || p.Changes[0].Field != "spec.template.spec.hostname" || p.Changes[0].Takes != rollouts.Restart {
		t.Errorf("%+v", p)
	}
	fromYAML := call(t, objects(), edit, "-f", "-", "-o", "yaml")
	var other plans
	if err := yaml.Unmarshal([]byte(fromYAML.Out), &other); err != nil || len(other.Plans) != 1 || other.Plans[0].Changes[0] != p.Changes[0] {
		t.Errorf("%v:\n%s", err, fromYAML.Out)
	}
}

func TestPending(t *testing.T) {
	all := objects()
	all[vmPath] = strings.Replace(all[vmPath], "architecture: amd64", "hostname: x, architecture: amd64", 1)
	for _, args := range [][]string{{"db"}, {"vm/db"}, {"vm", "db"}} {
		got := call(t, all, "", append(args, "-o", "json")...)
		if p := decode(t, got).Plans[0]; len(p.Changes) != 1 || p.Changes[0].New != "x" {
			t.Errorf("%v: %+v", args, p)
		}
	}
	if got := call(t, objects(), "", "db"); got.Out != "VirtualMachine shop/db\nNo change is pending.\n" {
		t.Error(got.Out)
	}
}

// inProgress makes the VM one whose sockets KubeVirt has plugged, and whose guest waits for the migration.
func inProgress(all map[string]string) {
	for _, path := range []string{vmPath, vmiPath} {
		all[path] = strings.Replace(all[path], "sockets: 2", "sockets: 4", 1)
	}
	all[vmiPath] = strings.Replace(all[vmiPath], `conditions: [`, `currentCPUTopology: {sockets: 2, cores: 1, threads: 1}, conditions: [{type: HotVCPUChange, status: "True"}, `, 1)
}

// TestInProgress holds that plan, diff and status say the same of a change that KubeVirt has written to the instance.
func TestInProgress(t *testing.T) {
	all := objects()
	inProgress(all)
	const field = "spec.template.spec.domain.cpu.sockets"
	got := call(t, all, "", "vm/db", "--fail-on", "migration")
	if got.Code != clitest.ExitFailed || got.ErrOut != "error: changes of --fail-on: 1 LiveOnMigration\n" || !strings.Contains(got.Out, field+"  2     4        LiveOnMigration\n") {
		t.Errorf("plan: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	p := decode(t, call(t, all, "", "vm/db", "-o", "json")).Plans[0]
	if len(p.Changes) != 1 || !p.Changes[0].InProgress || p.Changes[0].Patched {
		t.Errorf("%+v", p.Changes)
	}
	got = run(t, all, "diff", "db")
	if want := "--- shop/db (runs)\n+++ shop/db (written)\n@@ " + field + ": LiveOnMigration @@\n-2\n+4\n"; got.Code != clitest.ExitFailed || got.Out != want {
		t.Errorf("diff: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = run(t, all, "status", "db", "--fail-on", "migration")
	if got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "LiveOnMigration   domain.cpu.sockets") {
		t.Errorf("status: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	// A change that is considered is shown beside it.
	got = call(t, all, "", "vm/db", "--set", "hostname=x")
	if got.Code != clitest.ExitOK || !strings.Contains(got.Out, field+" ") || !strings.Contains(got.Out, "spec.template.spec.hostname ") {
		t.Errorf("plan --set: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestMissing holds that a reference to nothing is a change of a VM that has no other one.
func TestMissing(t *testing.T) {
	all := objects()
	all[vmPath] = strings.Replace(all[vmPath], "{runStrategy: Always,", "{runStrategy: Always, instancetype: {name: huge, kind: VirtualMachineInstancetype},", 1)
	got := call(t, all, "", "vm/db", "--fail-on", "blocked")
	const want = `VirtualMachine shop/db
FIELD              RUNS  DESIRED  TAKES
spec.instancetype  –     huge     Blocked

Blocked: VirtualMachineInstancetype "huge" does not exist. KubeVirt applies no change of the VM until it does. Create it again, or name another one.
  spec.instancetype
`
	if got.Code != clitest.ExitFailed || got.Out != want || got.ErrOut != "error: changes of --fail-on: 1 Blocked\n" {
		t.Errorf("plan: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := run(t, all, "diff", "db"); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "@@ spec.instancetype: Blocked @@\n+huge\n") {
		t.Errorf("diff: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := run(t, all, "status", "db", "--fail-on", "blocked"); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "Blocked   spec.instancetype") {
		t.Errorf("status: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	for _, path := range []string{revisionPath} { // the instance was started with the name
		all[path] = strings.Replace(all[path], "{runStrategy: Always,", "{runStrategy: Always, instancetype: {name: huge, kind: VirtualMachineInstancetype},", 1)
	}
	if got := run(t, all, "diff", "db"); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "@@ spec.instancetype: Blocked @@\n huge\n") {
		t.Errorf("diff of the same name: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	all[vmPath] = strings.Replace(all[vmPath], "kind: VirtualMachineInstancetype", "kind: Huge", 1)
	if got := call(t, all, "", "vm/db"); !strings.Contains(got.Out, `Blocked: The kind "Huge" does not exist.`) {
		t.Errorf("an unknown kind: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestPartial holds that the plans of the other files are printed if one is denied.
func TestPartial(t *testing.T) {
	all := objects()
	all["denied"] = "nowhere"
	files := manifest("{hostname: nowhere}") + "---\n" + manifest("{hostname: x}")
	got := call(t, all, files, "-f", "-", "--fail-on", "restart")
	if got.Code != clitest.ExitFailed || !strings.HasPrefix(got.Out, "VirtualMachine shop/db\nFIELD") || !strings.Contains(got.Out, "hostname  –     x        Restart") ||
		got.ErrOut != "not planned: standard input: document 1: the cluster rejects the change of VirtualMachine shop/db: nowhere is denied\nerror: 1 of 2 virtual machines could not be planned; changes of --fail-on: 1 Restart\n" {
		t.Errorf("%d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = call(t, all, files, "-f", "-", "-o", "json")
	if p := decode(t, got); got.Code != clitest.ExitFailed || len(p.NotPlanned) != 1 || !strings.Contains(p.NotPlanned[0], "nowhere is denied") || p.Plans[0].Changes[0].New != "x" {
		t.Errorf("%d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = call(t, all, manifest("{hostname: nowhere}"), "-f", "-")
	if got.Code != clitest.ExitFailed || got.Out != "" || got.ErrOut != "error: standard input: document 1: the cluster rejects the change of VirtualMachine shop/db: nowhere is denied\n" {
		t.Errorf("only one: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	got = call(t, all, "", "web", "db")
	if got.Code != clitest.ExitFailed || got.Out != "VirtualMachine shop/db\nNo change is pending.\n" || !strings.Contains(got.ErrOut, "not planned: reading VirtualMachine shop/web:") || !strings.HasSuffix(got.ErrOut, "error: 1 of 2 virtual machines could not be planned\n") {
		t.Errorf("names: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestAnnounced holds that a plan says where KubeVirt announces a restart that no change needs.
func TestAnnounced(t *testing.T) {
	got := call(t, objects(), manifest("{domain: {cpu: {model: host-model}}}"), "-f", "-")
	const want = `VirtualMachine shop/db
FIELD                                RUNS  DESIRED     TAKES
spec.template.spec.domain.cpu.model  –     host-model  Live

Live: The VM already runs with this value, so that nothing changes.
  spec.template.spec.domain.cpu.model (KubeVirt announces a restart nevertheless)
`
	if got.Code != clitest.ExitOK || got.Out != want {
		t.Errorf("%d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
}

// TestRemoved holds that fields which only the last applied file has are removed, as kubectl apply does.
func TestRemoved(t *testing.T) {
	all := objects()
	for _, path := range []string{vmPath, revisionPath, vmiPath} {
		all[path] = strings.Replace(all[path], "architecture: amd64", "hostname: old, architecture: amd64", 1)
	}
	p := decode(t, call(t, all, manifest("{domain: {machine: {type: q35}}}"), "-f", "-", "-o", "json")).Plans[0]
	if len(p.Changes) != 1 || p.Changes[0].Field != "spec.template.spec.hostname" || p.Changes[0].Old != "old" || p.Changes[0].New != "" {
		t.Errorf("%+v", p.Changes)
	}
}

func TestNotes(t *testing.T) {
	edit := manifest("{hostname: x}")
	for name, test := range map[string]struct {
		change func(map[string]string)
		takes  rollouts.Takes
		note   string
	}{
		"stopped":            {func(o map[string]string) { delete(o, vmiPath) }, rollouts.NextStart, "the virtual machine is not running"},
		"no start":           {func(o map[string]string) { o[revisionPath] = clitest.Forbidden }, rollouts.Restart, "ControllerRevision revision-start-vm-1-1 cannot be read (you may not): the change is compared with the running instance only"},
		"no dry run":         {func(o map[string]string) { o["patch"] = clitest.Forbidden }, rollouts.Restart, "the dry run is forbidden (you may not): what webhooks would change is missing"},
		"a foreign instance": {func(o map[string]string) { o[vmiPath] = strings.Replace(o[vmiPath], `uid: "1"`, `uid: "2"`, 1) }, rollouts.NextStart, "a VirtualMachineInstance of this name exists, but it is not of this virtual machine"},
		"an empty start": {func(o map[string]string) {
			o[revisionPath] = `{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: revision-start-vm-1-1}}`
		}, rollouts.Restart, "ControllerRevision revision-start-vm-1-1 has no spec of a virtual machine: the change is compared with the running instance only"},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects()
			test.change(all)
			p := decode(t, call(t, all, edit, "-f", "-", "-o", "json")).Plans[0]
			if len(p.Changes) != 1 || p.Changes[0].Takes != test.takes {
				t.Errorf("%+v", p.Changes)
			}
			if len(p.Notes) == 0 || p.Notes[0] != test.note {
				t.Errorf("%q", p.Notes)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"no VM":       {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", []string{"-f", "-"}, clitest.ExitFailed, "standard input: no VirtualMachine"},
		"no argument": {"", nil, clitest.ExitUsage, "name a virtual machine, or a file with -f"},
		"both":        {"", []string{"db", "-f", "-"}, clitest.ExitUsage, "name virtual machines or files, not both"},
		"other type":  {"", []string{"pod/db"}, clitest.ExitUsage, `"pod/db" is not the name of a virtual machine`},
		"absent":      {"", []string{"web"}, clitest.ExitFailed, "reading VirtualMachine shop/web"},
		"output":      {"", []string{"db", "-o", "wide"}, clitest.ExitUsage, `unknown output "wide"`},
	} {
		got := call(t, objects(), test.stdin, test.args...)
		if got.Code != test.code || !strings.Contains(got.ErrOut, test.want) {
			t.Errorf("%s: %d\n%s", name, got.Code, got.ErrOut)
		}
	}
	p := decode(t, call(t, objects(), strings.Replace(manifest("{}"), "db", "new", 1), "-f", "-", "-o", "json")).Plans[0]
	if len(p.Changes) != 0 || len(p.Notes) != 1 || p.Notes[0] != "the virtual machine does not exist yet" {
		t.Errorf("%+v", p)
	}
}

func TestSet(t *testing.T) {
	for name, test := range map[string]struct {
		set    []string
		fields []string
		code   int
		errOut string
	}{
		"relative":      {[]string{"domain.cpu.sockets=4"}, []string{"spec.template.spec.domain.cpu.sockets"}, clitest.ExitOK, ""},
		"two":           {[]string{"domain.cpu.sockets=4", "spec.template.spec.hostname=x"}, []string{"spec.template.spec.domain.cpu.sockets", "spec.template.spec.hostname"}, clitest.ExitOK, ""},
		"removed":       {[]string{"domain.machine-"}, []string{"spec.template.spec.domain.machine"}, clitest.ExitOK, ""},
		"a new object":  {[]string{"domain.devices.tpm={persistent: true}"}, []string{"spec.template.spec.domain.devices.tpm"}, clitest.ExitOK, ""},
		"in a label":    {[]string{"metadata.labels[a.b/c]=d"}, nil, clitest.ExitOK, ""},
		"as it is":      {[]string{"domain.cpu.cores=1", "nodeSelector-"}, nil, clitest.ExitOK, ""},
		"no value":      {[]string{"domain.cpu"}, nil, clitest.ExitUsage, "must be FIELD=VALUE, or FIELD- to remove a field"},
		"no field":      {[]string{"=4"}, nil, clitest.ExitUsage, "has no field"},
		"no YAML":       {[]string{"hostname={"}, nil, clitest.ExitUsage, "the value is not YAML"},
		"no item":       {[]string{"conditions[a].b=1"}, nil, clitest.ExitFailed, "a: the list has no item of this name"},
		"not an object": {[]string{"architecture.x=1"}, nil, clitest.ExitFailed, "architecture is not an object"},
	} {
		t.Run(name, func(t *testing.T) {
			all := objects()
			all[vmPath] = strings.Replace(all[vmPath], "architecture: amd64", "conditions: [], architecture: amd64", 1)
			args := []string{"db", "-o", "json"}
			for _, s := range test.set {
				args = append(args, "--set", s)
			}
			got := call(t, all, "", args...)
			if got.Code != test.code || !strings.Contains(got.ErrOut, test.errOut) {
				t.Fatalf("%d\n%s", got.Code, got.ErrOut)
			}
			if test.code != clitest.ExitOK {
				return
			}
			var fields []string
			for _, c := range decode(t, got).Plans[0].Changes {
				fields = append(fields, c.Field)
			}
			if !slices.Equal(fields, test.fields) {
				t.Errorf("%v", fields)
			}
		})
	}
	if got := call(t, objects(), "", "-f", "-", "--set", "a=1"); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, "--set needs the name of a virtual machine") {
		t.Errorf("%d\n%s", got.Code, got.ErrOut)
	}
}

// TestSetItems holds that items of lists are found by their names.
func TestSetItems(t *testing.T) {
	all := objects()
	for _, path := range []string{vmPath, vmiPath, revisionPath} {
		all[path] = strings.Replace(all[path], "devices: {}", "devices: {disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: scsi}}]}", 1)
		all[path] = strings.Replace(all[path], "architecture: amd64", "architecture: amd64, volumes: [{name: root, containerDisk: {image: root}}, {name: data, containerDisk: {image: data}}]", 1)
	}
	p := decode(t, call(t, all, "", "db", "-o", "json", "--set", "domain.devices.disks[data].disk.bus=virtio", "--set", "domain.devices.disks[root]-")).Plans[0]
	if len(p.Changes) != 2 || p.Changes[0].Field != "spec.template.spec.domain.devices.disks[data].disk.bus" || p.Changes[1].Field != "spec.template.spec.domain.devices.disks[root]" || p.Changes[1].New != "" {
		t.Errorf("%+v", p.Changes)
	}
}
