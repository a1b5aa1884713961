package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "github.com/virtward/virtward"

// Package is a package, and what it imports outside of tests.
type Package struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// Folder is the folder of a package of this module; false for other packages.
func (p *Package) Folder() (folder string, own bool) {
	return strings.CutPrefix(p.ImportPath, module+"/")
}

// Tree has all packages of the module, and all that these import, by import path.
type Tree map[string]*Package

// Read lists the packages of the module in a folder.
func Read(root string) (Tree, error) {
	var failure bytes.Buffer
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	list.Dir, list.Env, list.Stderr = root, append(os.Environ(), "CGO_ENABLED=0"), &failure
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w: %s", err, failure.String())
	}
	tree := Tree{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &Package{}
		switch err := decoder.Decode(p); {
		case errors.Is(err, io.EOF):
			return tree, nil
		case err != nil:
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		tree[p.ImportPath] = p
	}
}

// Reached returns which of some packages a package imports, itself or through others: the path to each. The paths do not
// lead through packages for which skip is true.
func (t Tree) Reached(from string, wanted func(*Package) bool, skip func(*Package) bool) map[string][]string {
	found, seen := map[string][]string{}, map[string]bool{from: true}
	var visit func(path []string)
	visit = func(path []string) {
		for _, next := range t[path[len(path)-1]].Imports {
			p := t[next]
			if p == nil || seen[next] {
				continue
			}
			seen[next] = true
			here := slices.Concat(path, []string{next})
			if wanted(p) {
				found[next] = here
			}
			if !skip(p) {
				visit(here)
			}
		}
	}
	visit([]string{from})
	return found
}

func (p *Package) isStandard() bool { return p.Standard }
