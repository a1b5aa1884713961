package virtualimages

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// The choice of a backend knows each one that the chart accepts, and each constant.
func TestChoose(t *testing.T) {
	raw, err := os.ReadFile("../../charts/virtward/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			VirtualImages struct {
				Properties struct {
					Classes struct {
						AdditionalProperties struct {
							Properties struct {
								Backend struct {
									Enum []Backend `json:"enum"`
								} `json:"backend"`
							} `json:"properties"`
						} `json:"additionalProperties"`
					} `json:"classes"`
				} `json:"properties"`
			} `json:"virtualImages"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	inChart := schema.Properties.VirtualImages.Properties.Classes.AdditionalProperties.Properties.Backend.Enum
	if !slices.Equal(inChart, Backends()) {
		t.Errorf("the schema of the chart has the backends %q, not %q", inChart, Backends())
	}
	if declared := constants(t, "config.go", "Backend"); !slices.Equal(declared, Backends()) {
		t.Errorf("the constants are %q, and Backends returns %q", declared, Backends())
	}
	chosen := map[int]Backend{}
	for _, b := range Backends() {
		i, known := Choose(b, 1, 2)
		if before, twice := chosen[i]; !known || twice {
			t.Errorf("%s: known %t, the same as %q", b, known, before)
		}
		chosen[i] = b
	}
	if _, known := Choose("Ceph", 1, 2); known {
		t.Error("there is a choice for an unknown backend")
	}
}

// constants returns the values of the constants of a type in a file.
func constants(t *testing.T, name, of string) (values []Backend) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if named, ok := spec.Type.(*ast.Ident); ok && named.Name == of && len(spec.Values) == 1 {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				values = append(values, Backend(strings.Trim(literal.Value, `"`)))
			}
		}
		return true
	})
	return values
}
