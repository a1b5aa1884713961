package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzExplain feeds any bytes to explain: it may refuse them, in one line, but never panic.
func FuzzExplain(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, seed := range []string{
		"", "---", "null", "{}", "[", "\x00", "a: &a [*a]", "kind: List\nitems: 3", "{\"a\":1}{\"a\":2}{",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {template: {spec: {domain: {memory: {guest: 1e99999}}}}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {instancetype: {inferFromVolume: a}, template: {}}",
		"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: \"a\\n# b\"}\nspec: {volumes: [{name: \"\\u2028\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, output := range outputs() {
			got := call(t, string(data), "explain", "-f", "-", "-o", output)
			switch {
			case strings.Contains(got.errOut, "defect of the program"):
				t.Fatalf("it panicked: %s", got.errOut)
			case got.code != exitOK && strings.Count(got.errOut, "error: ") == 0:
				t.Fatalf("code %d without an error", got.code)
			case got.code != exitOK && got.code != exitFailed:
				t.Fatalf("code %d: %s", got.code, got.errOut)
			}
		}
	})
}
