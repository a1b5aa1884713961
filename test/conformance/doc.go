// Package conformance replays what the real KubeVirt admission code answered, and tells where we differ.
//
// What enters: recorded cases, one JSON object a line, each with an input and KubeVirt's answer. What
// leaves: the differences, in words. It is used by the tests and by kubectl virtward conformance alike. The
// package never decides what a difference means, and never changes a case.
package conformance
