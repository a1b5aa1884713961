package cli_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// TestCompletedCommands: the completion offers the commands that the help lists, and files only where arguments are files.
func TestCompletedCommands(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	leaves := 0
	var walk func(path []string)
	walk = func(path []string) {
		below := commandsOf(clitest.Call(t, "", append(slices.Clone(path), "--help")...).Out)
		got := clitest.Call(t, "", slices.Concat([]string{"__complete"}, path, []string{""})...)
		lines := strings.Split(strings.TrimSpace(got.Out), "\n")
		directive := lines[len(lines)-1]
		if len(below) == 0 {
			leaves++
			files := slices.Contains([]string{"plugin diff", "plugin lint", "plugin test", "policy lint", "policy test"}, strings.Join(path, " "))
			if files != (directive == ":0") {
				t.Errorf("%q completes files: %t, want %t", path, !files, files)
			}
			return
		}
		var offered []string
		for _, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, "\t")
			offered = append(offered, word)
		}
		if slices.Sort(below); !slices.Equal(offered, below) {
			t.Errorf("%q completes %q, want %q", path, offered, below)
		}
		for _, name := range below {
			if name != "help" {
				walk(append(slices.Clone(path), name))
			}
		}
	}
	walk(nil)
	if leaves < 30 {
		t.Errorf("there are only %d commands", leaves)
	}
}

// commandsOf returns the commands that a help lists.
func commandsOf(help string) (names []string) {
	_, list, _ := strings.Cut(help, "\nAvailable Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for line := range strings.Lines(list) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

func TestCompletedNamespaces(t *testing.T) {
	kubeconfig := hostileServer(t, http.StatusOK, `{"apiVersion":"v1","kind":"NamespaceList","metadata":{},"items":[{"metadata":{"name":"lab"}},{"metadata":{"name":"shop"}}]}`)
	for _, command := range [][]string{{"explain"}, {"audit"}, {"template", "list"}, {"rollout", "status"}} {
		got := clitest.Call(t, "", slices.Concat([]string{"__complete"}, command, []string{"--kubeconfig", kubeconfig, "-n", ""})...)
		if got.Code != clitest.ExitOK || got.Out != "lab\nshop\n:4\n" {
			t.Errorf("%v: code %d, and the output is %q", command, got.Code, got.Out)
		}
	}
}

// press prints what bash offers after the words of its arguments, as for Tab. Without the package bash-completion, it has the
// function that the scripts need of it.
const press = `
command=$1; shift
source <("$command" completion bash)
declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
}
compopt() { :; } # has an effect only while bash completes
COMP_WORDS=("$command" "$@") COMP_CWORD=$# COMP_TYPE=9 COMP_LINE="$command $*"
COMP_POINT=${#COMP_LINE}
"__start_$command"
for word in "${COMPREPLY[@]}"; do
	echo "${word%% *}"
done
`

// TestBashCompletion completes the program, and the plugin of a real kubectl, in bash.
func TestBashCompletion(t *testing.T) {
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(this, filepath.Join(programs, "kubectl-virtward")); err != nil {
		t.Fatal(err)
	}
	script := clitest.Call(t, "", "completion", "kubectl").Out
	if err := os.WriteFile(filepath.Join(programs, "kubectl_complete-virtward"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"kubectl-virtward"}}
	kubectl, err := filepath.Abs("../bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kubectl); err == nil {
		commands = append(commands, []string{"kubectl", "virtward"})
		if err := os.Symlink(kubectl, filepath.Join(programs, "kubectl")); err != nil {
			t.Fatal(err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, words := range []struct {
		typed []string
		want  string
	}{
		{[]string{"ex"}, "explain\n"},
		{[]string{"policy", "li"}, "lint\n"},
		{[]string{"explain", "-o", ""}, "github\njson\njunit\npod\nsarif\ntable\nyaml\n"},
		{[]string{"rules", "arm64-disk"}, "arm64-disk-bus\n"},
		{[]string{"status", "--wat"}, "--watch\n"},
	} {
		for _, command := range commands {
			typed := append(slices.Clone(command), words.typed...)
			t.Run(strings.Join(typed, " "), func(t *testing.T) {
				bash := exec.CommandContext(t.Context(), "bash", append([]string{"--norc", "-c", press, "bash", command[0]}, typed[1:]...)...)
				bash.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + programs, "KUBECONFIG=" + os.DevNull}
				printed, err := bash.CombinedOutput()
				got := slices.Sorted(strings.Lines(string(printed)))
				if err != nil || strings.Join(got, "") != words.want {
					t.Errorf("%v: bash offers %q, want %q", err, printed, words.want)
				}
			})
		}
	}
	if len(commands) == 1 {
		t.Skip("kubectl is not built: make sandbox-binaries")
	}
}
