// Package conformance compares Virtward with recorded answers of KubeVirt's admission code. The tests and kubectl virtward
// conformance use it.
//
// Input: recorded cases, one JSON object in each line, with an object and KubeVirt's answer. Output: the differences, as
// text. The package does not decide whether a difference is an error, and never changes a case.
package conformance
