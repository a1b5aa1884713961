package validators

import "fmt"

// Find is the rule with an id. The error of one that is not there says which one was probably meant.
func (t Table) Find(id string) (Rule, error) {
	ids := make([]string, len(t))
	for i := range t {
		if t[i].ID == id {
			return t[i], nil
		}
		ids[i] = t[i].ID
	}
	return Rule{}, fmt.Errorf("there is no rule %q%s", id, didYouMean(nearest(id, ids)))
}
