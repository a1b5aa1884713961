package cli

import (
	"maps"
	"strings"
	"testing"
)

// sata is a VM of arm64 in the namespace shop with a finding of arm64-disk-bus, and no other.
const sata = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      architecture: arm64
      domain:
        devices: {disks: [{name: root, disk: {bus: sata}}]}
        memory: {guest: 1Gi}
      volumes: [{name: root, containerDisk: {image: registry.example/a}}]
`

// ruleSettings is an object with one entry, for some namespaces if a label is given.
func ruleSettings(name, severity, label string) string {
	selector := ""
	if label != "" {
		selector = ", namespaceSelector: {matchLabels: {" + label + "}}"
	}
	return "---\napiVersion: policy.virtward.io/v1alpha1\nkind: RuleSettings\nmetadata: {name: " + name + "}\nspec: {rules: [{rule: arm64-disk-bus, severity: \"" + severity + "\"" + selector + "}]}\n"
}

func TestSeveritiesOfFiles(t *testing.T) {
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
	for _, c := range []struct {
		name, settings string
		// word is that of the finding; empty if there is none.
		word string
	}{
		{"none", "", "rejected"},
		{"everywhere", ruleSettings("s", "Warn", ""), "warning"},
		{"off", ruleSettings("s", "Off", ""), ""},
		{"by the name of the namespace", ruleSettings("s", "Warn", "kubernetes.io/metadata.name: shop"), "warning"},
		{"by the name of another namespace", ruleSettings("s", "Warn", "kubernetes.io/metadata.name: lab"), "rejected"},
		{"by a label", ruleSettings("s", "Warn", "team: a") + namespace, "warning"},
		{"by a label that is not known", ruleSettings("s", "Warn", "team: a"), "rejected"},
		{"the strictest", ruleSettings("s", "Off", "") + ruleSettings("t", "Warn", ""), "warning"},
		{"the more specific", ruleSettings("s", "Deny", "") + ruleSettings("t", "Off", "team: a") + namespace, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := call(t, sata+c.settings, "explain", "-f", "-")
			wantCode := exitOK
			if c.word == "rejected" {
				wantCode = exitFailed
			}
			word, found := wordOf(got.out, "arm64-disk-bus")
			if got.code != wantCode || word != c.word || found != (c.word != "") {
				t.Errorf("code %d, errors %q, the finding is %q, want %q", got.code, got.errOut, word, c.word)
			}
			if strings.Contains(got.errOut, "passed over") {
				t.Errorf("what decides about severities is not used: %s", got.errOut)
			}
		})
	}
}

// wordOf is what stands before the first finding of a rule: rejected or warning.
func wordOf(out, rule string) (string, bool) {
	for line := range strings.Lines(out) {
		if strings.HasSuffix(line, "[virtward/"+rule+"]\n") {
			word, _, _ := strings.Cut(strings.TrimPrefix(line, "# "), ":")
			return word, true
		}
	}
	return "", false
}

func TestSeveritiesOfTheCluster(t *testing.T) {
	const (
		settingsPath  = "/apis/policy.virtward.io/v1alpha1/rulesettings"
		namespacePath = "/api/v1/namespaces/shop"
		ofTeam        = `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"RuleSettingsList","items":[{"apiVersion":"policy.virtward.io/v1alpha1","kind":"RuleSettings","metadata":{"name":"s"},
			"spec":{"rules":[{"rule":"arm64-disk-bus","severity":"Warn","namespaceSelector":{"matchLabels":{"team":"a"}}}]}}]}`
		shop = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","labels":{"team":"a"}}}`
	)
	for _, c := range []struct {
		name    string
		objects map[string]string
		stdin   string
		word    string
		// told is a note or a warning.
		told string
	}{
		{name: "by a label", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, word: "warning"},
		{name: "the namespace does not exist yet", objects: map[string]string{settingsPath: ofTeam}, word: "rejected"},
		{name: "the namespace of the files", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, stdin: "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", word: "rejected"},
		{name: "the settings of the files", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, stdin: ruleSettings("s", "Off", ""), word: ""},
		{name: "settings that may not be read", objects: map[string]string{settingsPath: forbidden}, word: "rejected", told: "note: RuleSettings are not considered: you may not"},
		{name: "a namespace that may not be read", objects: map[string]string{settingsPath: ofTeam, namespacePath: forbidden}, word: "rejected", told: "warning: RuleSettings that select the namespace shop by its labels are not considered: you may not"},
		{name: "settings of another version", objects: map[string]string{settingsPath: strings.ReplaceAll(ofTeam, `"severity":"Warn"`, `"severity":7`)}, word: "rejected", told: "note: RuleSettings s is not considered: spec.rules[0].severity: is the number 7 where a text is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := clusterObjects()
			maps.Copy(objects, c.objects)
			got := call(t, sata+c.stdin, "explain", "-f", "-", "--from-cluster", "--kubeconfig", api(t, objects))
			if word, _ := wordOf(got.out, "arm64-disk-bus"); word != c.word {
				t.Errorf("the finding is %q, want %q; errors %q", word, c.word, got.errOut)
			}
			if told := strings.Count(got.out, " considered: "); !strings.Contains(got.out, "\n# "+c.told) || (told > 0) != (c.told != "") {
				t.Errorf("%d lines tell of settings that are not considered, want %q:\n%s", told, c.told, got.out)
			}
		})
	}
}

// TestVMIOfTheCluster has the labels that KubeVirt gave it, which only KubeVirt may.
func TestVMIOfTheCluster(t *testing.T) {
	const vmi = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"db","namespace":"shop","labels":{"kubevirt.io/nodeName":"n","kubevirt.io/created-by":"u"}},
		"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"}}}}`
	objects := clusterObjects()
	objects["/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db"] = vmi
	if got := call(t, "", "explain", "vmi/db", "--kubeconfig", api(t, objects)); got.code != exitOK {
		t.Errorf("code %d, errors %q", got.code, got.errOut)
	}
	if got := call(t, vmi, "explain", "-f", "-"); got.code != exitFailed || !strings.Contains(got.out, "[virtward/metadata-reserved-labels]") {
		t.Errorf("an author may use KubeVirt's labels: code %d, errors %q", got.code, got.errOut)
	}
}
