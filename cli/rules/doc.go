// Package rules is the command rules: it lists the built-in rules, or shows one of them.
//
// Its input is flags. Its output is a table, a page, JSON, or docs/rules.md; package catalogue writes them. It reads no
// cluster.
package rules
