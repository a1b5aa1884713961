package explain_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/cli/clitest"
)

// inDays is a time of an exception, from now.
func inDays(n int) string {
	return time.Now().AddDate(0, 0, n).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// exceptionFor is an exception from a policy for the VM a, until a time.
func exceptionFor(policy, namespace, until string) string {
	return fmt.Sprintf("---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nmetadata: {name: granted%s}\nspec: {policies: [%s], virtualMachines: [a], reason: year's end, expires: %q}\n", namespace, policy, until)
}

func TestExceptionsOfFiles(t *testing.T) {
	const shop = ", namespace: shop"
	soon, named := inDays(30), "VirtualMachinePolicyException shop/granted "
	for _, c := range []struct {
		name, exception string
		args            []string
		word, note      string
	}{
		{name: "active", exception: exceptionFor("cap", shop, soon), word: "exempted"},
		{name: "in the namespace of the command line", exception: exceptionFor("cap", "", soon), args: []string{"-n", "shop"}, word: "exempted"},
		{name: "in another namespace", exception: exceptionFor("cap", "", soon), word: "rejected"},
		{name: "from another policy", exception: exceptionFor("other", shop, soon), word: "rejected", note: "VirtualMachinePolicyException shop/granted: no policy is named other"},
		{name: "ended", exception: exceptionFor("cap", shop, "2020-01-01T00:00:00Z"), word: "rejected", note: named + `is not active: spec.expires: Invalid value: "2020-01-01T00:00:00Z": must be in the future`},
		{name: "longer than the chart permits", exception: exceptionFor("cap", shop, inDays(91)), word: "rejected", note: "must be at most 90 days in the future"},
		{name: "longer, where the chart permits it", exception: exceptionFor("cap", shop, inDays(91)), args: []string{"--exception-max-days", "365"}, word: "exempted"},
		{name: "longer, without a bound", exception: exceptionFor("cap", shop, inDays(9000)), args: []string{"--exception-max-days", "0"}, word: "exempted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Call(t, clitest.VM+clitest.MemoryPolicy("Deny", "")+c.exception, append([]string{"explain", "-f", "-"}, c.args...)...)
			word, _ := found(got.Out)
			if word != c.word || (got.Code == clitest.ExitOK) != (c.word == "exempted") {
				t.Errorf("code %d, the finding is %q, want %q; errors %q\n%s", got.Code, word, c.word, got.ErrOut, got.Out)
			}
			if noted := strings.Contains(got.Out, "# note: "); noted != (c.note != "") || !strings.Contains(got.Out, c.note) {
				t.Errorf("want the note %q in\n%s", c.note, got.Out)
			}
		})
	}
}

// found returns the word of the finding of the policy cap, and its text.
func found(out string) (word, text string) {
	for line := range strings.Lines(out) {
		if before, after, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": "); ok && strings.HasSuffix(line, "[virtward/policy/cap]\n") {
			return before, after
		}
	}
	return "", ""
}

// Every output says by which exception, until when and why a virtual machine is exempt.
func TestOutputsOfExemptions(t *testing.T) {
	until := inDays(30)
	input := clitest.VM + clitest.MemoryPolicy("Deny", "") + exceptionFor("cap", ", namespace: shop", until)
	by := "exempted until " + until + " by VirtualMachinePolicyException granted: year's end"
	for output, want := range map[string]string{
		"yaml":   `# exempted: spec.template.spec.domain.memory.guest: Invalid value: "1Gi": too much (` + by + ") [virtward/policy/cap]\n",
		"table":  `Exempted  Invalid value: "1Gi": too much (` + by + ")\n",
		"json":   fmt.Sprintf("\"exempted\": {\n        \"exception\": \"granted\",\n        \"until\": %q,\n        \"reason\": \"year's end\"\n      }", until),
		"sarif":  "\"suppressions\": [\n            {\n              \"kind\": \"external\",\n              \"status\": \"accepted\",\n              \"justification\": \"" + by + "\"\n            }\n          ]",
		"junit":  "exempted: spec.template.spec.domain.memory.guest: Invalid value: &#34;1Gi&#34;: too much (exempted until " + until + " by VirtualMachinePolicyException granted: year&#39;s end) [virtward/policy/cap]",
		"github": "title=policy/cap::",
	} {
		t.Run(output, func(t *testing.T) {
			got := clitest.Call(t, input, "explain", "-f", "-", "-o", output)
			text := got.Out
			if output == "junit" { // in a section without escapes, or not
				text = strings.NewReplacer(`"`, "&#34;", "'", "&#39;").Replace(text)
			}
			if got.Code != clitest.ExitOK || !strings.Contains(text, want) {
				t.Errorf("code %d, errors %q; want %s in\n%s", got.Code, got.ErrOut, want, got.Out)
			}
		})
	}
	t.Run("audit", func(t *testing.T) {
		got := clitest.Call(t, input, "audit", "-f", "-", "-o", "json")
		var report struct {
			Violations []struct {
				Exempted struct{ Exception, Reason string }
			}
		}
		if err := json.Unmarshal([]byte(got.Out), &report); err != nil || len(report.Violations) != 1 || report.Violations[0].Exempted.Exception != "granted" || got.Code != clitest.ExitOK {
			t.Errorf("code %d, errors %q, %v\n%s", got.Code, got.ErrOut, err, got.Out)
		}
	})
	t.Run("audit --with", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "exception.yaml")
		if err := os.WriteFile(file, []byte(exceptionFor("cap", ", namespace: shop", until)), 0o600); err != nil {
			t.Fatal(err)
		}
		got := clitest.Call(t, clitest.VM+clitest.MemoryPolicy("Deny", ""), "audit", "-f", "-", "--with", file)
		if !strings.Contains(got.Out, by) || !strings.Contains(got.Out, "gone") || got.Code != clitest.ExitOK {
			t.Errorf("code %d, errors %q\n%s", got.Code, got.ErrOut, got.Out)
		}
	})
}

const (
	exceptionsPath     = "/apis/policy.virtward.io/v1alpha1/virtualmachinepolicyexceptions"
	exceptionsShopPath = "/apis/policy.virtward.io/v1alpha1/namespaces/shop/virtualmachinepolicyexceptions"
)

// An exception of the cluster is active if its status says so: the guard has checked its author.
func TestExceptionsOfTheCluster(t *testing.T) {
	list := func(until, status string) string {
		return fmt.Sprintf(`{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyExceptionList","items":[{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyException",
		"metadata":{"name":"granted","namespace":"shop","generation":2},"spec":{"policies":["cap"],"virtualMachines":["a"],"reason":"r","expires":%q},"status":{%s}}]}`, until, status)
	}
	condition := func(status, reason, message string, generation int) string {
		return fmt.Sprintf(`"conditions":[{"type":"Active","status":%q,"reason":%q,"message":%q,"observedGeneration":%d,"lastTransitionTime":"2026-01-01T00:00:00Z"}]`, status, reason, message, generation)
	}
	active := condition("True", "Active", "", 2)
	const named = "cluster: VirtualMachinePolicyException shop/granted is not active: "
	for _, c := range []struct {
		name       string
		objects    map[string]string
		stdin      string
		args       []string
		word, note string
	}{
		{name: "active", objects: map[string]string{exceptionsPath: list(inDays(300), active)}, word: "exempted"},
		{name: "without the kind", word: "rejected"},
		{name: "without a status", objects: map[string]string{exceptionsPath: list(inDays(30), "")}, word: "rejected", note: named + "its status does not say yet whether the guard has checked its author"},
		{name: "with a status of another spec", objects: map[string]string{exceptionsPath: list(inDays(30), condition("True", "Active", "", 1))}, word: "rejected", note: named + "its status does not say yet whether the guard has checked its author"},
		{name: "not permitted", objects: map[string]string{exceptionsPath: list(inDays(30), condition("False", "NotPermitted", "the guard is missing", 2))}, word: "rejected", note: named + "the guard is missing"},
		{name: "ended since", objects: map[string]string{exceptionsPath: list("2026-01-01T00:00:00Z", active)}, word: "rejected", note: named + "expired at 2026-01-01T00:00:00Z"},
		{name: "replaced by a file", objects: map[string]string{exceptionsPath: list(inDays(30), "")}, stdin: exceptionFor("cap", ", namespace: shop", inDays(30)), word: "exempted"},
		{name: "only of the own namespace", objects: map[string]string{exceptionsPath: clitest.Forbidden, exceptionsShopPath: list(inDays(30), active)}, args: []string{"-n", "shop"}, word: "exempted"},
		{name: "only of another namespace", objects: map[string]string{exceptionsPath: clitest.Forbidden, strings.Replace(exceptionsShopPath, "shop", "lab", 1): `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyExceptionList","items":[]}`}, args: []string{"-n", "lab"}, word: "rejected", note: "VirtualMachinePolicyExceptions of namespaces other than lab are not considered: you may not list them"},
		{name: "none that may be read", objects: map[string]string{exceptionsPath: clitest.Forbidden, exceptionsShopPath: clitest.Forbidden}, args: []string{"-n", "shop"}, word: "rejected", note: "VirtualMachinePolicyExceptions of the cluster are not considered: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := clitest.ClusterObjects()
			maps.Copy(objects, c.objects)
			args := append([]string{"explain", "-f", "-", "--from-cluster", "--kubeconfig", clitest.APIServer(t, objects)}, c.args...)
			got := clitest.Call(t, clitest.VM+clitest.MemoryPolicy("Deny", "")+c.stdin, args...)
			if word, _ := found(got.Out); word != c.word {
				t.Errorf("the finding is %q, want %q; errors %q\n%s", word, c.word, got.ErrOut, got.Out)
			}
			if noted := strings.Contains(got.Out, "Exceptions of") || strings.Contains(got.Out, "is not active"); noted != (c.note != "") || !strings.Contains(got.Out, c.note) {
				t.Errorf("want the note %q in\n%s", c.note, got.Out)
			}
		})
	}
}
