package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtward/virtward/manifests"
)

// private is in files that no suite may read.
const private = "topsecret: [a b"

// tree writes files below a temporary directory, which becomes the current one. A value that begins with -> is a symbolic link.
func tree(t *testing.T, current string, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		target, link := strings.CutPrefix(text, "-> ")
		var err error
		if link {
			err = os.Symlink(strings.ReplaceAll(target, "DIR", dir), file)
		} else {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, current))
}

// TestDisk holds which files a suite, or a symbolic link, can name. The author of a suite is not the user who runs it.
func TestDisk(t *testing.T) {
	for name, c := range map[string]struct {
		// current is the current directory, and named is on the command line.
		current, named string
		files          map[string]string
		open           string
		want           error
	}{
		"beside the suite":                      {"repo", "tests", map[string]string{"repo/tests/p.yaml": "a"}, "tests/p.yaml", nil},
		"above the suite":                       {"repo", "tests", map[string]string{"repo/p.yaml": "a", "repo/tests/s.yaml": ""}, "tests/../p.yaml", nil},
		"above the current directory":           {"repo", "tests", map[string]string{"p.yaml": "a", "repo/tests/s.yaml": ""}, "tests/../../p.yaml", manifests.ErrOutside},
		"in the repository around it":           {"repo/tests", ".", map[string]string{"repo/p.yaml": "a", "repo/.git/HEAD": "", "repo/tests/s.yaml": ""}, "../p.yaml", nil},
		"in the repository of what is named":    {"here", "../repo/tests", map[string]string{"repo/p.yaml": "a", "repo/.git/HEAD": "", "repo/tests/s.yaml": "", "here/x": ""}, "../repo/p.yaml", nil},
		"the configuration of git":              {"repo", "tests", map[string]string{"repo/.git/config": private, "repo/tests/s.yaml": ""}, "tests/../.git/config", manifests.ErrHidden},
		"a link to the configuration of git":    {"repo", "tests", map[string]string{"repo/.git/config": private, "repo/tests/p.yaml": "-> ../.git/config"}, "tests/p.yaml", manifests.ErrHidden},
		"a link in a chain":                     {"repo", "tests", map[string]string{"secret": private, "repo/a.yaml": "-> b.yaml", "repo/b.yaml": "-> ../secret", "repo/tests/s.yaml": ""}, "tests/../a.yaml", manifests.ErrOutside},
		"an absolute link":                      {"repo", "tests", map[string]string{"secret": private, "repo/tests/p.yaml": "-> DIR/secret"}, "tests/p.yaml", manifests.ErrOutside},
		"a link to a directory":                 {"repo", "tests", map[string]string{"home/p.yaml": private, "repo/tests/d": "-> ../../home"}, "tests/d/p.yaml", manifests.ErrOutside},
		"a link inside":                         {"repo", "tests", map[string]string{"repo/p.yaml": "a", "repo/tests/p.yaml": "-> ../p.yaml"}, "tests/p.yaml", nil},
		"a volume of a ConfigMap":               {"repo", "tests", map[string]string{"repo/tests/..2026/p.yaml": "a", "repo/tests/..data": "-> ..2026", "repo/tests/p.yaml": "-> ..data/p.yaml"}, "tests/p.yaml", nil},
		"a directory that begins with the same": {"repo", "tests", map[string]string{"repo2/p.yaml": "a", "repo/tests/s.yaml": ""}, "tests/../../repo2/p.yaml", manifests.ErrOutside},
		"what is named, wherever it is":         {"repo", "../other/p.yaml", map[string]string{"other/p.yaml": "a", "repo/s.yaml": ""}, "../other/p.yaml", nil},
		"beside what is named":                  {"repo", "../other/s.yaml", map[string]string{"other/s.yaml": "", "other/p.yaml": "a", "repo/s.yaml": ""}, "../other/p.yaml", nil},
		"a hidden directory that is named":      {"repo", ".rules", map[string]string{"repo/.rules/p.yaml": "a"}, ".rules/p.yaml", nil},
		"a file of the system":                  {"repo", "tests", map[string]string{"repo/tests/s.yaml": ""}, "/etc/passwd", manifests.ErrOutside},
		"a file of the process":                 {"repo", "tests", map[string]string{"repo/tests/s.yaml": ""}, "tests/../../../../../../../proc/self/environ", manifests.ErrOutside},
		"a file that does not exist":            {"repo", "tests", map[string]string{"repo/tests/s.yaml": ""}, "tests/none.yaml", fs.ErrNotExist},
		"beside a suite of a web server":        {"repo", "https://example.com/tests/s.yaml", map[string]string{"p.yaml": "a", "repo/x": ""}, "../p.yaml", manifests.ErrOutside},
	} {
		t.Run(name, func(t *testing.T) {
			tree(t, c.current, c.files)
			file, err := newDisk([]string{c.named}).Open(c.open)
			if err == nil {
				_ = file.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
