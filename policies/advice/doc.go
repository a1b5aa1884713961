// Package advice finds expressions that compile, and probably do not do what their authors mean.
//
// What enters: the spec of a policy. What leaves: warnings, each with the name of its check, at a field and a position. A
// check reads only syntax trees and the values of parameters: it evaluates nothing. Each is one function, and has a
// mistake that it finds and a correct form that it accepts in the tests.
package advice
