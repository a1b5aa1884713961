// Package catalogue shows the built-in rules: as a table, as JSON, one by one, and as the page docs/rules.md.
//
// What enters: the registry of hypervisors, whose validators hold the rules. What leaves: text, the same for the
// same rules. The package checks nothing.
package catalogue
