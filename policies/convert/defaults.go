package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// mutation is a rule of Kyverno that changes objects.
type mutation struct {
	PatchStrategicMerge any `json:"patchStrategicMerge,omitempty"`
	// The rest has no equivalent.
	PatchesJSON6902 any `json:"patchesJson6902,omitempty"`
	ForEach         any `json:"foreach,omitempty"`
	Targets         any `json:"targets,omitempty"`
	MutateExisting  any `json:"mutateExistingOnPolicyUpdate,omitempty"`
}

// assignment is the spec of Gatekeeper's Assign.
type assignment struct {
	ApplyTo []struct {
		Groups   []string `json:"groups,omitempty"`
		Kinds    []string `json:"kinds,omitempty"`
		Versions []string `json:"versions,omitempty"`
	} `json:"applyTo,omitempty"`
	Match      map[string]any `json:"match,omitempty"`
	Location   string         `json:"location,omitempty"`
	Parameters struct {
		Assign struct {
			Value any `json:"value,omitempty"`
			// The rest has no equivalent.
			ExternalData any `json:"externalData,omitempty"`
			FromMetadata any `json:"fromMetadata,omitempty"`
		} `json:"assign"`
		PathTests []pathTest `json:"pathTests,omitempty"`
		AssignIf  any        `json:"assignIf,omitempty"`
	} `json:"parameters"`
}

// pathTest is a condition of an Assign.
type pathTest struct {
	SubPath   string `json:"subPath"`
	Condition string `json:"condition"`
}

// defaultsBuilder writes a VirtualMachineDefaults. The first part without an equivalent ends it.
type defaultsBuilder struct {
	template map[string]any
	problem  string
	// others are the kinds that it also changes.
	others []string
}

func (b *defaultsBuilder) lose(format string, values ...any) {
	if b.problem == "" {
		b.problem = ": " + fmt.Sprintf(format, values...)
	}
}

// templatePath is the field of a VirtualMachine that has defaults.
var templatePath = []string{"spec", "template", "spec"}

// patch reads a patch of Kyverno: below +(), each value is added if its field is absent. path is that of the value.
func (b *defaultsBuilder) patch(value any, path []string) {
	fields, ok := value.(map[string]any)
	if !ok {
		b.lose("%s overwrites what its author wrote, and only values of +() are defaults", shown(path))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		name, adds := strings.CutPrefix(key, "+(")
		at := append(slices.Clone(path), strings.TrimSuffix(name, ")"))
		switch {
		case adds:
			b.set(at, fields[key])
		case strings.ContainsAny(key, "()"):
			b.lose("%s has a condition", shown(append(slices.Clone(path), key)))
		default:
			b.patch(fields[key], at)
		}
	}
}

// shown is a path in a message.
func shown(path []string) string { return texts.Shorten(strings.Join(path, "."), maxQuoted) }

// set adds a default. Kyverno and Gatekeeper add an object as a whole, and defaults its fields: only an empty one is the same.
func (b *defaultsBuilder) set(path []string, value any) {
	inside := len(path) > len(templatePath) && slices.Equal(path[:len(templatePath)], templatePath)
	switch object, isObject := value.(map[string]any); {
	case !inside:
		b.lose("%s is outside of %s, and only fields of this object have defaults", shown(path), shown(templatePath))
	case isObject && len(object) > 0:
		b.lose("%s is added as a whole if it is absent, and defaults are added to each of its fields: write the fields one by one", shown(path))
	case hasVariables(value):
		b.lose("%s has a variable", shown(path))
	default:
		if b.template == nil {
			b.template = map[string]any{}
		}
		if err := unstructured.SetNestedField(b.template, runtime.DeepCopyJSONValue(value), path[len(templatePath):]...); err != nil {
			b.lose("%s is a default twice", shown(path))
		}
	}
}

// hasVariables reports whether a text in a value is computed.
func hasVariables(value any) bool {
	data, err := json.Marshal(value)
	return err != nil || strings.Contains(string(data), "{{") || strings.Contains(string(data), "$(")
}

// selectsNamespaces returns the selector of a match that only has namespaces.
func (b *defaultsBuilder) selectsNamespaces(f *filter) *metav1.LabelSelector {
	switch {
	case len(f.lost) > 0:
		b.lose("its match has %s", f.lost[0])
	case len(f.users)+len(f.groups) > 0:
		b.lose("its match has users: defaults do not depend on who creates a virtual machine")
	case len(f.conditions) > 0:
		b.lose("its match has names, annotations or wildcards, which that of defaults does not have")
	case f.objectSelector != nil:
		b.lose("its match has labels of the virtual machine, and that of defaults has labels of spec.template.metadata")
	case len(f.patterns) > 0:
		b.lose("its match has names of namespaces with wildcards")
	}
	if len(f.namespaces) == 0 {
		return f.namespaceSelector
	}
	named := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: f.namespaces}}}
	return both(f.namespaceSelector, named)
}

// mutating converts a rule of Kyverno that sets defaults. The problem says what has no equivalent.
func (b *defaultsBuilder) mutating(rule *clusterRule) *policyv1alpha1.VirtualMachineDefaults {
	var m mutation
	content, _ := rule.Mutate.(map[string]any)
	unknown, err := decodeValue(content, &m)
	filters, _ := rule.Match.filters()
	switch {
	case err != nil, len(unknown) > 0, m.PatchesJSON6902 != nil, m.ForEach != nil, m.Targets != nil, m.PatchStrategicMerge == nil:
		b.lose("only patchStrategicMerge with +() sets defaults")
	case rule.Preconditions != nil, len(rule.CELPreconditions) > 0, rule.Exclude != nil, len(filters) != 1:
		b.lose("only a rule with one filter in its match, and without exclude and preconditions, sets defaults")
	default:
		b.patch(m.PatchStrategicMerge, nil)
	}
	made := &policyv1alpha1.VirtualMachineDefaults{}
	if b.problem != "" {
		return made
	}
	f := filters[0].filter(mutated, false)
	if !f.cells[cell{policyv1alpha1.PolicyVirtualMachine, policyv1alpha1.PolicyCreate}] {
		b.lose("it does not match VirtualMachines at their creation")
	}
	b.others = f.others
	made.Spec.Match.NamespaceSelector = b.selectsNamespaces(f)
	return made
}

// mutated are the operations at which Kyverno and Gatekeeper change objects by default.
var mutated = []policyv1alpha1.PolicyOperation{policyv1alpha1.PolicyCreate, policyv1alpha1.PolicyUpdate}

// defaults adds a VirtualMachineDefaults, and reports whether it is one that a cluster accepts.
func (c *converter) defaults(i int, source, name string, made *policyv1alpha1.VirtualMachineDefaults, b *defaultsBuilder) bool {
	raw, err := json.Marshal(b.template)
	if err != nil || len(b.template) == 0 {
		b.lose("it sets nothing")
		return false
	}
	made.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachineDefaults}
	made.Spec.Template = runtime.RawExtension{Raw: raw}
	r := Result{Index: i, Source: source, Defaults: made}
	made.Name = c.unique(name, &r)
	if _, errs := mutators.NewSiteDefaults(made); len(errs) > 0 {
		b.lose("%s", texts.Shorten(texts.OneLine(errs[0].Error()), 2*maxQuoted))
		return false
	}
	if len(b.others) > 0 {
		r.Notes = append(r.Notes, Note{Message: alsoMatches(b.others), Lost: true})
	}
	r.Notes = append(r.Notes, Note{
		Field:   "spec.template",
		Message: "defaults are added when a virtual machine is created, and to its instance when it starts: the original also changes it at updates",
	})
	for _, group := range together() {
		if field := group.in(b.template); field != "" {
			r.Notes = append(r.Notes, Note{
				Field:   "spec.template." + field,
				Message: "it is added only if the virtual machine has none of " + group.fields + ": the original looks at this field only",
			})
		}
	}
	c.results = append(c.results, r)
	return true
}

// group are fields that defaults fill together or not at all.
type group struct {
	paths  []string
	fields string
}

// together are the groups of docs/site-defaults.md.
func together() []group {
	return []group{
		{
			[]string{"domain.cpu.sockets", "domain.cpu.cores", "domain.cpu.threads", "domain.resources.requests.cpu", "domain.resources.limits.cpu"},
			"sockets, cores, threads, and requests and limits of CPU",
		},
		{[]string{"domain.memory.guest", "domain.resources.requests.memory", "domain.resources.limits.memory"}, "memory of the guest, and requests and limits of memory"},
		{[]string{"networks", "domain.devices.interfaces", "domain.devices.autoattachPodInterface"}, "networks, interfaces and autoattachPodInterface"},
		{[]string{"volumes", "domain.devices.disks", "domain.devices.filesystems"}, "volumes, disks and filesystems"},
	}
}

// in is the first of the fields that a template has; empty for none.
func (g *group) in(template map[string]any) string {
	for _, path := range g.paths {
		if _, found, err := unstructured.NestedFieldNoCopy(template, fieldpath.Split(path)...); found && err == nil {
			return path
		}
	}
	return ""
}

// assign converts Gatekeeper's Assign, if it sets a default.
func (c *converter) assign(i int, object *unstructured.Unstructured) {
	b, made := &defaultsBuilder{}, &policyv1alpha1.VirtualMachineDefaults{}
	var spec assignment
	unknown, err := decode(object, &spec)
	if err != nil {
		c.unreadable(i, object, err)
		return
	}
	location := strings.TrimSpace(spec.Location)
	absent := slices.ContainsFunc(spec.Parameters.PathTests, func(test pathTest) bool {
		return test.Condition == "MustNotExist" && test.SubPath == location
	})
	switch {
	case len(unknown) > 0:
		b.lose("the field %s is unknown", texts.Shorten(unknown[0], maxQuoted))
	case strings.ContainsAny(location, "[]\"'"):
		b.lose("its location %s is in a list, or has a quoted name", texts.Shorten(location, maxQuoted))
	case !absent || len(spec.Parameters.PathTests) > 1:
		b.lose("it overwrites what its author wrote: only one with the path test MustNotExist of its location sets a default")
	case spec.Parameters.AssignIf != nil, spec.Parameters.Assign.ExternalData != nil, spec.Parameters.Assign.FromMetadata != nil:
		b.lose("its value depends on other values")
	default:
		b.set(strings.Split(location, "."), spec.Parameters.Assign.Value)
	}
	made.Spec.Match.NamespaceSelector, err = b.assigns(&spec)
	if err != nil {
		c.unreadable(i, object, err)
		return
	}
	if b.problem != "" || !c.defaults(i, described(object), object.GetName(), made, b) {
		c.leave(i, object, Mutation, because(Mutation)+b.problem)
	}
}

// assigns converts what an Assign applies to.
func (b *defaultsBuilder) assigns(spec *assignment) (*metav1.LabelSelector, error) {
	group, versions, _ := export.Resource(policyv1alpha1.PolicyVirtualMachine)
	applies := false
	for _, to := range spec.ApplyTo {
		applies = applies || has(to.Groups, group) && has(to.Kinds, apikinds.VirtualMachine) && slices.ContainsFunc(versions, func(v string) bool { return has(to.Versions, v) })
		b.others = append(b.others, slices.DeleteFunc(slices.Clone(to.Kinds), func(kind string) bool { return kind == apikinds.VirtualMachine })...)
	}
	var match constraintSpec
	unknown, err := decodeValue(map[string]any{"match": spec.Match}, &match)
	if err != nil {
		return nil, err
	}
	m := &match.Match
	switch {
	case !applies:
		b.lose("its applyTo does not have VirtualMachines")
	case len(unknown) > 0:
		b.lose("the field %s is unknown", texts.Shorten(unknown[0], maxQuoted))
	case m.Scope == string(apiextensionsv1.ClusterScoped) || len(m.Kinds) > 0 && !slices.ContainsFunc(m.Kinds, func(k constraintKinds) bool {
		return anyOf(k.APIGroups, group) && anyOf(k.Kinds, apikinds.VirtualMachine)
	}):
		b.lose("its match does not have VirtualMachines")
	}
	f := &filter{objectSelector: m.LabelSelector, namespaceSelector: m.NamespaceSelector}
	f.namespaces, f.patterns = byWildcards(m.Namespaces)
	if m.Name != "" || len(m.ExcludedNamespaces) > 0 || m.Source != "" {
		b.lose("its match has names, excluded namespaces or a source, which that of defaults does not have")
	}
	return b.selectsNamespaces(f), nil
}
