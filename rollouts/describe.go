package rollouts

//go:generate go run ./gen ../docs/rollouts.md

// Description describes a rule for its page.
type Description struct {
	// ID of the rule, which each of its changes names.
	ID string
	// Fields that the rule decides about, in Markdown.
	Fields string
	// Takes is when such a change usually takes effect, and Otherwise are the exceptions.
	Takes     Takes
	Otherwise []string
}

// Rules describes the rules in the order of precedence.
func Rules() []Description {
	all := make([]Description, len(rules))
	for i := range rules {
		all[i] = Description{ID: rules[i].id, Fields: rules[i].title, Takes: rules[i].usually, Otherwise: rules[i].otherwise}
	}
	return all
}
