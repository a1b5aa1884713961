// Package sarif writes findings as SARIF 2.1.0, which code hosts and editors read.
//
// Its input is results with their positions, and the table of their rules. Its output is one log, equal for equal
// input, which describes each rule with results once. It writes texts without changes: callers put them on one line and
// shorten them.
package sarif
