package offline

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/texts"
)

// ForeignPolicy returns what to do with a policy of another engine, or a Plugin of KubeVirt; empty for other kinds.
func ForeignPolicy(kind schema.GroupVersionKind) string {
	switch of := "." + kind.Group; {
	case strings.HasSuffix(of, ".kyverno.io"):
		return "it is a policy of Kyverno: kubectl virtward policy convert converts those in CEL, and docs/from-kyverno.md shows the others"
	case strings.HasSuffix(of, ".gatekeeper.sh"):
		return "it is a policy of Gatekeeper: kubectl virtward policy convert converts those in CEL, and docs/from-gatekeeper.md shows the others"
	case kind.Group == "admissionregistration.k8s.io" && strings.HasPrefix(kind.Kind, "ValidatingAdmissionPolicy"):
		return "the API server evaluates it, on VMs as they are written: kubectl virtward policy convert makes a VirtualMachinePolicy of it"
	case kind.Group == "admissionregistration.k8s.io" && strings.HasPrefix(kind.Kind, "MutatingAdmissionPolicy"):
		return "the API server evaluates it: a VirtualMachineDefaults sets fields in Virtward, see docs/site-defaults.md"
	case kind.Group == "plugin.kubevirt.io" && kind.Kind == "Plugin":
		return "KubeVirt calls it after admission: kubectl virtward domain --plugins shows its effect, see docs/plugins.md"
	}
	return ""
}

// misspelt returns an error for a kind that is probably a misspelt one of a virtual machine, or one in the wrong group: skipping
// it would look like success. Kinds of other groups are not checked: other products have virtual machines too.
func misspelt(kind schema.GroupVersionKind) error {
	if len(schemas.VersionsOf(kind.GroupKind())) == 0 { // the version of a known kind is checked later
		if err := schemas.Match("", kind); err != nil {
			return &manifests.FieldError{Path: "apiVersion", Err: err}
		}
	}
	var names []string
	for _, info := range evaluator.Kinds() {
		if info.Group == kind.Group {
			names = append(names, info.Kind)
		}
	}
	if slices.Contains(names, kind.Kind) {
		return nil
	}
	for _, name := range names {
		if len(kind.Kind) < 2*len(name) && texts.Edits(strings.ToLower(kind.Kind), strings.ToLower(name)) <= maxTypos {
			return &manifests.FieldError{Path: "kind", Err: fmt.Errorf("%s is not a kind of %s: did you mean %s?", kind.Kind, kind.GroupVersion(), name)}
		}
	}
	return nil
}

// maxTypos is the number of wrong characters in a misspelt kind. No two kinds of KubeVirt are that similar.
const maxTypos = 2
