// Package conformance is the command conformance: it compares Virtward with recorded answers of KubeVirt.
//
// Its input is files of recorded cases. Its output is a table that shows how many answers are equal.
package conformance
