package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/virtward/virtward/cli/clitest"
)

// escapes are sequences that terminals interpret, as JSON. They clear the screen, set the title, and go back to the beginning of the line.
const escapes = `\u001b[2J\u001b]0;title\u0007\r\u009b31m\u007f`

// TestHostileAPIServer holds that no command prints control characters that an API server sends, in names, messages and warnings.
func TestHostileAPIServer(t *testing.T) {
	object := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db` + escapes + `","namespace":"shop` + escapes + `"},
		"spec":{"runStrategy":"` + escapes + `","template":{"spec":{"architecture":"` + escapes + `","domain":{"devices":{"disks":[{"name":"` + escapes + `","disk":{"bus":"` + escapes + `"}}]}}}}},
		"status":{"phase":"` + escapes + `","conditions":[{"type":"Ready","status":"False","reason":"` + escapes + `","message":"` + escapes + `"}]}}`
	status := `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"you may not ` + escapes + `"}`
	for name, answer := range map[string]struct {
		code int
		body string
	}{
		"objects": {http.StatusOK, object},
		"lists":   {http.StatusOK, `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineList","metadata":{},"items":[` + object + `]}`},
		"errors":  {http.StatusForbidden, status},
		"texts":   {http.StatusInternalServerError, "\x1b[2J it failed \x9b"},
	} {
		t.Run(name, func(t *testing.T) {
			shown := 0
			for _, args := range [][]string{
				{"audit"},
				{"audit", "-o", "yaml"},
				{"audit", "-o", "json"},
				{"explain", "vm/db"},
				{"explain", "vm/db", "-o", "yaml"},
				{"explain", "vm/db", "-o", "pod"},
				{"status"},
				{"uninstall", "--dry-run"},
				{"uninstall", "--dry-run", "-o", "yaml"},
				{"template", "list"},
				{"template", "process", "fedora"},
				{"golden", "list"},
				{"golden", "status"},
				{"image", "list"},
				{"rollout", "status", "db"},
				{"rollout", "diff", "db"},
				{"policy", "exempt", "db"},
				{"__complete", "explain", ""},
				{"__complete", "template", "process", ""},
			} {
				got := clitest.Call(t, "", append(slices.Clone(args), "--kubeconfig", hostileServer(t, answer.code, answer.body))...)
				for stream, text := range map[string]string{"output": got.Out, "errors": got.ErrOut} {
					if i := strings.IndexFunc(text, isControl); i >= 0 || !utf8.ValidString(text) {
						t.Errorf("%v: the %s has control characters: %.300q", args, stream, text[max(0, i):])
					}
				}
				if strings.Contains(got.Out+got.ErrOut, "[2J") {
					shown++
				}
			}
			if shown == 0 && name != "texts" { // otherwise this test shows nothing; client-go does not show the text of an error
				t.Error("no command shows what the server sends")
			}
		})
	}
}

func isControl(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || 0x7f <= r && r < 0xa0
}

// hostileServer answers each request the same. It returns a kubeconfig.
func hostileServer(t *testing.T, code int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "a warning `+"\u009b31m"+`"`)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the client is gone if this fails
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '%s'}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\nusers: [{name: u, user: {token: secret}}]\n", server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// TestRedirectedAPIServer holds that an API server cannot send the credentials of a user to another server.
func TestRedirectedAPIServer(t *testing.T) {
	var stolen []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	for _, code := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, args := range [][]string{{"explain", "vm/db"}, {"audit"}, {"template", "process", "fedora"}, {"rollout", "status", "db"}} {
			server := httptest.NewServer(http.RedirectHandler(other.URL, code))
			kubeconfig := filepath.Join(t.TempDir(), "config")
			text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '%s'}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}]\nusers: [{name: u, user: {token: secret}}]\n", server.URL)
			if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := clitest.Call(t, "", append(args, "--kubeconfig", kubeconfig)...)
			server.Close()
			if got.Code == clitest.ExitOK || !strings.Contains(got.ErrOut, "the API server redirects to another address") {
				t.Errorf("%d, %v: code %d, %s", code, args, got.Code, got.ErrOut)
			}
		}
	}
	if len(stolen) > 0 {
		t.Errorf("the other server got %q", stolen)
	}
}

// TestHostileFiles holds that no command shows the content of a file that only a suite or a symbolic link names: their authors are not
// the users who run the command.
func TestHostileFiles(t *testing.T) {
	const private = "topsecret: [a b"
	suite := "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: t}\ntests:\n- name: a\n  policies: [FILE]\n  base: FILE\n  cases: [{name: a, expect: {verdict: allowed}}]\n"
	for name, c := range map[string]struct {
		// file is written below the directory repo; text begins with -> for a symbolic link.
		file, text string
		args       []string
	}{
		"a suite names a file above":          {"s.yaml", strings.ReplaceAll(suite, "FILE", "../secret"), []string{"policy", "test", "."}},
		"a suite names a hidden file":         {"s.yaml", strings.ReplaceAll(suite, "FILE", ".ssh/key"), []string{"policy", "test", "s.yaml"}},
		"a suite is a link":                   {"s.yaml", "-> ../secret", []string{"policy", "test", "."}},
		"a suite is a link to a hidden file":  {"s.yaml", "-> .ssh/key", []string{"policy", "test", "."}},
		"a policy is a link":                  {"p.yaml", "-> ../secret", []string{"policy", "lint", "."}},
		"a virtual machine is a link":         {"vm.yaml", "-> ../secret", []string{"explain", "-f", "."}},
		"a virtual machine of a subdirectory": {"a/vm.yaml", "-> ../../secret", []string{"audit", "-R", "-f", "."}},
		"a policy to convert is a link":       {"p.yaml", "-> ../secret", []string{"policy", "convert", "-f", "."}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, text string) {
				file = filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
					t.Fatal(err)
				}
				var err error
				if target, link := strings.CutPrefix(text, "-> "); link {
					err = os.Symlink(target, file)
				} else {
					err = os.WriteFile(file, []byte(text), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			write("secret", private)
			write("repo/.ssh/key", private)
			write("repo/"+c.file, c.text)
			t.Chdir(filepath.Join(dir, "repo"))
			got := clitest.Call(t, "", c.args...)
			if got.Code == clitest.ExitOK || strings.Contains(got.Out+got.ErrOut, "topsecret") || !strings.Contains(got.Out+got.ErrOut, "name it on the command line") {
				t.Errorf("code %d\n%s\n%s", got.Code, got.Out, got.ErrOut)
			}
		})
	}
}
