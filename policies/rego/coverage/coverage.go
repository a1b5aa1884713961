// Package coverage gathers which lines of modules in Rego are reached. The processes of a cluster do not link it, because it
// needs OPA's loader, its bundles and its store.
package coverage

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"

	"github.com/virtward/virtward/policies/rego"
)

// Coverage gathers which lines of one module were reached, over any number of evaluations.
type Coverage struct {
	*cover.Cover

	module *rego.Module
}

// New is for evaluations of a module.
func New(m *rego.Module) *Coverage { return &Coverage{Cover: cover.New(), module: m} }

// Lines are the numbers of the lines that hold something to evaluate, from 1 and ascending: those of which all was
// evaluated, and those of which something never was.
func (c *Coverage) Lines() (reached, missed []int) {
	report := c.Report(map[string]*ast.Module{c.module.Name(): c.module.Parsed()})
	file := report.Files[c.module.Name()]
	if file == nil {
		return nil, nil
	}
	missed = rows(file.NotCovered)
	for _, row := range rows(file.Covered) {
		if _, also := slices.BinarySearch(missed, row); !also {
			reached = append(reached, row)
		}
	}
	return reached, missed
}

func rows(ranges []cover.Range) []int {
	var rows []int
	for _, r := range ranges {
		for row := r.Start.Row; row <= r.End.Row; row++ {
			rows = append(rows, row)
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows)
}
