package cli

import (
	"strings"
	"testing"
)

// plain is a VM in the namespace shop that says little.
const plain = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        devices: {}
        memory: {guest: 1Gi}
`

// siteDefaults is an object that names a scheduler, for some namespaces if a label is given.
func siteDefaults(name, label string) string {
	selector := ""
	if label != "" {
		selector = "match: {namespaceSelector: {matchLabels: {" + label + "}}}, "
	}
	return "---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: " + name + "}\nspec: {" + selector + "template: {schedulerName: " + name + "-scheduler}}\n"
}

func TestDefaultsOfFiles(t *testing.T) {
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
	for name, test := range map[string]struct{ objects, want string }{
		"none":                                {"", ""},
		"everywhere":                          {siteDefaults("s", ""), "schedulerName: s-scheduler # site/s"},
		"the first by name":                   {siteDefaults("t", "") + siteDefaults("s", ""), "schedulerName: s-scheduler # site/s"},
		"by the name of the namespace":        {siteDefaults("s", "kubernetes.io/metadata.name: shop"), "schedulerName: s-scheduler # site/s"},
		"by the name of another":              {siteDefaults("s", "kubernetes.io/metadata.name: lab"), ""},
		"by a label, before what is for all":  {siteDefaults("a", "") + siteDefaults("s", "team: a") + namespace, "schedulerName: s-scheduler # site/s"},
		"by a label that is not known":        {siteDefaults("a", "") + siteDefaults("s", "team: a"), "schedulerName: a-scheduler # site/a"},
		"by a label that the namespace lacks": {siteDefaults("s", "team: b") + namespace, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := call(t, plain+test.objects, "explain", "-f", "-")
			if got.code != exitOK || got.errOut != "" {
				t.Fatalf("code %d, errors %q", got.code, got.errOut)
			}
			if test.want == "" && strings.Contains(got.out, "schedulerName") || !strings.Contains(got.out, test.want) {
				t.Errorf("want %q in\n%s", test.want, got.out)
			}
		})
	}
}

// A VM that a cluster has stored, as the file tells, gets nothing for its scheduling any more.
func TestDefaultsOfAStoredVM(t *testing.T) {
	const selecting = "---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: s}\nspec: {template: {nodeSelector: {pool: vms}, schedulerName: own}}\n"
	written := call(t, plain+selecting, "explain", "-f", "-", "-o", "table")
	if !strings.Contains(written.out, "nodeSelector") || !strings.Contains(written.out, "site/s") {
		t.Errorf("a new VM: %s", written.out)
	}
	stored := call(t, strings.Replace(plain, "{name: a,", `{name: a, resourceVersion: "7",`, 1)+selecting, "explain", "-f", "-", "-o", "table")
	if strings.Contains(stored.out, "nodeSelector") || !strings.Contains(stored.out, "schedulerName") {
		t.Errorf("a stored VM: %s", stored.out)
	}
}

func TestDefaultsThatCannotBeUsed(t *testing.T) {
	got := call(t, plain+"---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: s}\nspec: {template: {scheduler: s}, matches: {}}\n", "explain", "-f", "-")
	for _, want := range []string{
		"VirtualMachineDefaults s: unknown field spec.matches",
		"VirtualMachineDefaults s has no effect: spec.template.scheduler: Invalid value: there is no such field in the spec of a virtual machine instance",
	} {
		if !strings.Contains(got.out, want) || got.code != exitOK {
			t.Errorf("code %d, want %q in\n%s", got.code, want, got.out)
		}
	}
	older := call(t, plain+strings.Replace(siteDefaults("s", ""), "v1alpha1", "v1", 1), "explain", "-f", "-")
	if want := "apiVersion: policy.virtward.io/v1 is not a version that Virtward serves VirtualMachineDefaults in: use policy.virtward.io/v1alpha1"; older.code != exitFailed || !strings.Contains(older.errOut, want) {
		t.Errorf("code %d, errors %q", older.code, older.errOut)
	}
}
