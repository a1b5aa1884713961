package goldenimages

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// maxListed bounds the architectures that are read from an annotation.
const maxListed = 32

// Listed returns the architectures that an entry lists, without spaces, duplicates and upper case, in the order in which
// they are written. arm64/v8 is arm64; an architecture with another variant keeps it, so that no node has it. listed is false if the entry has no annotation: its image is imported once.
func Listed(entry *v1alpha1.DataImportCronTemplate) (architectures []string, listed bool) {
	value, listed := entry.Annotations[v1alpha1.ArchitecturesAnnotation]
	for item := range strings.SplitSeq(value, ",") {
		architecture := ParsePlatform(item).Normalized().String()
		if architecture != "" && !slices.Contains(architectures, architecture) {
			architectures = append(architectures, architecture)
		}
		if len(architectures) == maxListed {
			break
		}
	}
	return architectures, listed
}

// effective returns those architectures that nodes have, in the order in which the entry lists them.
func effective(architectures []string, nodes *v1alpha1.NodeArchitectures) []string {
	workloads := surveyOf(nodes).workloads
	return slices.DeleteFunc(slices.Clone(architectures), func(a string) bool { _, found := workloads[a]; return !found })
}

// Keep adds architectures to a survey whose last node left a short time ago, with 0 nodes. absent are those, and next is
// when the first of them is removed; 0 for never.
func Keep(survey v1alpha1.NodeArchitectures, status *v1alpha1.GoldenImageCatalogStatus, now metav1.Time, delay time.Duration) (kept v1alpha1.NodeArchitectures, absent []v1alpha1.AbsentArchitecture, next time.Duration) {
	present := surveyOf(&survey).workloads
	kept = survey
	for _, was := range status.Nodes.WorkloadArchitectures {
		if _, found := present[was.Architecture]; found {
			continue
		}
		since := now
		for _, a := range status.Absent {
			if a.Architecture == was.Architecture {
				since = a.Since
			}
		}
		left := since.Add(delay).Sub(now.Time)
		if left <= 0 {
			continue
		}
		if next == 0 || left < next {
			next = left
		}
		absent = append(absent, v1alpha1.AbsentArchitecture{Architecture: was.Architecture, Since: since})
		kept.WorkloadArchitectures = append(slices.Clone(kept.WorkloadArchitectures), v1alpha1.ArchitectureCount{Architecture: was.Architecture})
	}
	slices.SortFunc(kept.WorkloadArchitectures, func(a, b v1alpha1.ArchitectureCount) int { return cmp.Compare(a.Architecture, b.Architecture) })
	if kept.DefaultArchitecture == "" {
		kept.DefaultArchitecture = status.Nodes.DefaultArchitecture
	}
	return kept, absent, next
}
