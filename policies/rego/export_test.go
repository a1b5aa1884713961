package rego

// Unscreened is the module without its screen: OPA evaluates it always.
func (m *Module) Unscreened() *Module { return unscreened(m) }

// Screened reports whether the screen decides that no rule holds.
func (m *Module) Screened(in *Input) bool {
	m.screen.left.Store(0)
	term, size, err := in.term(m.documents)
	budget := m.budget(Limits{}.withDefaults(size.bytes), size)
	return err == nil && m.screen.holdsNone(term, &budget)
}
