// Package printers prints what the commands of kubectl-virtward return: tables, YAML, JSON and names.
//
// Its input is values and a format. Its output is text. Each kind of value has a Printer in the package of its command, which
// names the columns. The package knows no command, and shortens or escapes no value.
package printers
