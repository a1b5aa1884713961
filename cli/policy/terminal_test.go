package policy

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/policies/inspect"
)

func TestComplete(t *testing.T) {
	types := map[string]reflect.Type{"vm": nil, "variables": nil, "object": reflect.TypeFor[*v1.VirtualMachine](), "oldObject": nil}
	for _, c := range []struct {
		language, line, want string
		choices              int
	}{
		{inspect.CEL, "obj|", "object|", 1},
		{inspect.CEL, "1 == v|", "1 == v|", 2},
		{inspect.CEL, "object.spec.template.spec.domain.mem| > 1", "object.spec.template.spec.domain.memory| > 1", 1},
		{inspect.CEL, "object.spec.?inst|", "object.spec.?instancetype|", 1},
		{inspect.CEL, "object.metadata.na|", "object.metadata.name|", 2},
		{inspect.CEL, "object.spec.nothing.x|", "object.spec.nothing.x|", 0},
		{inspect.CEL, "vm.sp|", "vm.sp|", 0},
		{inspect.CEL, "size(|", "size(|", 4},
		{inspect.Rego, "in|", "input|", 1},
		{inspect.Rego, "not input.obj|", "not input.object|", 1},
		{inspect.Rego, "input.object.spec.runS|", "input.object.spec.runStrategy|", 1},
	} {
		pos := strings.Index(c.line, "|")
		got, at, choices := complete(types, c.language, strings.Replace(c.line, "|", "", 1), pos)
		if text := got[:at] + "|" + got[at:]; text != c.want || len(choices) != c.choices {
			t.Errorf("%s: %s, %v", c.line, text, choices)
		}
	}
}

// TestLoop types lines into a terminal, with Tab and the key for the line before.
func TestLoop(t *testing.T) {
	file := filepath.Join(t.TempDir(), "vm.yaml")
	manifest := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: db}\nspec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 4Gi}, devices: {}}}}}\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &evalOptions{program: options.Program{Streams: genericiooptions.IOStreams{In: strings.NewReader("")}}, sources: options.NewSources(), language: inspect.CEL, output: outputText}
	o.sources.Filenames = []string{file}
	s, err := o.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := strings.NewReader("vm.metadata.name\robject.spec.runS\t\rvm.gest\r:rego\rinput.vm.spec.domain.memory.guest\r\x1b[A\r:help\r:quit\rnever\r")
	if err := s.loop(t.Context(), term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, &out}, ""), nil); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"\"db\" (string, cost: ", "\"Always\" (", "error: undefined field 'gest'", "rego> ", "Tab completes names"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\"4Gi\" (string, cost: "); n != 2 {
		t.Errorf("the line before is not evaluated again: %d times in\n%s", n, text)
	}
}

// TestStops goes from stop to stop, and evaluates an expression between two.
func TestStops(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "vm.yaml")
	manifest := "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: db}\nspec: {runStrategy: Always, template: {spec: {domain: {memory: {guest: 4Gi}, devices: {}}}}}\n" +
		"---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: two}\nspec:\n  enforcement: Deny\n  rego:\n    module: |\n      package two\n\n      deny contains n if {\n        some n in [\"a\", \"b\"]\n      }\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &evalOptions{
		program: options.Program{Streams: genericiooptions.IOStreams{In: strings.NewReader("")}}, sources: options.NewSources(),
		language: inspect.CEL, output: outputText, policy: "two", breakpoint: "n",
	}
	o.sources.Filenames = []string{file}
	s, err := o.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stops, err := s.stops(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := strings.NewReader("vm.metadata.name\r:next\r:next\r:quit\r")
	if err := s.loop(t.Context(), term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, &out}, ""), stops); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{":next goes to the next stop", "stop 1: line 4", `n = "a"`, "\"db\" (string", "stop 2: line 4", `n = "b"`, "There are no more stops."} {
		i := strings.Index(out.String()[at:], want)
		if i < 0 {
			t.Fatalf("no %q in\n%s", want, out.String()[at:])
		}
		at += i
	}
}
