package extension

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// edit changes or creates one file.
type edit struct {
	file string
	// before is a text that the file has once. The new text is inserted before it. It is empty for a new file.
	before string
	text   string
}

// files returns the number of different files of edits.
func files(edits []edit) int {
	names := map[string]bool{}
	for _, e := range edits {
		names[e.file] = true
	}
	return len(names)
}

// apply returns the content of a file after an edit.
func (e *edit) apply(content []byte, exists bool) ([]byte, error) {
	if e.before == "" {
		if exists {
			return nil, fmt.Errorf("%s exists already", e.file)
		}
		return []byte(e.text), nil
	}
	if n := bytes.Count(content, []byte(e.before)); n != 1 {
		return nil, fmt.Errorf("%s has %q %d times, want once", e.file, e.before, n)
	}
	return bytes.Replace(content, []byte(e.before), []byte(e.text+e.before), 1), nil
}

// applied returns the files of a tree after edits, by their names.
func applied(t *testing.T, dir string, edits []edit) map[string][]byte {
	t.Helper()
	changed := map[string][]byte{}
	for i := range edits {
		e := &edits[i]
		content, exists := changed[e.file]
		if !exists {
			read, err := os.ReadFile(filepath.Join(dir, e.file))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			content, exists = read, err == nil
		}
		written, err := e.apply(content, exists)
		if err != nil {
			t.Fatal(err)
		}
		changed[e.file] = written
	}
	return changed
}

// tree is a copy of the tree.
type tree struct {
	*testing.T

	dir string
}

// copyTree copies the files that git knows, and applies edits. bin/ is that of the tree.
func copyTree(t *testing.T, edits []edit) *tree {
	t.Helper()
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	c := &tree{t, t.TempDir()}
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = source
	names, err := list.Output()
	if err != nil {
		t.Fatalf("listing the files: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(source, name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		c.write(name, content)
	}
	for name, content := range applied(t, c.dir, edits) {
		c.write(name, content)
	}
	if err := os.Symlink(filepath.Join(source, "bin"), filepath.Join(c.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *tree) write(name string, content []byte) {
	c.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if bytes.HasPrefix(content, []byte("#!")) {
		mode = 0o755
	}
	if err := os.WriteFile(file, content, mode); err != nil {
		c.Fatal(err)
	}
}

func (c *tree) read(name string) string {
	c.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.Fatal(err)
	}
	return string(content)
}

// run runs a program in the copy, with the environment of the Makefile.
func (c *tree) run(program string, args ...string) string {
	c.Helper()
	command := exec.Command(program, args...)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+c.dir)
	output, err := command.CombinedOutput()
	if err != nil {
		c.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, output)
	}
	return string(output)
}

// passes reports whether tests of a package in the copy pass.
func (c *tree) passes(run, folder string) bool {
	c.Helper()
	command := exec.Command("go", "test", "-vet=off", "-ldflags", "-s -w", "-v", "-count=1", "-run", run, folder)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "PWD="+c.dir)
	output, err := command.CombinedOutput()
	if err != nil && !bytes.Contains(output, []byte("--- FAIL")) {
		c.Fatalf("%s does not run: %v\n%s", run, err, output)
	}
	return err == nil
}

// goTest runs tests of packages in the copy.
func (c *tree) goTest(run string, packages ...string) {
	c.Helper()
	output := c.run("go", append([]string{"test", "-vet=off", "-ldflags", "-s -w", "-v", "-count=1", "-run", run}, packages...)...)
	if !strings.Contains(output, "--- PASS") || strings.Contains(output, "--- SKIP") {
		c.Errorf("no test %s ran:\n%s", run, output)
	}
}
