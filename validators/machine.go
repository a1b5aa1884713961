package validators

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/architectures"
)

func machineRules() Table {
	return Scoped(OnSpec,
		architectureSupportedRule,
		machineTypeEmulatedRule,
	)
}

// architecture is that of the VM: its own, else the cluster's default.
func (s *Subject) architecture() string {
	if a := s.Spec.Architecture; a != "" {
		return a
	}
	return s.Facts.DefaultArchitecture
}

var architectureSupportedRule = Rule{
	ID:      "architecture-supported",
	Title:   "KubeVirt supports the architecture",
	Remedy:  "Set architecture to " + architectures.Sentence("or") + ", or leave it out for the cluster's default.",
	AtStart: true,
	Check:   architectureSupported,
}

// architectureSupported leaves out specs without an architecture: completing gives one to every spec that
// there is, so there is none.
func architectureSupported(s *Subject, found *Errors) {
	if a := s.Spec.Architecture; a != "" && !architectures.Known(a) {
		found.Add(field.Invalid(s.Path.Child("architecture"), a, "KubeVirt does not support this architecture"))
	}
}

var machineTypeEmulatedRule = Rule{
	ID:    "machine-type-emulated",
	Title: "The cluster allows the machine type",
	Remedy: "Choose an allowed machine type, leave machine.type out for the default, " +
		"or extend emulatedMachines of the KubeVirt resource.",
	Check: machineTypeEmulated,
}

func machineTypeEmulated(s *Subject, found *Errors) {
	machine := s.Spec.Domain.Machine
	if machine == nil || machine.Type == "" {
		return
	}
	allowed := s.Facts.EmulatedMachines(s.Spec.Architecture)
	for _, pattern := range allowed {
		if matched, err := path.Match(pattern, machine.Type); err == nil && matched { // a broken pattern allows nothing
			return
		}
	}
	found.Add(field.Invalid(s.Domain().Child("machine", "type"), machine.Type,
		fmt.Sprintf("the cluster allows %s on %s", machinePatterns(allowed), s.architecture())))
}

// machinePatterns writes a list of patterns for people.
func machinePatterns(patterns []string) string {
	if len(patterns) == 0 {
		return "no machine type"
	}
	return "machine types of the form " + strings.Join(patterns, ", ")
}
