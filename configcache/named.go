package configcache

import (
	"cmp"
	"slices"
)

// Named finds a policy among those of Policies.Compiled; nil if there is none.
func Named(all []Compiled, name string) *Compiled {
	i, found := slices.BinarySearchFunc(all, name, func(c Compiled, name string) int { return cmp.Compare(c.Object.Name, name) })
	if !found {
		return nil
	}
	return &all[i]
}
