package conformance

import "regexp"

// oddParts are what is odd in KubeVirt's paths wherever it occurs. Where an index is lost, it is taken for
// the first.
var oddParts = []struct {
	odd  *regexp.Regexp
	ours string
}{
	{regexp.MustCompile(`^(spec|spec\.template\.spec)\.(nodeAffinity|podAffinity|podAntiAffinity)\.`), "${1}.affinity.${2}."},
	{regexp.MustCompile(`(\.affinity\..*)\.namespace$`), "${1}.namespaces[0]"},
	{regexp.MustCompile(`\.topologySpreadConstraints\.labelSelector\.`), ".topologySpreadConstraints[0].labelSelector."},
	{regexp.MustCompile(`(\.topologySpreadConstraints\[\d+\])\.\{topologyKey, whenUnsatisfiable\}$`), "${1}"},
}

// realParts is a path without the oddities of its parts.
func realParts(path string) string {
	for _, part := range oddParts {
		path = part.odd.ReplaceAllString(path, part.ours)
	}
	return path
}
