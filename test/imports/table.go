package imports

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/texts/blocks"
)

// Page replaces the table of a page.
func Page(page string, tree Tree) (string, error) {
	groups := groupsOf(tree)
	if err := groups.sortInto(); err != nil {
		return "", err
	}
	return blocks.Markdown(page, "imports", groups.table())
}

// group is the packages of a folder, with those below it.
type group struct {
	packages, pure int
	imports        map[string]bool
	// layer is 0 if the group imports no other, and one more than that of the groups that it imports otherwise.
	layer int
}

type groups map[string]*group

// groupOf is the folder that has a line of its own: the first one of the path, and one more below limits and cmd. The suite of
// hypervisors is a test, although it is with the cases.
func groupOf(folder string) string {
	parts := strings.Split(folder, "/")
	if len(parts) > 1 && (parts[0] == "limits" || parts[0] == "cmd" || parts[0] == "conformance" && parts[1] == "hypervisor") {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// groupsOf returns all groups, without programs of go generate.
func groupsOf(tree Tree) groups {
	all := groups{}
	for _, p := range tree {
		folder, own := p.Folder()
		if !own || strings.HasSuffix("/"+folder, "/gen") {
			continue
		}
		name := groupOf(folder)
		g := all[name]
		if g == nil {
			g = &group{imports: map[string]bool{}}
			all[name] = g
		}
		g.packages++
		if Pure(folder) {
			g.pure++
		}
		for _, imported := range p.Imports {
			if below, own := strings.CutPrefix(imported, module+"/"); own && groupOf(below) != name {
				g.imports[groupOf(below)] = true
			}
		}
	}
	return all
}

// sortInto sets the layers. The error is a circle.
func (all groups) sortInto() error {
	const visiting = -1
	done := map[string]int{}
	var visit func(path []string) error
	visit = func(path []string) error {
		name := path[len(path)-1]
		done[name] = visiting
		layer := 0
		for _, below := range slices.Sorted(maps.Keys(all[name].imports)) {
			if done[below] == visiting && slices.Contains(path, below) {
				return fmt.Errorf("imports in a circle: %s", strings.Join(append(path, below), " → "))
			}
			if _, known := done[below]; !known {
				if err := visit(slices.Concat(path, []string{below})); err != nil {
					return err
				}
			}
			layer = max(layer, all[below].layer+1)
		}
		all[name].layer, done[name] = layer, layer
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, known := done[name]; !known {
			if err := visit([]string{name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// table has a line for each group, the lowest layer first.
func (all groups) table() string {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		if d := all[a].layer - all[b].layer; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var b strings.Builder
	b.WriteString("| Layer | Package | Pure | Imports |\n|---|---|---|---|\n")
	for _, name := range names {
		g := all[name]
		label, isPure := "`"+name+"`", ""
		if g.packages > 1 {
			label += fmt.Sprintf(" (%d)", g.packages)
		}
		switch g.pure {
		case 0:
		case g.packages:
			isPure = "yes"
		default:
			isPure = "in part"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", g.layer, label, isPure, strings.Join(slices.Sorted(maps.Keys(g.imports)), ", "))
	}
	return b.String()
}
