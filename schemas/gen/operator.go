package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The sources of the versions of kinds.
const (
	// typesModule has KubeVirt's types, and registered is the file of each of its packages with constants.
	typesModule = "kubevirt.io/api"
	registered  = "register.go"
	// shared is the variable of core/v1 with the versions that the oldest kinds share.
	shared = "ApiSupportedVersions"
	// defined is the file of the operator with the definitions. Each is made by a function.
	defined = "pkg/virt-operator/resource/generate/components/crds.go"
	// sharing is the function whose result is shared.
	sharing = "newCRDVersions"
)

// commonVersions returns the versions in the variable of KubeVirt's types that are served.
func commonVersions(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	o := operator{}
	var found []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if name.Name == shared && i < len(spec.Values) {
				found, err = o.versions(spec.Values[i])
			}
		}
		return false
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("has no %s", shared)
	}
	return found, err
}

// operator is the file of the operator with the definitions.
type operator struct {
	// imports are the paths of imported packages by name, and common the shared versions.
	imports map[string]string
	common  []string
	// types is the folder of KubeVirt's types.
	types string
}

// definedIn returns the kinds and the served versions of the operator's definitions. types is the folder of KubeVirt's types.
func definedIn(file, types string) (served, error) {
	common, err := commonVersions(filepath.Join(types, "core", "v1", registered))
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	o := operator{imports: map[string]string{}, common: common, types: types}
	for _, i := range parsed.Imports {
		location := literal(i.Path)
		name := path.Base(location)
		if i.Name != nil {
			name = i.Name.Name
		}
		o.imports[name] = location
	}
	found := served{}
	for _, declaration := range parsed.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, "New") || !strings.HasSuffix(function.Name.Name, "Crd") {
			continue
		}
		kind, versions, err := o.definition(function)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", function.Name.Name, err)
		}
		found[kind] = versions
	}
	if len(found) == 0 {
		return nil, errors.New("has no definition")
	}
	return found, nil
}

// definition returns the kind and the served versions of the definition that a function makes.
func (o operator) definition(function *ast.FuncDecl) (kind schema.GroupKind, versions []string, err error) {
	var spec *ast.CompositeLit
	ast.Inspect(function, func(n ast.Node) bool {
		if of, ok := n.(*ast.CompositeLit); ok && selected(of.Type) == "CustomResourceDefinitionSpec" {
			spec = of
		}
		return spec == nil
	})
	if spec == nil {
		return kind, nil, errors.New("makes no definition")
	}
	fields := fieldsOf(spec)
	names, ok := fields["Names"].(*ast.CompositeLit)
	if !ok {
		return kind, nil, errors.New("has no names")
	}
	if kind.Group, err = o.group(fields["Group"]); err != nil {
		return kind, nil, err
	}
	if kind.Kind, err = o.kindName(fieldsOf(names)["Kind"]); err != nil {
		return kind, nil, err
	}
	versions, err = o.versions(fields["Versions"])
	return kind, versions, err
}

// versions returns the names of the served versions of a list.
func (o operator) versions(list ast.Expr) (names []string, err error) {
	if call, ok := list.(*ast.CallExpr); ok {
		if name, ok := call.Fun.(*ast.Ident); ok && name.Name == sharing {
			return o.common, nil
		}
	}
	elements, ok := list.(*ast.CompositeLit)
	if !ok || len(elements.Elts) == 0 {
		return nil, errors.New("has no list of versions")
	}
	for _, element := range elements.Elts {
		one, ok := element.(*ast.CompositeLit)
		if !ok {
			return nil, errors.New("has a version that is no literal")
		}
		fields := fieldsOf(one)
		name := literal(fields["Name"])
		if name == "" {
			name = path.Base(o.packageOf(fields["Name"]))
		}
		is, ok := fields["Served"].(*ast.Ident)
		if !ok || !strings.HasPrefix(name, "v") {
			return nil, errors.New("has a version without a name, or that does not say whether it is served")
		}
		if is.Name == "true" {
			names = append(names, name)
		}
	}
	return names, nil
}

// group returns the group of a constant or a variable, which is that of its package: kubevirt.io/api/pool/v1beta1 has those of
// pool.kubevirt.io.
func (o operator) group(value ast.Expr) (string, error) {
	below, found := strings.CutPrefix(o.packageOf(value), typesModule+"/")
	name, _, _ := strings.Cut(below, "/")
	switch {
	case !found || name == "":
		return "", errors.New("has a group of another module")
	case name == "core":
		return "kubevirt.io", nil
	}
	return name + ".kubevirt.io", nil
}

// packageOf returns the path of the package that an expression begins with, or ".".
func (o operator) packageOf(value ast.Expr) string {
	for {
		switch v := value.(type) {
		case *ast.SelectorExpr:
			value = v.X
		case *ast.Ident:
			return path.Clean(o.imports[v.Name])
		default:
			return "."
		}
	}
}

// kindName returns the name of a kind: a text, a constant, or that of a variable such as VirtualMachineGroupVersionKind.
func (o operator) kindName(value ast.Expr) (string, error) {
	name := literal(value)
	if of, ok := value.(*ast.SelectorExpr); ok {
		name = strings.TrimSuffix(strings.TrimSuffix(selected(of.X), "Kind"), "GroupVersion")
		if below, found := strings.CutPrefix(o.packageOf(value), typesModule+"/"); name == "" && found {
			return constant(filepath.Join(o.types, filepath.FromSlash(below), registered), of.Sel.Name)
		}
	}
	if name == "" {
		return "", errors.New("has no kind")
	}
	return name, nil
}

// constant returns the text of a constant of a file.
func constant(file, name string) (text string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i := range spec.Names {
			if spec.Names[i].Name == name && i < len(spec.Values) {
				text = literal(spec.Values[i])
			}
		}
		return false
	})
	if text == "" {
		return "", fmt.Errorf("%s has no constant %s", filepath.Base(file), name)
	}
	return text, nil
}

// selected returns the last name of a selector, or "".
func selected(value ast.Expr) string {
	if of, ok := value.(*ast.SelectorExpr); ok {
		return of.Sel.Name
	}
	return ""
}

// fieldsOf returns the values of a literal by the names of their fields.
func fieldsOf(of *ast.CompositeLit) map[string]ast.Expr {
	fields := map[string]ast.Expr{}
	for _, element := range of.Elts {
		if entry, ok := element.(*ast.KeyValueExpr); ok {
			if name, ok := entry.Key.(*ast.Ident); ok {
				fields[name.Name] = entry.Value
			}
		}
	}
	return fields
}
