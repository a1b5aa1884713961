package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// source is a file that has a text. The rank is lower for a place that is more likely to be the definition of a rule.
type source struct {
	file string
	rank int
}

// Ranks of places.
const (
	identifier = iota // the field ID of a rule
	constant          // a constant, such as the id of a rule that several packages use
	elsewhere         // any other place, such as a line of the table of capabilities
)

// folders have no definitions of rules.
var folders = []string{"bin", "cli", "cmd", "conformance", "docs", "test", "tools", "testdata"}

// sourcesOf returns for each text in the source the file that is most likely to define a rule of this id.
func sourcesOf(root string) (map[string]source, error) {
	found, files := map[string]source{}, token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || slices.Contains(folders, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", path, err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for text, rank := range textsOf(parsed) {
			if known, exists := found[text]; !exists || rank < known.rank {
				found[text] = source{filepath.ToSlash(name), rank}
			}
		}
		return nil
	})
	return found, err
}

// sourceOf returns the file that defines a rule. The ids of some rules are made from the name of an architecture and a text.
func sourceOf(sources map[string]source, id string) (string, error) {
	_, end, _ := strings.Cut(id, "-")
	for _, text := range []string{id, "-" + end} {
		if found, exists := sources[text]; exists {
			return found.file, nil
		}
	}
	return "", fmt.Errorf("no file has the id of the rule %s", id)
}

// textsOf returns the texts of a file with the lowest rank of their places.
func textsOf(file *ast.File) map[string]int {
	found := map[string]int{}
	add := func(e ast.Expr, rank int) {
		literal, isLiteral := e.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			return
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return
		}
		if known, exists := found[text]; !exists || rank < known {
			found[text] = rank
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			if key, isName := n.Key.(*ast.Ident); isName && key.Name == "ID" {
				add(n.Value, identifier)
			}
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				if values, isValue := spec.(*ast.ValueSpec); isValue && n.Tok == token.CONST {
					for _, value := range values.Values {
						add(value, constant)
					}
				}
			}
		case *ast.BasicLit:
			add(n, elsewhere)
		}
		return true
	})
	return found
}
