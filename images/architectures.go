package images

import (
	"slices"
	"strings"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// maxListed bounds the architectures that are read from an annotation.
const maxListed = 32

// Listed returns the architectures that an entry lists, without spaces, duplicates and upper case, in the order in which
// they are written. listed is false if the entry has no annotation: its image is imported once.
func Listed(entry *v1alpha1.DataImportCronTemplate) (architectures []string, listed bool) {
	value, listed := entry.Annotations[v1alpha1.ArchitecturesAnnotation]
	for item := range strings.SplitSeq(value, ",") {
		architecture := strings.ToLower(strings.TrimSpace(item))
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
	return slices.DeleteFunc(slices.Clone(architectures), func(a string) bool { return workloads[a] == 0 })
}
