package integrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// warned is a virtual machine with a warning.
const warned = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: old, namespace: shop}
spec:
  running: true
  template: {spec: {domain: {memory: {guest: 1Gi}, devices: {}}}}
`

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		variables map[string]string
		code      int
		says      []string
		reports   []string
	}{
		{
			name:      "all that the files need",
			variables: map[string]string{"VIRTWARD_FILES": "valid, \"tested\"\n\n  instancetypes  \n", "VIRTWARD_POLICIES": "policies"},
			says:      []string{"\nlint:\n1 policy is valid\n", "\ntest:\nok ", "8 passed", "\nexplain:\n"},
			reports:   []string{"explain.sarif", "explain.xml", "lint.sarif", "test.xml"},
		},
		{
			name:      "a rejected virtual machine",
			variables: map[string]string{"VIRTWARD_FILES": "rejected"},
			code:      1,
			says:      []string{"rejected: rejected/vm-arm64.yaml: document 1: VirtualMachine default/legacy: ", "\nerror: failed: explain\n"},
			reports:   []string{"explain.sarif", "explain.xml"},
		},
		{
			name:      "a rejected virtual machine without consequences",
			variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_FAIL_ON": "never"},
			says:      []string{"rejected: "},
			reports:   []string{"explain.sarif", "explain.xml"},
		},
		{
			name:      "a warning",
			variables: map[string]string{"VIRTWARD_FILES": "warned.yaml"},
			says:      []string{"warning: "},
			reports:   []string{"explain.sarif", "explain.xml"},
		},
		{
			name:      "a warning with consequences",
			variables: map[string]string{"VIRTWARD_FILES": "warned.yaml", "VIRTWARD_FAIL_ON": "warning"},
			code:      1,
			says:      []string{"warning: ", "\nerror: failed: explain\n"},
			reports:   []string{"explain.sarif", "explain.xml"},
		},
		{
			name:      "the effect of a policy",
			variables: map[string]string{"VIRTWARD_COMMANDS": "audit\nlint", "VIRTWARD_FILES": "vm-analytics.yaml\ninstancetypes", "VIRTWARD_POLICIES": "policies/memory-limit/policy.yaml"},
			code:      1,
			says:      []string{"what if: --with policies/memory-limit/policy.yaml", "1 of them newly rejected", "no suite in these files has a case for this policy", "\nerror: failed: audit\n"},
			reports:   []string{"audit.sarif", "audit.xml", "lint.sarif"},
		},
		{
			name:      "annotations of GitHub, and a folder for the reports",
			variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_ANNOTATIONS": "true", "VIRTWARD_REPORTS": "out put"},
			code:      1,
			says:      []string{"\n::error file=rejected/vm-arm64.yaml,line=24,col=17,title=arm64-disk-bus::"},
		},
		{
			name:      "a file without a policy is an error also if findings are none",
			variables: map[string]string{"VIRTWARD_COMMANDS": "lint", "VIRTWARD_POLICIES": "rejected", "VIRTWARD_FAIL_ON": "never"},
			code:      1,
			says:      []string{"no VirtualMachinePolicy was found", "\nerror: failed: lint\n"},
		},
		{name: "nothing", code: 2, says: []string{"error: set VIRTWARD_FILES to the manifests of virtual machines, or VIRTWARD_POLICIES to policies\n"}},
		{name: "no such file", variables: map[string]string{"VIRTWARD_FILES": "vms"}, code: 2, says: []string{"error: VIRTWARD_FILES: vms: no such file or directory\n"}},
		{name: "no policies to test", variables: map[string]string{"VIRTWARD_COMMANDS": "test"}, code: 2, says: []string{"error: VIRTWARD_COMMANDS has test, which requires VIRTWARD_POLICIES\n"}},
		{name: "an unknown level", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_FAIL_ON": "note"}, code: 2, says: []string{"error: VIRTWARD_FAIL_ON: note: must be error, warning or never\n"}},
		{name: "an unknown command", variables: map[string]string{"VIRTWARD_COMMANDS": "explain;touch *", "VIRTWARD_FILES": "rejected"}, code: 2, says: []string{"error: VIRTWARD_COMMANDS: explain;touch: must be lint, test, explain or audit\n"}},
		{name: "a flag in place of a folder", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_REPORTS": "-p"}, code: 2, says: []string{"error: VIRTWARD_REPORTS must be the path of a folder\n"}},
		{name: "standard input", variables: map[string]string{"VIRTWARD_FILES": "-"}, code: 2, says: []string{"error: VIRTWARD_FILES: -: no such file or directory\n"}},
		{name: "a command of a shell", variables: map[string]string{"VIRTWARD_FILES": "$(touch evaluated)`touch evaluated`"}, code: 2, says: []string{"$(touch evaluated)`touch evaluated`: no such file or directory\n"}},
		{name: "a URL without a checksum", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_CLI": "https://example.com/cli"}, code: 2, says: []string{"error: VIRTWARD_CLI is a URL: set VIRTWARD_CLI_SHA256 to the checksum of the file\n"}},
		{name: "a URL without TLS", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_CLI": "http://example.com/cli", "VIRTWARD_CLI_SHA256": "00"}, code: 2, says: []string{"error: VIRTWARD_CLI: http://example.com/cli: must be a path or begin with https://\n"}},
		{name: "no such CLI", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_CLI": "bin/cli"}, code: 2, says: []string{"/bin/cli: no such file\n"}},
		{name: "another checksum", variables: map[string]string{"VIRTWARD_FILES": "rejected", "VIRTWARD_CLI_SHA256": "00"}, code: 2, says: []string{"error: VIRTWARD_CLI_SHA256: the checksum of ", ", not 00\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRepository(t)
			printed, code := r.run(t, c.variables, r.script(t, "check"))
			if code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(printed, text) {
					t.Errorf("the output lacks %q", text)
				}
			}
			if got := r.list(t, "virtward-reports"); !slices.Equal(got, c.reports) {
				t.Errorf("the reports are %q, want %q", got, c.reports)
			}
			if _, err := os.Stat(filepath.Join(r.folder, "evaluated")); err == nil {
				t.Error("a shell evaluated a value")
			}
			if t.Failed() {
				t.Log(printed)
			}
		})
	}
}

// TestCheckCLI runs a CLI that is not in the PATH.
func TestCheckCLI(t *testing.T) {
	r := newRepository(t)
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(r.folder, "kubectl-virtward")
	if err := os.Symlink(this, program); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(this)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	checksum := hex.EncodeToString(sum[:])
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/plain" {
			http.Redirect(w, req, "http://example.com/kubectl-virtward", http.StatusFound)
			return
		}
		http.ServeFile(w, req, this)
	}))
	t.Cleanup(server.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, cli, sum string
		code           int
		says           string
	}{
		{"a path of the repository", "kubectl-virtward", checksum, 0, "\nexplain:\n"},
		{"an absolute path", program, "", 0, "\nexplain:\n"},
		{"a URL", server.URL + "/kubectl-virtward", checksum, 0, "\nexplain:\n"},
		{"another file", server.URL + "/kubectl-virtward", strings.Repeat("0", 64), 2, "error: VIRTWARD_CLI_SHA256: the checksum of "},
		{"a redirect to plain HTTP", server.URL + "/plain", checksum, 2, ": the download failed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath("curl"); err != nil && strings.HasPrefix(c.cli, "https:") {
				t.Skip("curl is not in the PATH")
			}
			printed, code := r.run(t, map[string]string{
				"VIRTWARD_FILES": "warned.yaml", "VIRTWARD_CLI": c.cli, "VIRTWARD_CLI_SHA256": c.sum, "CURL_CA_BUNDLE": authority, "NO_PROXY": "127.0.0.1",
			}, r.script(t, "check"))
			if code != c.code || !strings.Contains(printed, c.says) {
				t.Errorf("code %d, and the output is\n%s", code, printed)
			}
		})
	}
}

// TestCheckOnGitHub has what GitHub reads: outputs, annotations, and no command that a file contains.
func TestCheckOnGitHub(t *testing.T) {
	r := newRepository(t)
	name := "::add-mask::a.yaml"
	r.write(t, name, "a: [")
	annotation := regexp.MustCompile(`^::(error|warning|notice) file=`)
	for _, annotations := range []string{"false", "true"} {
		outputs := filepath.Join(t.TempDir(), "outputs")
		printed, code := r.run(t, map[string]string{
			"VIRTWARD_COMMANDS": "audit explain", "VIRTWARD_FILES": "valid, \"tested\"\n" + name, "VIRTWARD_POLICIES": "policies",
			"VIRTWARD_ANNOTATIONS": annotations, "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": outputs,
		}, r.script(t, "check"))
		if code != 1 {
			t.Errorf("code %d", code)
		}
		stopped, annotated := "", false
		for line := range strings.Lines(printed) {
			line = strings.TrimSpace(line)
			switch token, stops := strings.CutPrefix(line, "::stop-commands::"); {
			case stops && stopped == "":
				stopped = token
			case stopped != "" && line == "::"+stopped+"::":
				stopped = ""
			case stopped == "" && annotation.MatchString(line):
				annotated = true
			case stopped == "" && strings.HasPrefix(line, "::"):
				t.Errorf("GitHub executes %q", line)
			}
		}
		if stopped != "" || annotated != (annotations == "true") || !strings.Contains(printed, name) {
			t.Errorf("commands are still stopped at the end, the annotations are wrong, or the file is not in the output:\n%s", printed)
		}
		want := "audit-sarif=virtward-reports/audit.sarif\naudit-junit=virtward-reports/audit.xml\n" +
			"explain-sarif=virtward-reports/explain.sarif\nexplain-junit=virtward-reports/explain.xml\n"
		if got, err := os.ReadFile(outputs); err != nil || string(got) != want {
			t.Errorf("the outputs are %q, %v", got, err)
		}
	}
}

// repository is a folder with manifests and policies.
type repository struct{ folder, programs string }

func newRepository(t *testing.T) *repository {
	t.Helper()
	r := &repository{folder: t.TempDir(), programs: t.TempDir()}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(this, filepath.Join(r.programs, "kubectl-virtward")); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{
		"policies/memory-limit/policy.yaml":     "policy/memory-limit/policy.yaml",
		"policies/memory-limit/suite.yaml":      "policy/memory-limit/suite.yaml",
		"instancetype-m1-large.yaml":            "instancetype-m1-large.yaml",
		"instancetype-u1-medium.yaml":           "instancetype-u1-medium.yaml",
		"instancetypes/m1.yaml":                 "instancetype-m1-large.yaml",
		"valid, \"tested\"/below/vm-arm64.yaml": "vm-arm64.yaml",
		"rejected/vm-arm64.yaml":                "rejected/vm-arm64.yaml",
		"vm-analytics.yaml":                     "vm-analytics.yaml",
	} {
		content, err := os.ReadFile(filepath.Join("..", "examples", from))
		if err != nil {
			t.Fatal(err)
		}
		r.write(t, to, string(content))
	}
	r.write(t, "warned.yaml", warned)
	return r
}

func (r *repository) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(r.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// list returns the names in a folder, and nil if there is none.
func (r *repository) list(t *testing.T, folder string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.folder, folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names
}

// script returns the path of a script of this folder. It reads the script, so that the result is not cached after a change.
func (r *repository) script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a program in the repository, with only these variables.
func (r *repository) run(t *testing.T, variables map[string]string, program string, args ...string) (printed string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = r.folder
	cmd.Env = []string{"PATH=" + r.programs + ":" + os.Getenv("PATH"), "HOME=" + r.folder}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		cmd.Env = append(cmd.Env, name+"="+variables[name])
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// read is the variables that a script reads.
func read(script string) (names []string) {
	for _, found := range regexp.MustCompile(`\$\{(VIRTWARD_[A-Z0-9_]+):-`).FindAllStringSubmatch(script, -1) {
		names = append(names, found[1])
	}
	slices.Sort(names)
	return names
}
