package imports

import (
	"strings"
	"testing"
)

// unlinked are packages that the processes of a cluster do not link, with why.
var unlinked = map[string]string{
	"github.com/open-policy-agent/opa/v1/rego":   "an evaluation needs only topdown; this has bundles, signatures and a loader of files",
	"github.com/open-policy-agent/opa/v1/bundle": "no process loads bundles",
	module + "/policytest":                       "suites run in the CLI",
	module + "/cli":                              "it is the CLI",
}

// TestLinked holds that the processes of a cluster do not link what only the CLI needs.
func TestLinked(t *testing.T) {
	tree := read(t)
	processes := 0
	for path := range tree {
		name, isProcess := strings.CutPrefix(path, module+"/cmd/virtward")
		if !isProcess || strings.Contains(name, "/") || name == "-playground" {
			continue
		}
		processes++
		for found, through := range tree.Reached(path, func(p *Package) bool { return unlinked[p.ImportPath] != "" }, (*Package).isStandard) {
			t.Errorf("%s links %s: %s\n%s", path, found, unlinked[found], strings.Join(through, "\n"))
		}
	}
	if processes < 4 {
		t.Errorf("%d processes", processes)
	}
	for path := range unlinked {
		if found := tree.Reached(module+"/cmd/kubectl-virtward", func(p *Package) bool { return p.ImportPath == path }, (*Package).isStandard); len(found) == 0 {
			t.Errorf("the CLI does not link %s: the rule names what does not exist", path)
		}
	}
}
