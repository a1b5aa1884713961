// Package catalogue shows the built-in rules: as a table, as JSON, one by one, and as the page docs/rules.md.
//
// Its input is the registry of hypervisors, which has the rules. Its output is text, equal for equal rules. It
// evaluates no rule.
package catalogue
