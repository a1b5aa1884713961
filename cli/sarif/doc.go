// Package sarif writes findings in the format that code hosts and editors read: SARIF 2.1.0.
//
// What enters: findings with their places, and the table of the rules behind them. What leaves: one log, the same for
// the same input, in which each rule that found something is described once. The texts are written as they come: they
// are on one line, and not too long, before they come here.
package sarif
