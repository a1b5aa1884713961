package configcache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/limits/watch"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policycounts"
)

// virtualMachinePolicies is the resource that holds the admin's policies.
var virtualMachinePolicies = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// PoliciesOptions say what policies are compiled with.
type PoliciesOptions struct {
	// Namespace is Virtward's own, which no policy applies to.
	Namespace string
	// ParamsNamespaces are those whose ConfigMaps may hold parameters.
	ParamsNamespaces []string
	// References are the kinds of referenced objects that policies may read, as plural names of resources.
	References []string
	// Environment is shared by all policies.
	Environment *cel.Environment
	// Count reports whether the evaluations of policies are counted.
	Count bool
}

// Policies keeps the admin's policies compiled by watching the VirtualMachinePolicies and the ConfigMaps of their
// parameters. Policies are compiled in the background when they or their parameters change. Until then, requests are
// evaluated with the previous policies; all new ones become active at once. A broken policy is active too, and is an
// evaluation error.
type Policies struct {
	*watched[policyRead, compiledPolicies]

	options    PoliciesOptions
	client     dynamic.Interface
	parameters *configMaps
	// memory bounds the stored policies that do not deny.
	memory *watch.Budget
	// known are the policies as they were compiled last, by name.
	known map[string]memo
	// last is what they made together.
	last *compiledPolicies
}

// Compiled is a policy, and the result of compiling it.
type Compiled struct {
	// Object has a name, a uid, a generation, the time of its creation and a spec. It is shared: do not change it.
	Object   *policyv1alpha1.VirtualMachinePolicy
	Policy   *policies.Policy
	Problems []diagnostics.Problem
	// Size is that of the spec, as policies.Size counts it.
	Size int
	// Suspended reports whether the policy is not evaluated, because it exceeded its units again and again.
	Suspended bool
	// Tally counts the evaluations; nil if they are not counted.
	Tally *policycounts.Tally
}

// compiledPolicies are all of them.
type compiledPolicies struct {
	set *policies.Set
	all []Compiled
}

// policyRead is a policy, and what of it could not be read.
type policyRead struct {
	Object *policyv1alpha1.VirtualMachinePolicy
	Unread []diagnostics.Problem
	// Suspended is what the status says of this generation.
	Suspended bool
	// Size is that of the spec, as policies.Size counts it.
	Size int
	// Unkept reports whether there was no memory for the spec: Object has only its enforcement.
	Unkept bool
}

// complete reports whether the object has its spec, of this generation.
func (r *policyRead) complete(of policyRead) bool {
	return !r.Unkept && r.Object.UID == of.Object.UID && r.Object.Generation == of.Object.Generation
}

// memo is a compiled policy, and what it was compiled from.
type memo struct {
	read       policyRead
	parameters parameters
	// leftOut tells that there is no room for it.
	leftOut  bool
	compiled Compiled
}

// NewPolicies prepares a watcher. onChange, if not nil, is called with each change of what is active, the first
// included, and with each error.
func NewPolicies(client dynamic.Interface, options PoliciesOptions, onChange func(Change)) (*Policies, error) {
	p := &Policies{options: options, client: client, memory: watch.NewBudget(MaxPolicies)}
	var err error
	if p.parameters, err = newConfigMaps(client, options.ParamsNamespaces, func() { p.recompile() }); err != nil {
		return nil, err
	}
	p.watched, err = newWatched(client, compiler[policyRead, compiledPolicies]{
		kind:     "VirtualMachinePolicies",
		resource: virtualMachinePolicies,
		read:     func(fields map[string]any) (policyRead, error) { return readPolicy(fields), nil },
		strip:    p.strip,
		memory:   p.memory,
		cost:     policyRead.bytes,
		unread:   p.parameters.unread,
		compile:  p.compileAll,
	}, onChange)
	return p, err
}

// Current returns the active policies; nil, which is an empty set, until they have been read for the first time.
func (p *Policies) Current() *policies.Set {
	if c := p.watched.Current(); c != nil {
		return c.set
	}
	return nil
}

// Compiled returns the active policies with their problems, sorted by name. They are shared: do not change them.
func (p *Policies) Compiled() []Compiled {
	if c := p.watched.Current(); c != nil {
		return c.all
	}
	return nil
}

// Exists reports whether there is a policy of a name, suspended or not.
func (p *Policies) Exists(name string) bool {
	_, found := slices.BinarySearchFunc(p.Compiled(), name, func(c Compiled, name string) int { return strings.Compare(c.Object.Name, name) })
	return found
}

// Counted returns the active policies with their Tallies; nil until they have been read for the first time.
func (p *Policies) Counted() []policycounts.Counted {
	if p.watched.Current() == nil {
		return nil
	}
	all := p.Compiled()
	counted := make([]policycounts.Counted, 0, len(all))
	for i := range all {
		counted = append(counted, policycounts.Counted{UID: all[i].Object.UID, Generation: all[i].Object.Generation, Tally: all[i].Tally})
	}
	return counted
}

// Compile compiles a policy that is not active, with the parameters that there are now.
func (p *Policies) Compile(object *policyv1alpha1.VirtualMachinePolicy) (*policies.Policy, []diagnostics.Problem) {
	read := policyRead{Object: object, Size: policies.Size(&object.Spec)}
	all := []policyRead{read}
	for _, c := range p.Compiled() {
		if c.Object.Name != object.Name {
			all = append(all, policyRead{Object: c.Object, Size: c.Size})
		}
	}
	return p.compileWith(read, p.parametersOf(object), overBudget(all)[object.Name])
}

// maxSizes bounds the policies that do not deny, all together, in bytes as policies.Size counts them. Large clusters have
// less, and the compiled policies fit into the chart's memory limit. Policies that deny are not bounded: their authors
// have the enforce verb. The bound keeps the webhooks running whatever other users write.
const maxSizes = 768 << 10

// errOverBudget is the problem of a policy that exceeds maxSizes.
var errOverBudget = diagnostics.Problem{
	Field: "spec", Message: fmt.Sprintf("the policies that do not deny have more than %d bytes of expressions, modules and parameters together: this one is not compiled", maxSizes),
}

// overBudget returns the names of the policies that exceed maxSizes: the youngest ones that do not deny.
func overBudget(all []policyRead) map[string]bool {
	spare := slices.DeleteFunc(slices.Clone(all), func(r policyRead) bool {
		return r.Object.Spec.Enforcement == policyv1alpha1.PolicyDeny
	})
	slices.SortFunc(spare, func(a, b policyRead) int {
		if a.Object.CreationTimestamp.IsZero() != b.Object.CreationTimestamp.IsZero() { // it is to be created
			return cmp.Compare(b.Object.CreationTimestamp.Unix(), a.Object.CreationTimestamp.Unix())
		}
		return cmp.Or(a.Object.CreationTimestamp.Compare(b.Object.CreationTimestamp.Time), cmp.Compare(a.Object.Name, b.Object.Name))
	})
	left, out := maxSizes, map[string]bool{}
	for _, r := range spare {
		if r.Size > left {
			out[r.Object.Name] = true
			continue
		}
		left -= r.Size
	}
	return out
}

// MaxPolicies bounds the stored policies that do not deny, in bytes: those that are compiled, and others that exceed
// maxSizes and become active when older ones are deleted. Of more of them, only the metadata is stored.
const MaxPolicies = 6 << 20

// strip removes what compiling a policy does not depend on, except the generation, which the status needs, and the age. It
// also removes the spec if there is no memory for it.
func (p *Policies) strip(read policyRead) policyRead {
	o := read.Object
	read.Suspended, read.Size = policies.Suspended(o), policies.Size(&o.Spec)
	read.Object = &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, Generation: o.Generation, CreationTimestamp: o.CreationTimestamp}, Spec: o.Spec}
	if o.Spec.Enforcement != policyv1alpha1.PolicyDeny && !p.memory.Take(o.Name, read.bytes()) {
		read.Unkept = true
		read.Object.Spec = policyv1alpha1.VirtualMachinePolicySpec{Enforcement: o.Spec.Enforcement}
	}
	return read
}

// bytes returns what counts against MaxPolicies.
func (r policyRead) bytes() int64 {
	if r.Unkept || r.Object.Spec.Enforcement == policyv1alpha1.PolicyDeny {
		return 0
	}
	return int64(policies.Bytes(&r.Object.Spec))
}

// complete reads the specs of policies that were not kept and are to be compiled. They are at most maxSizes bytes. A
// read that failed is repeated after readRetry.
func (p *Policies) complete(objects []policyRead, out map[string]bool) []policyRead {
	complete := slices.Clone(objects)
	for i, read := range objects {
		if !read.Unkept || out[read.Object.Name] {
			continue
		}
		if was, known := p.known[read.Object.Name]; known && was.read.complete(read) {
			complete[i] = was.read
			complete[i].Suspended = read.Suspended
			continue
		}
		found, err := p.fetch(read)
		if err != nil {
			time.AfterFunc(readRetry, p.recompile)
			read.Unread = []diagnostics.Problem{{Field: "spec", Message: "it cannot be read: " + err.Error()}}
			found = read
		}
		complete[i] = found
	}
	return complete
}

// fetch reads a policy from the API server, in at most readTimeout.
func (p *Policies) fetch(of policyRead) (policyRead, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	object, err := p.client.Resource(virtualMachinePolicies).Get(ctx, of.Object.Name, metav1.GetOptions{})
	if err != nil {
		return policyRead{}, err
	}
	read := readPolicy(object.Object)
	read.Suspended, read.Size = of.Suspended, of.Size
	if !read.complete(of) {
		return policyRead{}, errors.New("it has changed meanwhile")
	}
	read.Object.ObjectMeta = of.Object.ObjectMeta
	read.Object.Status = policyv1alpha1.VirtualMachinePolicyStatus{}
	return read, nil
}

// readPolicy decodes a policy, field by field if necessary. A field that cannot be decoded is left out, and the policy
// cannot be evaluated.
func readPolicy(fields map[string]any) policyRead {
	read := policyRead{Object: &policyv1alpha1.VirtualMachinePolicy{}}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(fields, read.Object) == nil {
		return read
	}
	read.Object = &policyv1alpha1.VirtualMachinePolicy{}
	metadata, _ := fields["metadata"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, &read.Object.ObjectMeta); err != nil {
		read.Object.Name, _ = metadata["name"].(string)
	}
	spec, _ := fields["spec"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if err := readField(name, spec[name], &read.Object.Spec); err != nil {
			read.Unread = append(read.Unread, diagnostics.Problem{Field: "spec." + name, Message: "it cannot be read: " + err.Error()})
		}
	}
	return read
}

// readField reads one field of a spec, or leaves it as it is.
func readField(name string, value any, spec *policyv1alpha1.VirtualMachinePolicySpec) error {
	data, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		return err
	}
	changed := spec.DeepCopy()
	if err := json.Unmarshal(data, changed); err != nil {
		return err
	}
	*spec = *changed
	return nil
}

// compileAll compiles what changed.
func (p *Policies) compileAll(objects []policyRead) (*compiledPolicies, []string) {
	out := overBudget(objects)
	objects = p.complete(objects, out)
	p.parameters.want(objects) // before any of them is read, so that later changes are noticed
	before, changed := p.known, p.last == nil || len(p.known) != len(objects)
	p.known = make(map[string]memo, len(objects))
	all := make([]Compiled, 0, len(objects))
	active := make([]*policies.Policy, 0, len(objects))
	var notes []string
	for i := range objects {
		m := p.remember(before, objects[i], out[objects[i].Object.Name])
		p.known[objects[i].Object.Name] = m
		changed = changed || m.compiled.Policy != before[objects[i].Object.Name].compiled.Policy || m.read.Object != before[objects[i].Object.Name].read.Object
		all = append(all, m.compiled)
		if !m.compiled.Suspended {
			active = append(active, m.compiled.Policy)
		}
		if why := m.compiled.Policy.Broken(); why != "" {
			notes = append(notes, fmt.Sprintf("VirtualMachinePolicy %s: %s", objects[i].Object.Name, why))
		}
	}
	if changed {
		p.last = &compiledPolicies{set: policies.NewSet(p.options.Namespace, active...), all: all}
	}
	return p.last, notes
}

// remember is a policy as it was compiled before, or as it is compiled now if something about it changed.
func (p *Policies) remember(before map[string]memo, read policyRead, leftOut bool) memo {
	m := memo{read: read, parameters: p.parametersOf(read.Object), leftOut: leftOut}
	was, known := before[read.Object.Name]
	recount := p.options.Count && known && (was.read.Object.UID != read.Object.UID || was.read.Object.Generation != read.Object.Generation)
	if known && !recount && was.parameters.equal(m.parameters) && was.leftOut == leftOut && equality.Semantic.DeepEqual(was.read.Unread, read.Unread) &&
		equality.Semantic.DeepEqual(was.read.Object.Spec, read.Object.Spec) {
		m.compiled = was.compiled
		m.compiled.Object, m.compiled.Suspended = read.Object, read.Suspended
		return m
	}
	m.compiled.Object, m.compiled.Suspended, m.compiled.Size = read.Object, read.Suspended, read.Size
	m.compiled.Policy, m.compiled.Problems = p.compileWith(read, m.parameters, leftOut)
	if p.options.Count { // with the parameters, the results change: so do the counts
		m.compiled.Tally = policycounts.NewTally()
		m.compiled.Policy = policies.Recorded(m.compiled.Policy, m.compiled.Tally)
	}
	return m
}

func (p *Policies) compileWith(read policyRead, found parameters, leftOut bool) (*policies.Policy, []diagnostics.Problem) {
	if leftOut {
		return policies.LeftOut(read.Object, errOverBudget)
	}
	compiled, problems := p.compileAlone(read, found)
	if len(problems) < policyv1alpha1.MaxPolicyProblems {
		problems = append(problems, policies.OnlyExempt(read.Object, p.options.Namespace)...)
	}
	return compiled, problems
}

func (p *Policies) compileAlone(read policyRead, found parameters) (*policies.Policy, []diagnostics.Problem) {
	problems := read.Unread
	if found.unreadable != nil {
		problems = append(slices.Clone(problems), diagnostics.Problem{Field: "spec.params.configMap.namespace", Message: found.unreadable.Error()})
	}
	resolve := func(string, string) (map[string]string, bool) { return found.data, found.found }
	compiled, all := policies.Compile(p.options.Environment, read.Object, resolve, problems...)
	return policies.WithReferences(compiled, p.options.References, all)
}

// parametersOf are the parameters that a policy has in a ConfigMap, if it names one.
func (p *Policies) parametersOf(object *policyv1alpha1.VirtualMachinePolicy) parameters {
	if object.Spec.Params == nil || object.Spec.Params.ConfigMap == nil {
		return parameters{}
	}
	return p.parameters.find(object.Spec.Params.ConfigMap.Namespace, object.Spec.Params.ConfigMap.Name, object.Spec.Enforcement == policyv1alpha1.PolicyDeny)
}

// Run watches until the context ends.
func (p *Policies) Run(ctx context.Context) error {
	var parameters sync.WaitGroup
	parameters.Go(func() { p.parameters.run(ctx) })
	defer parameters.Wait()
	return p.watched.Run(ctx)
}
