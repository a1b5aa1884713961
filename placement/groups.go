package placement

import (
	"cmp"
	"slices"
)

// Group is a reason that several nodes have, as the nearest of them has it.
type Group struct {
	Reason
	// Nodes is how many nodes have the reason, and Only how many have no other.
	Nodes int `json:"nodes"`
	Only  int `json:"only"`
	// Nearest is the node that lacks the least.
	Nearest string `json:"nearest"`
}

// Groups are the reasons of all nodes but the excepted ones. First come those without which most nodes would fit.
func (p *Placement) Groups(except ...string) []Group {
	type nearest struct {
		node, reasons int
		lack          int64
	}
	groups := make([]Group, len(p.checks))
	best := make([]nearest, len(p.checks))
	for i := range p.snapshot.nodes {
		if slices.Contains(except, p.snapshot.nodes[i].Name) {
			continue
		}
		failed := p.failed[p.starts[i]:p.starts[i+1]]
		for _, j := range failed {
			g := &groups[j]
			g.Nodes++
			if len(failed) == 1 {
				g.Only++
			}
			if one := (nearest{i, len(failed), p.checks[j].lack(&p.snapshot.nodes[i])}); g.Nodes == 1 || one.reasons < best[j].reasons || one.reasons == best[j].reasons && one.lack < best[j].lack {
				best[j] = one
			}
		}
	}
	for j := range groups {
		if groups[j].Nodes > 0 {
			n := &p.snapshot.nodes[best[j].node]
			groups[j].Reason, groups[j].Nearest = p.checks[j].reason(n), n.Name
		}
	}
	groups = slices.DeleteFunc(groups, func(g Group) bool { return g.Nodes == 0 })
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Only, a.Only), cmp.Compare(b.Nodes, a.Nodes)) })
	return groups
}

// lack is how much of a resource a node lacks; zero for other checks.
func (c *check) lack(n *node) int64 {
	if c.resource == "" {
		return 0
	}
	return -n.free(c.resource)
}
