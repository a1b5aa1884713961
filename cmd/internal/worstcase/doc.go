// Package worstcase adds up the memory of each process.
//
// Input: the bounds that packages report, and the values of the chart. Output: the table of each process in docs/memory.md, and
// the sum that must fit into the memory limit of the chart.
//
// The package is for tests and for go generate. No process imports it.
package worstcase

//go:generate go run ./gen ../../../charts/virtward ../../../docs/memory.md
