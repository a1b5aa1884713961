package explain_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

func TestSeveritiesOfFiles(t *testing.T) {
	const namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n"
	for _, c := range []struct {
		name, settings string
		// word is that of the finding; empty if there is none.
		word string
	}{
		{"none", "", "rejected"},
		{"everywhere", clitest.RuleSettings("s", "Warn", ""), "warning"},
		{"off", clitest.RuleSettings("s", "Off", ""), ""},
		{"by the name of the namespace", clitest.RuleSettings("s", "Warn", "kubernetes.io/metadata.name: shop"), "warning"},
		{"by the name of another namespace", clitest.RuleSettings("s", "Warn", "kubernetes.io/metadata.name: lab"), "rejected"},
		{"by a label", clitest.RuleSettings("s", "Warn", "team: a") + namespace, "warning"},
		{"by a label that is not known", clitest.RuleSettings("s", "Warn", "team: a"), "rejected"},
		{"the strictest", clitest.RuleSettings("s", "Off", "") + clitest.RuleSettings("t", "Warn", ""), "warning"},
		{"the more specific", clitest.RuleSettings("s", "Deny", "") + clitest.RuleSettings("t", "Off", "team: a") + namespace, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, clitest.VMWithSATA+c.settings, "explain", "-f", "-")
			wantCode := clitest.ExitOK
			if c.word == "rejected" {
				wantCode = clitest.ExitFailed
			}
			word, found := wordOf(got.Out, "arm64-disk-bus")
			if got.Code != wantCode || word != c.word || found != (c.word != "") {
				t.Errorf("code %d, errors %q, the finding is %q, want %q", got.Code, got.ErrOut, word, c.word)
			}
			if strings.Contains(got.ErrOut, "skipped") {
				t.Errorf("what decides about severities is not used: %s", got.ErrOut)
			}
		})
	}
}

// wordOf returns the word before the first finding of a rule: rejected or warning.
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
		// want is a note or a warning.
		want string
	}{
		{name: "by a label", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, word: "warning"},
		{name: "the namespace does not exist yet", objects: map[string]string{settingsPath: ofTeam}, word: "rejected"},
		{name: "the namespace of the files", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, stdin: "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", word: "rejected"},
		{name: "the settings of the files", objects: map[string]string{settingsPath: ofTeam, namespacePath: shop}, stdin: clitest.RuleSettings("s", "Off", ""), word: ""},
		{name: "settings that may not be read", objects: map[string]string{settingsPath: clitest.Forbidden}, word: "rejected", want: "note: RuleSettings of the cluster are not considered: you may not list them: "},
		{name: "a namespace that may not be read", objects: map[string]string{settingsPath: ofTeam, namespacePath: clitest.Forbidden}, word: "rejected", want: "warning: RuleSettings that select the namespace shop by its labels are not considered: you may not"},
		{name: "settings of another version", objects: map[string]string{settingsPath: strings.ReplaceAll(ofTeam, `"severity":"Warn"`, `"severity":7`)}, word: "rejected", want: "note: RuleSettings s is not considered: spec.rules[0].severity: is the number 7 where a text is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := clitest.ClusterObjects()
			maps.Copy(objects, c.objects)
			got := clitest.Call(t, clitest.VMWithSATA+c.stdin, "explain", "-f", "-", "--from-cluster", "--kubeconfig", clitest.APIServer(t, objects))
			if word, _ := wordOf(got.Out, "arm64-disk-bus"); word != c.word {
				t.Errorf("the finding is %q, want %q; errors %q", word, c.word, got.ErrOut)
			}
			if lines := strings.Count(got.Out, " considered: "); !strings.Contains(got.Out, "\n# "+c.want) || (lines > 0) != (c.want != "") {
				t.Errorf("%d lines about settings that are not considered, want %q:\n%s", lines, c.want, got.Out)
			}
		})
	}
}

// TestVMIOfTheCluster has the labels that KubeVirt gave it, which only KubeVirt may.
func TestVMIOfTheCluster(t *testing.T) {
	const vmi = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance","metadata":{"name":"db","namespace":"shop","labels":{"kubevirt.io/nodeName":"n","kubevirt.io/created-by":"u"}},
		"spec":{"domain":{"devices":{},"memory":{"guest":"1Gi"}}}}`
	objects := clitest.ClusterObjects()
	objects["/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db"] = vmi
	if got := clitest.Call(t, "", "explain", "vmi/db", "--kubeconfig", clitest.APIServer(t, objects)); got.Code != clitest.ExitOK {
		t.Errorf("code %d, errors %q", got.Code, got.ErrOut)
	}
	if got := clitest.Call(t, vmi, "explain", "-f", "-"); got.Code != clitest.ExitFailed || !strings.Contains(got.Out, "[virtward/metadata-reserved-labels]") {
		t.Errorf("an author may use KubeVirt's labels: code %d, errors %q", got.Code, got.ErrOut)
	}
}
