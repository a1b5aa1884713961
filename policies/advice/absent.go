package advice

import (
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/fieldpath"
)

// plain is what can follow a dot in an expression.
var plain = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// The documents with fields that can be absent.
const (
	rootVM           = "vm"
	rootObject       = "object"
	rootOldObject    = "oldObject"
	rootInstancetype = "instancetype"
	rootPreference   = "preference"
	rootNamespace    = "namespaceObject"
	rootPod          = "pod"
	rootDomain       = "domain"
)

// objectTypes are the types of object and oldObject. A VirtualMachineTemplate has any VirtualMachine.
var objectTypes = func() map[policyv1alpha1.PolicyKind]reflect.Type {
	types := map[policyv1alpha1.PolicyKind]reflect.Type{}
	for _, m := range apikinds.MachineKinds((*apikinds.Machine).Native) {
		types[policyv1alpha1.PolicyKind(m.Kind)] = m.Type
	}
	types[policyv1alpha1.PolicyPlugin] = reflect.TypeFor[pluginv1alpha1.Plugin]()
	return types
}()

// effective is the type of vm.
type effective struct {
	Metadata metav1.ObjectMeta             `json:"metadata"`
	Spec     v1.VirtualMachineInstanceSpec `json:"spec"`
}

// namespace is the type of namespaceObject.
type namespace struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
}

// typesOf returns the types that a document can have.
func (p *policy) typesOf(root string) []reflect.Type {
	switch root {
	case rootVM:
		return []reflect.Type{reflect.TypeFor[effective]()}
	case rootInstancetype:
		return []reflect.Type{reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetypeSpec]()}
	case rootPreference:
		return []reflect.Type{reflect.TypeFor[instancetypev1beta1.VirtualMachinePreferenceSpec]()}
	case rootNamespace:
		return []reflect.Type{reflect.TypeFor[namespace]()}
	case rootPod:
		return []reflect.Type{reflect.TypeFor[cel.LauncherPod]()}
	case rootDomain:
		return []reflect.Type{reflect.TypeFor[domain.Domain]()}
	case rootObject, rootOldObject:
		kinds := p.spec.Match.Kinds
		if len(kinds) == 0 {
			kinds = []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyVirtualMachineInstance}
		}
		var all []reflect.Type
		for _, kind := range kinds {
			if t := objectTypes[kind]; t != nil {
				all = append(all, t)
			}
		}
		return all
	}
	return nil
}

// identity and metadata are fields that all objects have when a policy is evaluated.
var (
	identity = []string{"apiVersion", "kind"}
	metadata = []string{"name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "managedFields"}
)

// absence is how a step of a place can be absent.
type absence int

const (
	never absence = iota
	// scalar is a text, a number or a bool.
	scalar
	// structure is an object, a list or a map.
	structure
	// key is a key of a map.
	key
)

// absences returns how each step of a place can be absent, as far as the type knows its fields.
func absences(t reflect.Type, steps []string) []absence {
	var all []absence
	for i, step := range steps {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.Kind() {
		case reflect.Struct:
			f, known := fieldpath.FieldOf(t, step)
			if !known || fieldpath.Opaque(t) {
				return all
			}
			t = f.Type
			all = append(all, absenceOf(f))
			if i == 0 && slices.Contains(identity, step) || i > 0 && steps[i-1] == "metadata" && slices.Contains(metadata, step) {
				all[i] = never
			}
		case reflect.Slice:
			if step != element {
				return all
			}
			t = t.Elem()
			all = append(all, never)
		case reflect.Map:
			t = t.Elem()
			if step == element { // of a macro that goes through the map
				return all
			}
			all = append(all, key)
		default:
			return all
		}
	}
	return all
}

// absenceOf returns how a field can be absent. Structs without a pointer are always present.
func absenceOf(f *fieldpath.Field) absence {
	t := f.Type
	if !f.OmitEmpty || t.Kind() == reflect.Struct {
		return never
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map:
		return structure
	}
	return scalar
}

// absentFields finds reads of fields and keys that can be absent, and of documents that can be null. What an expression of
// the policy tests, or reads as an optional, is not found.
func absentFields(p *policy, e *expression) {
	warned := map[string]bool{}
	for r := range p.readsIn(e) {
		if p.readsNull(r.at) {
			if !warned[r.at.root] {
				warned[r.at.root] = true
				p.warn(e, r.node, "%s is null for a virtual machine without one, so the policy cannot be evaluated: use %s.?%s, or write %s == null || …", r.at.root, r.at.root, r.at.steps[0], r.at.root)
			}
			continue
		}
		from, isKey := p.absent(r.at)
		if from == 0 || warned[r.at.id()] {
			continue
		}
		for n := from; n <= len(r.at.steps); n++ {
			warned[place{root: r.at.root, steps: r.at.steps[:n]}.id()] = true
		}
		p.warn(e, r.node, "%s can be absent, and reading it fails then: use %s, or %s", shown(r.at, isKey), optionally(r.at, from, isKey), test(r.at, isKey))
	}
}

// canBeUndefined reports whether a field of input in Rego can be absent. oldObject is left out: rules that compare with it are about
// updates.
func (p *policy) canBeUndefined(steps []string) bool {
	p.reads = &reads{policy: p}
	root, steps := steps[0], steps[1:]
	if root == rootInstancetype || root == rootPreference {
		return true
	}
	return root != rootOldObject && slices.ContainsFunc(p.typesOf(root), func(t reflect.Type) bool {
		return p.first(absences(t, steps), place{root: root, steps: steps}) >= 0
	})
}

// readsIn iterates over the reads of an expression.
func (p *policy) readsIn(e *expression) iter.Seq[*read] {
	if p.reads == nil {
		p.reads = readsOf(p)
	}
	return func(yield func(*read) bool) {
		for i := range p.reads.all {
			if r := &p.reads.all[i]; r.e == e && !yield(r) {
				return
			}
		}
	}
}

// readsNull reports whether a place is in a document that is null for some objects, and the policy does not test that.
func (p *policy) readsNull(at place) bool {
	if at.root != rootInstancetype && at.root != rootPreference {
		return false
	}
	for id := range p.reads.tested {
		fields := strings.Split(id, "\x00")
		if fields[0] == at.root || slices.Contains(fields[1:], at.root) { // or the field of the virtual machine that names it
			return false
		}
	}
	return true
}

// absent returns the number of steps to the first one that can be absent and that the policy does not test, if a place ends there.
// A key of a map is found with its map: it ends with the key then. It returns 0 for other places. isKey reports whether the last
// step is a key.
func (p *policy) absent(at place) (from int, isKey bool) {
	for _, t := range p.typesOf(at.root) {
		found := absences(t, at.steps)
		if len(found) < len(at.steps) {
			continue
		}
		last := len(found) - 1
		first := p.first(found, at)
		if first == last || first == last-1 && found[last] == key && !p.isTested(at, last) && !p.alwaysSet(at, last) {
			return first + 1, found[last] == key
		}
	}
	return 0, false
}

// first returns the first step of a place that can be absent and that the policy does not test; -2 if there is none.
func (p *policy) first(found []absence, at place) int {
	tested := false // a step before
	for i, how := range found {
		inList := slices.Contains(at.steps[:i], element)
		switch {
		case how == never || p.alwaysSet(at, i):
		case p.isTested(at, i):
			tested = true
		case at.root == rootVM && (how == scalar && (tested || inList) || how == structure && tested && !inList): // completion fills some of them
		default:
			return i
		}
	}
	return -2
}

// alwaysSet reports whether a step is never absent.
func (p *policy) alwaysSet(at place, i int) bool {
	steps := at.steps[:i+1]
	switch {
	case at.root == rootVM && steps[0] == "spec":
		path := strings.Join(steps[1:], ".")
		return slices.ContainsFunc(p.always, func(set string) bool { return fieldpath.Within(set, path) })
	case at.root == rootNamespace && slices.Equal(steps, []string{"metadata", "labels"}): // the API server sets one
		return true
	case at.root == rootPod || at.root == rootDomain:
		path := at.root + "." + strings.Join(steps, ".")
		return slices.ContainsFunc(AlwaysPreviewed(), func(set string) bool {
			return fieldpath.Within(set, path) && strings.Count(set, element) == strings.Count(path, element) // a list can be absent
		})
	case at.root == rootNamespace && i == 2 && steps[1] == "labels":
		return steps[2] == corev1.LabelMetadataName || selects(p.spec.Match.NamespaceSelector, steps[2])
	case i == 2 && steps[0] == "metadata" && steps[1] == "labels":
		return selects(p.spec.Match.ObjectSelector, steps[2])
	}
	return false
}

// AlwaysPreviewed returns the fields that each pod and each domain has, or each element of a list in them: [].
func AlwaysPreviewed() []string {
	return []string{
		"domain.cpu.topology.cores", "domain.cpu.topology.sockets", "domain.cpu.topology.threads", "domain.devices.controller",
		"domain.devices.disk.[].driver.cache", "domain.devices.disk.[].alias.name", "domain.devices.disk.[].target.bus", "domain.devices.disk.[].target.dev",
		"domain.devices.interface.[].alias.name", "domain.devices.interface.[].model.type",
		"domain.memory.unit", "domain.memory.value", "domain.name", "domain.os.type.arch", "domain.os.type.machine",
		"domain.os.type.value", "domain.qemu_commandline.qemu_arg.[].value", "domain.sysinfo.system", "domain.type", "domain.vcpu.placement", "domain.vcpu.value",
		"pod.metadata.annotations", "pod.metadata.generateName", "pod.metadata.labels", "pod.metadata.ownerReferences",
		"pod.spec.automountServiceAccountToken", "pod.spec.containers.[].image", "pod.spec.containers.[].resources.limits", "pod.spec.containers.[].resources.requests",
		"pod.spec.nodeSelector", "pod.spec.restartPolicy", "pod.spec.terminationGracePeriodSeconds", "pod.spec.volumes",
	}
}

// selects reports whether what a selector selects has a label.
func selects(selector *metav1.LabelSelector, label string) bool {
	if selector == nil {
		return false
	}
	if _, has := selector.MatchLabels[label]; has {
		return true
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == label && (r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpExists)
	})
}

// isTested reports whether the policy tests a step of a place. What the author of an object wrote is in vm too.
func (p *policy) isTested(at place, i int) bool {
	known := func(root string, steps ...string) bool {
		here := place{root: root, steps: steps}
		if p.reads.tested[here.id()] {
			return true
		}
		here.steps = steps[:len(steps)-1]
		return strings.HasPrefix(steps[len(steps)-1], "[") && p.reads.keys[here.id()]
	}
	steps := at.steps[:i+1]
	if known(at.root, steps...) {
		return true
	}
	return at.root == rootVM && known(rootObject, append([]string{"spec", "template"}, steps...)...)
}

// optionally returns an expression that reads a place as an optional, from one of its steps on. The last step can be a key.
func optionally(at place, from int, isKey bool) string {
	last := len(at.steps)
	if isKey {
		last--
	}
	text := strings.Join(append([]string{place{root: at.root, steps: at.steps[:from-1]}.String()}, at.steps[from-1:last]...), ".?")
	if isKey {
		text += "[?" + quotedKey(at.steps[last]) + "]"
	}
	return text
}

// quotedKey returns a key as an expression.
func quotedKey(step string) string {
	if inner, ok := strings.CutPrefix(step, "["); ok {
		return strings.TrimSuffix(inner, "]")
	}
	return "'" + step + "'"
}

// test returns an expression that tests a place.
func test(at place, isKey bool) string {
	if !isKey {
		return "has()"
	}
	last := len(at.steps) - 1
	return quotedKey(at.steps[last]) + " in " + place{root: at.root, steps: at.steps[:last]}.String()
}

// shown returns a place for a message.
func shown(at place, isKey bool) string {
	if !isKey {
		return at.String()
	}
	last := len(at.steps) - 1
	return place{root: at.root, steps: at.steps[:last]}.String() + "[" + quotedKey(at.steps[last]) + "]"
}
