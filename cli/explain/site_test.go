package explain_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

func TestDefaultsOfFiles(t *testing.T) {
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
	for name, test := range map[string]struct{ objects, want string }{
		"none":                                {"", ""},
		"everywhere":                          {clitest.SiteDefaults("s", ""), "schedulerName: s-scheduler # site/s"},
		"the first by name":                   {clitest.SiteDefaults("t", "") + clitest.SiteDefaults("s", ""), "schedulerName: s-scheduler # site/s"},
		"by the name of the namespace":        {clitest.SiteDefaults("s", "kubernetes.io/metadata.name: shop"), "schedulerName: s-scheduler # site/s"},
		"by the name of another":              {clitest.SiteDefaults("s", "kubernetes.io/metadata.name: lab"), ""},
		"by a label, before what is for all":  {clitest.SiteDefaults("a", "") + clitest.SiteDefaults("s", "team: a") + namespace, "schedulerName: s-scheduler # site/s"},
		"by a label that is not known":        {clitest.SiteDefaults("a", "") + clitest.SiteDefaults("s", "team: a"), "schedulerName: a-scheduler # site/a"},
		"by a label that the namespace lacks": {clitest.SiteDefaults("s", "team: b") + namespace, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := clitest.Call(t, clitest.VM+test.objects, "explain", "-f", "-")
			if got.Code != clitest.ExitOK || got.ErrOut != "" {
				t.Fatalf("code %d, errors %q", got.Code, got.ErrOut)
			}
			if test.want == "" && strings.Contains(got.Out, "schedulerName") || !strings.Contains(got.Out, test.want) {
				t.Errorf("want %q in\n%s", test.want, got.Out)
			}
		})
	}
}

// A VM that a cluster has stored, as the file tells, gets nothing for its scheduling any more.
func TestDefaultsOfAStoredVM(t *testing.T) {
	const selecting = "---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: s}\nspec: {template: {nodeSelector: {pool: vms}, schedulerName: own}}\n"
	written := clitest.Call(t, clitest.VM+selecting, "explain", "-f", "-", "-o", "table")
	if !strings.Contains(written.Out, "nodeSelector") || !strings.Contains(written.Out, "site/s") {
		t.Errorf("a new VM: %s", written.Out)
	}
	stored := clitest.Call(t, strings.Replace(clitest.VM, "{name: a,", `{name: a, resourceVersion: "7",`, 1)+selecting, "explain", "-f", "-", "-o", "table")
	if strings.Contains(stored.Out, "nodeSelector") || !strings.Contains(stored.Out, "schedulerName") {
		t.Errorf("a stored VM: %s", stored.Out)
	}
}

func TestDefaultsThatCannotBeUsed(t *testing.T) {
	got := clitest.Call(t, clitest.VM+"---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: s}\nspec: {template: {scheduler: s}}\n", "explain", "-f", "-")
	if want := "VirtualMachineDefaults s has no effect: spec.template.scheduler: Invalid value: there is no such field in the spec of a virtual machine instance"; !strings.Contains(got.Out, want) || got.Code != clitest.ExitOK {
		t.Errorf("code %d, want %q in\n%s", got.Code, want, got.Out)
	}
	older := clitest.Call(t, clitest.VM+strings.Replace(clitest.SiteDefaults("s", ""), "v1alpha1", "v1", 1), "explain", "-f", "-")
	if want := `apiVersion: no matches for kind "VirtualMachineDefaults" in version "policy.virtward.io/v1": use policy.virtward.io/v1alpha1`; older.Code != clitest.ExitFailed || !strings.Contains(older.ErrOut, want) {
		t.Errorf("code %d, errors %q", older.Code, older.ErrOut)
	}
}
