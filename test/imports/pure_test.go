package imports

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../.."

// read lists the packages.
func read(t *testing.T) Tree {
	t.Helper()
	tree, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// readOnce visits all folders too, so that the result of a test is not cached when a file has changed.
var readOnce = sync.OnceValues(func() (Tree, error) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || path == filepath.Join(root, "bin")) {
			return filepath.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return Read(root)
})

// No pure package imports something impure, itself or through others. It reaches only pure packages of this module, and
// permitted libraries.
func TestPure(t *testing.T) {
	tree := read(t)
	for _, wrong := range impurities(tree) {
		t.Error(wrong)
	}
}

// impurities returns what is wrong with the imports of pure packages.
func impurities(tree Tree) (wrong []string) {
	add := func(texts ...string) { wrong = append(wrong, strings.Join(texts, " ")) }
	used := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(tree)) {
		folder, own := tree[path].Folder()
		if !own || !Pure(folder) {
			continue
		}
		for _, imported := range tree[path].Imports {
			p := tree[imported]
			below, isOwn := p.Folder()
			switch {
			case isOwn:
				if _, leaf := leaves[below]; !leaf && !Pure(below) {
					add(folder, "is pure, and imports", below, "which is not")
				}
				used[below] = true
			case isImpure(p):
				add(folder, "is pure, and imports", imported)
			case !p.Standard:
				library, permitted := libraryOf(imported)
				for to, way := range tree.Reached(imported, isImpure, (*Package).isStandard) {
					if !permitted || !slices.ContainsFunc(strings.Fields(library.reaches), func(r string) bool { return to == r || strings.HasPrefix(to, r+"/") }) {
						add(folder, "is pure, and reaches", to, "through", strings.Join(way, " → "))
					}
					used[library.path] = true
				}
			}
		}
	}
	for _, l := range libraries {
		if !used[l.path] {
			add("no pure package needs the library", l.path)
		}
	}
	for leaf := range leaves {
		if !used[leaf] {
			add("no pure package imports", leaf)
		}
	}
	return wrong
}

// Each kind of impure import is found.
func TestImpurities(t *testing.T) {
	tree := read(t)
	before := impurities(tree)
	for name, c := range map[string]struct{ folder, imports, want string }{
		"a client":                        {"rollouts", "k8s.io/client-go/rest", "rollouts is pure, and imports k8s.io/client-go/rest"},
		"a package that is not pure":      {"texts", module + "/references", "texts is pure, and imports references which is not"},
		"something that draws at random":  {"cel", module + "/templates/randomness", "cel is pure, and imports templates/randomness which is not"},
		"a library that reaches a client": {"validators", "k8s.io/client-go/tools/cache", "validators is pure, and reaches k8s.io/client-go/rest through k8s.io/client-go/tools/cache → "},
		"a part of a library that does more": {
			"policies", "k8s.io/apiserver/pkg/server", "policies is pure, and reaches k8s.io/client-go/rest through k8s.io/apiserver/pkg/server → ",
		},
	} {
		seeded := maps.Clone(tree)
		p := *tree[module+"/"+c.folder]
		p.Imports = append(slices.Clone(p.Imports), c.imports)
		seeded[p.ImportPath] = &p
		var fresh []string
		for _, wrong := range impurities(seeded) {
			if !slices.Contains(before, wrong) {
				fresh = append(fresh, wrong)
			}
		}
		if !slices.ContainsFunc(fresh, func(wrong string) bool { return strings.HasPrefix(wrong, c.want) }) {
			t.Errorf("%s: got %q, want %q", name, fresh, c.want)
		}
	}
}

// The purity rules of the linter cover the pure packages whole, and no others.
func TestLinter(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string `json:"files"`
						Deny  []struct {
							Pkg string `json:"pkg"`
						} `json:"deny"`
					} `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	tree, rules := read(t), []string{"purity", "times", "rego"}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		folder, own := tree[name].Folder()
		if !own {
			continue
		}
		covered := slices.ContainsFunc(rules, func(rule string) bool { return covers(config.Linters.Settings.Depguard.Rules[rule].Files, folder) })
		if covered != Pure(folder) {
			t.Errorf("%s: the linter says that it is pure: %t; the list of this package: %t", folder, covered, Pure(folder))
		}
	}
	for _, rule := range rules {
		for _, name := range []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "net/http", "os/"} {
			if denied := config.Linters.Settings.Depguard.Rules[rule].Deny; !slices.ContainsFunc(denied, func(d struct {
				Pkg string `json:"pkg"`
			},
			) bool {
				return d.Pkg == name
			}) {
				t.Errorf("rule %s does not deny %s", rule, name)
			}
		}
	}
}

// covers reports whether the files of a rule include those of a folder.
func covers(files []string, folder string) (covered bool) {
	for _, pattern := range files {
		excluded := strings.HasPrefix(pattern, "!")
		pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "!"), "${config-path}/")
		below, whole := strings.CutSuffix(pattern, "/**")
		only, single := strings.CutSuffix(pattern, "/*.go")
		if whole && isBelow(below, folder) || single && folder == only {
			if excluded {
				return false
			}
			covered = true
		}
	}
	return covered
}

// isBelow reports whether a folder is one that a pattern names, or below it.
func isBelow(pattern, folder string) bool {
	names := strings.Split(folder, "/")
	depth := strings.Count(pattern, "/") + 1
	if len(names) < depth {
		return false
	}
	matches, err := path.Match(pattern, strings.Join(names[:depth], "/"))
	return matches && err == nil
}
