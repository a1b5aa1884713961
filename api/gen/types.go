package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// typesOf describes the structures of a source file that clients send or get, by their comments.
func typesOf(file string) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return "", fmt.Errorf("parsing %s: %w", file, err)
	}
	var out strings.Builder
	out.WriteString("\n## Bodies of requests and answers\n\nThe API server of Virtward reads and answers these. They are not stored.\n")
	for _, declaration := range parsed.Decls {
		general, isGeneral := declaration.(*ast.GenDecl)
		if !isGeneral || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			named := spec.(*ast.TypeSpec) //nolint:forcetypeassert // a declaration of types has nothing else
			structure, isStruct := named.Type.(*ast.StructType)
			if !isStruct {
				continue
			}
			rows := rowsOf(structure)
			if rows == "" {
				continue
			}
			fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| Field | Type | What |\n|---|---|---|\n%s", named.Name.Name, comment(general.Doc), rows)
		}
	}
	return out.String(), nil
}

// rowsOf returns a row for each field with a name in JSON.
func rowsOf(structure *ast.StructType) string {
	var rows strings.Builder
	for _, field := range structure.Fields.List {
		if field.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" {
			continue
		}
		kind := goType(field.Type)
		if !strings.Contains(options, "omitempty") {
			kind += ", required"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, kind, cell(comment(field.Doc)))
	}
	return rows.String()
}

// goType is a type of Go in the words of the tables.
func goType(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return goType(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.ArrayType:
		return "list of " + goType(e.Elt)
	case *ast.MapType:
		return "map"
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		}
		return e.Name
	}
	return "object"
}

// comment is a comment without markers.
func comment(group *ast.CommentGroup) string {
	var kept []string
	for line := range strings.SplitSeq(group.Text(), "\n") {
		if !strings.HasPrefix(line, "+") {
			kept = append(kept, line)
		}
	}
	return prose(strings.Join(kept, "\n"))
}
