package worstcase

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/api/processes"
)

const module = "github.com/virtward/virtward/"

// holds names what a process mentions that has the memory of a bound: a function of the program, a method of a field, or what the
// program has of a package. Without a line, it is a constructor of the package.
var holds = map[string]string{
	"platform.WorstCase":                "objects.Run",
	"configcache.WorstCaseOfPolicies":   "policies.Run",
	"configcache.WorstCaseOfNamespaces": "namespaces.Run",
	"configcache.WorstCaseOfExceptions": "exceptions.Run",
	"configcache.WorstCaseOfCatalogs":   "catalogs.Run",
	"configcache.WorstCaseOfNodes":      "nodes.Run",
	"configcache.WorstCaseOfCounts":     "newPolicyCounts",
	"webhooks/serving.WorstCase":        "webhooks/serving.WebhookLimits",
	"evaluator.WorstCaseOfPlugins":      "webhooks.NewValidator",
}

// TestHeld: each process registers the bounds of what it runs, and no others. It follows the functions that the command of the
// process calls in its program.
func TestHeld(t *testing.T) {
	registered, declared := registrations(t), declarations(t)
	server := readProgram(t, "virtward")
	own := map[string]*program{
		processes.APIServer: readProgram(t, "virtward-apiserver"), processes.NodeLabeller: readProgram(t, "virtward-node-labeller"),
		processes.NodeTuner: readProgram(t, "virtward-node-tuner"),
	}
	exempt := flagged(t, "virtward.exceptionFlag")
	for _, p := range processes.All() {
		if p.Job {
			continue
		}
		in, begins := server, commandOf(p.Command)
		if p.Command == "" {
			in, begins = own[p.Name], "main"
		}
		mentioned := in.reach(t, begins)
		for _, bound := range declared {
			held := mentions(mentioned, bound)
			if bound == "configcache.WorstCaseOfExceptions" {
				held = held && exempt[p.Component()] // without the flag there is no watch of exceptions
			}
			if is := registered[p.Name][bound]; is != held {
				t.Errorf("%s: the process runs what %s is of: %t; its bounds have it: %t", p.Name, bound, held, is)
			}
		}
	}
}

// mentions reports whether a process has the memory of a bound.
func mentions(mentioned map[string]bool, bound string) bool {
	if mention, named := holds[bound]; named {
		return mentioned[mention]
	}
	folder := strings.TrimSuffix(bound, path.Ext(bound))
	for m := range mentioned {
		if strings.HasPrefix(m, folder+".New") {
			return true
		}
	}
	return false
}

// commandOf is the function of a command: virtualImagesCommand of virtualimages.
func commandOf(command string) string { return strings.ToLower(command) + "command" }

// flagged are the components whose template has a flag.
func flagged(t *testing.T, flag string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "charts", "virtward", "templates", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), `include "`+flag+`"`) {
			for _, name := range regexp.MustCompile(`define "virtward\.([a-z]+)\.`).FindAllStringSubmatch(string(content), -1) {
				found[name[1]] = true
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("no template has the flag %s", flag)
	}
	return found
}

// program is a package main with the types of its own declarations. Those of other packages are unknown.
type program struct {
	info  types.Info
	funcs map[types.Object]*ast.FuncDecl
	specs map[types.Object]ast.Node
}

func readProgram(t *testing.T, name string) *program {
	t.Helper()
	folder := filepath.Join(root, "cmd", name)
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	p := &program{
		info:  types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}},
		funcs: map[types.Object]*ast.FuncDecl{}, specs: map[types.Object]ast.Node{},
	}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = config.Check("main", set, files, &p.info) // the errors are about what it does not import
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				p.funcs[p.info.Defs[d.Name]] = d
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						p.specs[p.info.Defs[s.Name]] = s
					case *ast.ValueSpec:
						for _, name := range s.Names {
							p.specs[p.info.Defs[name]] = s
						}
					}
				}
			}
		}
	}
	return p
}

// noImports imports nothing.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not imported") }

// reach returns what the functions mention that the named one calls, itself or through others: FOLDER.NAME of other packages,
// FIELD.NAME of fields and variables, and the names of functions.
func (p *program) reach(t *testing.T, begins string) map[string]bool {
	t.Helper()
	mentioned, seen := map[string]bool{}, map[types.Object]bool{}
	var visit func(types.Object)
	visit = func(o types.Object) {
		if o == nil || seen[o] {
			return
		}
		seen[o] = true
		var body ast.Node
		if f, is := p.funcs[o]; is {
			body = f
			mentioned[o.Name()] = true
		} else if s, is := p.specs[o]; is {
			body = s
		} else {
			return
		}
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				mentioned[p.mention(n)] = true
			case *ast.Ident:
				visit(p.info.Uses[n])
			}
			return true
		})
	}
	found := false
	for o := range p.funcs {
		if o != nil && strings.EqualFold(o.Name(), begins) && o.Type().(*types.Signature).Recv() == nil { //nolint:forcetypeassert // a function has a signature
			visit(o)
			found = true
		}
	}
	if !found {
		t.Fatalf("no function %s", begins)
	}
	return mentioned
}

// mention is the text of a selector.
func (p *program) mention(n *ast.SelectorExpr) string {
	switch of := n.X.(type) {
	case *ast.Ident:
		if name, is := p.info.Uses[of].(*types.PkgName); is {
			return strings.TrimPrefix(name.Imported().Path(), module) + "." + n.Sel.Name
		}
		return of.Name + "." + n.Sel.Name
	case *ast.SelectorExpr:
		return of.Sel.Name + "." + n.Sel.Name
	}
	return n.Sel.Name
}

// registrations are the bounds that processes.go names, by the constant of the process.
func registrations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "processes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{}
	for _, i := range file.Imports {
		folder := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module)
		folders[path.Base(folder)] = folder
	}
	constants := map[string]string{}
	for _, p := range processes.All() {
		constants[strings.ReplaceAll(p.Component(), "-", "")] = p.Name
	}
	found := map[string]map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		row, is := n.(*ast.CompositeLit)
		if !is || len(row.Elts) == 0 {
			return true
		}
		name := ""
		ast.Inspect(row, func(n ast.Node) bool {
			s, is := n.(*ast.SelectorExpr)
			if !is {
				return true
			}
			of, _ := s.X.(*ast.Ident)
			switch {
			case of == nil:
			case of.Name == "processes" && constants[strings.ToLower(s.Sel.Name)] != "":
				name = constants[strings.ToLower(s.Sel.Name)]
				found[name] = map[string]bool{}
			case strings.HasPrefix(s.Sel.Name, prefix) && name != "":
				found[name][folders[of.Name]+"."+s.Sel.Name] = true
			}
			return true
		})
		return false
	})
	if len(found) != len(Processes()) {
		t.Fatalf("processes.go has bounds of %v", slices.Sorted(maps.Keys(found)))
	}
	return found
}
