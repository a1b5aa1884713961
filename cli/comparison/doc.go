// Package comparison says what would change for virtual machines if something else held around them: other policies,
// another hypervisor.
//
// What enters: the findings on each virtual machine, as things are and as they would be. What leaves: counts for each
// rule and policy, and the first few findings of each, as a table, Markdown, JSON, YAML, JUnit or SARIF; the same for
// the same input. However many virtual machines there are, no more is kept than what is shown. The package evaluates
// nothing.
package comparison
