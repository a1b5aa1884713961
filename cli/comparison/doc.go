// Package comparison reports which findings of virtual machines would change under assumptions, such as other policies
// or another hypervisor.
//
// Its input is the findings of each virtual machine, now and under the assumptions. Its output is counts for each rule
// and policy, and their first findings, as a table, Markdown, JSON, YAML, JUnit or SARIF, equal for equal input. It
// keeps only the findings to show, for any number of virtual machines. It evaluates nothing.
package comparison
