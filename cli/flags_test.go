package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/options"
)

// others are flags of other programs that pages name without the program.
var others = map[string]string{
	"--admission-control-config-file": "kube-apiserver",
	"--allow-missing-template-keys":   "kubectl",
	"--api-versions":                  "helm template",
	"--max-requests-in-flight":        "kube-apiserver",
	"--requestheader-client-ca-file":  "kube-apiserver",
	"--reuse-values":                  "helm upgrade",
	"--reset-then-reuse-values":       "helm upgrade",
	"--no-hooks":                      "helm uninstall",
	"--force-conflicts":               "helm upgrade",
	"--server-side":                   "kubectl apply",
	"--watch":                         "kubectl get",
}

var (
	span = regexp.MustCompile("`([^`\n]*)`")
	flag = regexp.MustCompile(`(?:^|[\s\[(])(--[a-z][a-z0-9-]*)`)
	// mentioned matches a command of this program in a page, up to a pipe.
	mentioned = regexp.MustCompile("kubectl virtward ([^`|\n]*)")
	// declared matches the name of a flag that a server declares.
	declared = regexp.MustCompile(`(?:Var|VarP)\([^"\n]*"([a-z][a-z0-9-]*)"`)
)

// flagsOf returns the flags of a command, with those that it inherits.
func flagsOf(command *cobra.Command) map[string]bool {
	found := map[string]bool{"--help": true}
	add := func(f *pflag.Flag) { found["--"+f.Name] = true }
	command.Flags().VisitAll(add)
	command.InheritedFlags().VisitAll(add)
	return found
}

// serverFlags returns the flags that the servers declare.
func serverFlags(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"../cmd/virtward/*.go", "../cmd/virtward-apiserver/*.go", "../cmd/internal/*/*.go", "../apiserver/*.go", "../cmd/kubectl-virtward-conformance/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range declared.FindAllStringSubmatch(string(content), -1) {
				found["--"+name[1]] = true
			}
		}
	}
	if len(found) < 20 {
		t.Fatalf("the servers have the flags %v", found)
	}
	return found
}

// TestFlagsOfPages holds that each flag that a page names exists: on the command that is named with it, or on any.
func TestFlagsOfPages(t *testing.T) {
	root := newRoot(options.Program{Name: "kubectl virtward", Streams: genericiooptions.NewTestIOStreamsDiscard()})
	known := serverFlags(t)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for name := range flagsOf(c) {
			known[name] = true
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	count := 0
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/internals/*.md", "../charts/*/README.md", "../examples/README.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			content, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(content), "\\\n", " ")
			for _, command := range mentioned.FindAllStringSubmatch(text, -1) {
				count += checkFlags(t, page, root, strings.Fields(command[1]))
			}
			for _, quoted := range span.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(quoted[1])
				switch command, _, err := root.Find(words); {
				case len(words) > 0 && err == nil && command != root:
					count += checkFlags(t, page, root, words)
				case strings.HasPrefix(quoted[1], "--") && quoted[1] != "--":
					name, _, _ := strings.Cut(words[0], "=")
					if count++; !known[name] && others[name] == "" {
						t.Errorf("%s: no command has the flag %s", page, name)
					}
				}
			}
		}
	}
	if count < 200 {
		t.Errorf("the pages name %d flags", count)
	}
}

// checkFlags checks the flags in the words of a command, and returns their number.
func checkFlags(t *testing.T, page string, root *cobra.Command, words []string) int {
	t.Helper()
	command, _, err := root.Find(words)
	if err != nil || command == root { // TestCommandsOfPages
		return 0
	}
	has := flagsOf(command)
	found := flag.FindAllStringSubmatch(" "+strings.Join(words, " "), -1)
	for _, name := range found {
		if name[1] != "--" && !has[name[1]] {
			t.Errorf("%s: %q has no flag %s", page, command.CommandPath(), name[1])
		}
	}
	return len(found)
}
