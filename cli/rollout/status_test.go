package rollout_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
)

const listPath = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines"

// fleet is three VMs: db has a changed host name and no annotation, web has an annotation, and old is stopped.
func fleet(t *testing.T) map[string]string {
	t.Helper()
	all := objects()
	all[vmPath] = strings.Replace(all[vmPath], "architecture: amd64", "hostname: x, architecture: amd64", 1)
	pending := v1alpha1.Pending{Generation: 4, RestartRequired: "TemplateChanged", Changes: []v1alpha1.PendingChange{
		{Fields: []string{"spec.template.spec.domain.cpu.sockets"}, Takes: "LiveOnMigration", Reason: "It migrates.", Since: ago(10 * time.Minute)},
		{Fields: []string{"spec.template.spec.domain.machine.type", "spec.template.spec.hostname", "spec.template.spec.subdomain"}, More: 4, Takes: "Restart", Reason: "Only at the start.", WayOut: "Restart it.", Since: ago(49 * time.Hour)},
	}}
	web := func(generation int, annotation string) string {
		return fmt.Sprintf(`{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: web, namespace: shop, uid: "2", generation: %d, annotations: {rollout.virtward.io/pending: %s}},
			spec: %s, status: {created: true, conditions: [{type: RestartRequired, status: "True", message: a non-live-updatable field was changed}]}}`, generation, quoted(t, annotation), spec)
	}
	all["/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/web"] = web(4, pending.String())
	all["/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/behind"] = strings.ReplaceAll(web(5, pending.String()), "name: web", "name: behind")
	all["/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/forged"] = strings.ReplaceAll(web(4, "?"), "name: web", "name: forged")
	all["/apis/kubevirt.io/v1/namespaces/shop/virtualmachines/old"] = strings.NewReplacer(`uid: "1"`, `uid: "3"`, "name: db", "name: old").Replace(objects()[vmPath])
	var items []string
	for _, name := range []string{"db", "old", "web"} {
		items = append(items, all[listPath+"/"+name])
	}
	all[listPath] = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineList, items: [" + strings.Join(items, ", ") + "]}"
	all["/apis/kubevirt.io/v1/virtualmachines"] = all[listPath]
	return all
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }

func quoted(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func run(t *testing.T, objects map[string]string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append(append([]string{"rollout"}, args...), "--server", serve(t, objects), "-n", "shop")...)
}

func TestStatusTable(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"the namespace": {[]string{"status"}, `
NAME   TAKES             FIELDS                                   SINCE
db     Restart           hostname                                 unknown
web    LiveOnMigration   domain.cpu.sockets                       10m
web    Restart           domain.machine.type, hostname and 5 more 2d1h
2 of 2 running virtual machines have pending changes.
`},
		"all namespaces": {[]string{"status", "-A"}, `
NAMESPACE   NAME   TAKES             FIELDS                                   SINCE
shop        db     Restart           hostname                                 unknown
shop        web    LiveOnMigration   domain.cpu.sockets                       10m
shop        web    Restart           domain.machine.type, hostname and 5 more 2d1h
2 of 2 running virtual machines have pending changes.
`},
		"wide": {[]string{"status", "vm/web", "old", "-o", "wide"}, `
NAME   TAKES             FIELDS                                                SINCE   KUBEVIRT          REASON
web    LiveOnMigration   domain.cpu.sockets                                    10m     RestartRequired   It migrates.
web    Restart           domain.machine.type, hostname, subdomain and 4 more   2d1h    RestartRequired   Only at the start. Restart it.
old    –                 –                                                     –       –                 it does not run
`},
		"an annotation that is behind, and one that cannot be read": {[]string{"status", "behind", "forged"}, `
NAME     TAKES   FIELDS   SINCE
behind   –       –        –
forged   –       –        –
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, fleet(t), test.args...)
			want := strings.TrimPrefix(test.want, "\n")
			squeeze := func(text string) string { // the writer of tables aligns columns
				var lines []string
				for line := range strings.Lines(text) {
					lines = append(lines, strings.Join(strings.Fields(line), " "))
				}
				return strings.Join(lines, "\n")
			}
			if diff := cmp.Diff(squeeze(want), squeeze(got.Out)); diff != "" || got.Code != clitest.ExitOK {
				t.Errorf("%d (-want +got):\n%s\n%s%s", got.Code, diff, got.Out, got.ErrOut)
			}
		})
	}
}

func TestStatusJSON(t *testing.T) {
	var all struct {
		VirtualMachines []struct {
			Namespace, Name, From, RestartRequired string
			Running                                bool
			Pending                                []v1alpha1.PendingChange
		}
	}
	got := run(t, fleet(t), "status", "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &all); err != nil || len(all.VirtualMachines) != 3 {
		t.Fatalf("%v\n%s%s", err, got.Out, got.ErrOut)
	}
	db, old, web := all.VirtualMachines[0], all.VirtualMachines[1], all.VirtualMachines[2]
	if db.From != "plan" || !db.Running || len(db.Pending) != 1 || db.Pending[0].Fields[0] != "spec.template.spec.hostname" || !db.Pending[0].Since.IsZero() {
		t.Errorf("%+v", db)
	}
	if old.Running || len(old.Pending) != 0 {
		t.Errorf("%+v", old)
	}
	if web.From != "annotation" || len(web.Pending) != 2 || web.Pending[1].More != 4 || web.Pending[1].Since.IsZero() || web.RestartRequired != "a non-live-updatable field was changed" {
		t.Errorf("%+v", web)
	}
	fromYAML := run(t, fleet(t), "status", "-o", "yaml")
	other := all
	if err := yaml.Unmarshal([]byte(fromYAML.Out), &other); err != nil || len(other.VirtualMachines) != 3 || other.VirtualMachines[2].From != "annotation" {
		t.Errorf("%v\n%s", err, fromYAML.Out)
	}
}

func TestStatusExits(t *testing.T) {
	unreadable := fleet(t)
	unreadable[vmiPath] = clitest.Forbidden
	empty := fleet(t)
	empty[listPath] = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineList, items: []}"
	for name, test := range map[string]struct {
		objects map[string]string
		args    []string
		code    int
		want    string
	}{
		"a restart is pending":    {fleet(t), []string{"--fail-on", "restart"}, clitest.ExitFailed, "error: changes of --fail-on: 8 Restart\n"},
		"nothing of it":           {fleet(t), []string{"--fail-on", "never,blocked"}, clitest.ExitOK, ""},
		"none":                    {empty, nil, clitest.ExitOK, "0 of 0 running virtual machines have pending changes.\n"},
		"an unknown value":        {fleet(t), []string{"--fail-on", "reboot"}, clitest.ExitUsage, "unknown value of --fail-on"},
		"an unknown output":       {fleet(t), []string{"-o", "text"}, clitest.ExitUsage, `unknown output "text"`},
		"names and a selector":    {fleet(t), []string{"db", "-l", "a=b"}, clitest.ExitUsage, "name virtual machines, or use -A or -l"},
		"no virtual machine":      {fleet(t), []string{"pod/db"}, clitest.ExitUsage, `"pod/db" is not the name of a virtual machine`},
		"one that does not exist": {fleet(t), []string{"missing"}, clitest.ExitFailed, "reading VirtualMachine shop/missing"},
		"one that is not known":   {unreadable, nil, clitest.ExitFailed, "1 virtual machines could not be compared"},
	} {
		got := run(t, test.objects, append([]string{"status"}, test.args...)...)
		if got.Code != test.code || !strings.Contains(got.Out+got.ErrOut, test.want) {
			t.Errorf("%s: %d\n%s%s", name, got.Code, got.Out, got.ErrOut)
		}
	}
}

func TestDiff(t *testing.T) {
	all := fleet(t)
	all[vmPath] = strings.Replace(all[vmPath], "devices: {}", "devices: {disks: [{name: init, disk: {bus: virtio}}]}", 1)
	all[vmPath] = strings.Replace(all[vmPath], "architecture: amd64", "architecture: amd64, volumes: [{name: init, cloudInitNoCloud: {userData: my password}}]", 1)
	got := run(t, all, "diff", "db")
	const want = `--- shop/db (runs)
+++ shop/db (written)
@@ spec.template.spec.hostname: Restart @@
+x
@@ spec.template.spec.volumes[init]: Restart @@
+cloudInitNoCloud:
+  userData: text of 11 bytes
+name: init
@@ spec.template.spec.domain.devices.disks[init]: Restart @@
+disk:
+  bus: virtio
+name: init
`
	if diff := cmp.Diff(want, got.Out); diff != "" || got.Code != clitest.ExitFailed || got.ErrOut != "error: what runs differs from what is written\n" {
		t.Errorf("%d (-want +got):\n%s%s", got.Code, diff, got.ErrOut)
	}
	if got := run(t, objects(), "diff", "db"); got.Code != clitest.ExitOK || got.Out+got.ErrOut != "" {
		t.Errorf("no difference: %d\n%s%s", got.Code, got.Out, got.ErrOut)
	}
	if got := run(t, objects(), "diff"); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, "name a virtual machine") {
		t.Errorf("no name: %d\n%s", got.Code, got.ErrOut)
	}
}

func TestCompletion(t *testing.T) {
	all := fleet(t)
	for _, command := range []string{"status", "diff", "plan"} {
		got := clitest.Call(t, "", "__complete", "rollout", command, "--server", serve(t, all), "-n", "shop", "")
		if !strings.HasPrefix(got.Out, "db\nold\nweb\n") {
			t.Errorf("%s: %q", command, got.Out)
		}
	}
}
