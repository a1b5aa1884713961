package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts"
)

// plan is what is printed of one virtual machine.
type plan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Running reports whether the virtual machine has an instance.
	Running bool `json:"running"`

	rollouts.Result `json:",inline"`

	// Notes say what the plan lacks.
	Notes []string `json:"notes,omitempty"`
}

// planner reads the cluster and plans.
type planner struct {
	cluster *offline.Cluster
	facts   *platform.Facts
}

// newPlanner connects to the cluster, and reads its facts. Warnings are on standard error.
func newPlanner(ctx context.Context, program options.Program, sources *options.Sources) (*planner, error) {
	cluster, err := options.Connect(sources.Config)
	if err != nil {
		return nil, err
	}
	facts, err := platform.ReadFacts(ctx, cluster.Client, sources.Settings)
	if apierrors.IsForbidden(err) {
		facts = platform.Defaults(sources.Settings)
		facts.Warnings = append(facts.Warnings, "you may not read the KubeVirt resource: its defaults are assumed, under which KubeVirt starts no migration by itself")
		err = nil
	}
	if err != nil {
		return nil, err
	}
	for _, warning := range facts.Warnings {
		fmt.Fprintln(program.Streams.ErrOut, "warning:", warning)
	}
	return &planner{cluster: cluster, facts: facts}, nil
}

// planned are the plans of VMs, and why others have none.
type planned struct {
	plans  []plan
	failed []error
}

// add adds a plan, or why there is none. It returns an error if the command is interrupted.
func (p *planned) add(ctx context.Context, one *plan, err error) error {
	switch {
	case err == nil:
		p.plans = append(p.plans, *one)
	case ctx.Err() != nil:
		return err
	default:
		p.failed = append(p.failed, err)
	}
	return nil
}

// failure is an error if a VM has no plan. Each reason is on standard error, unless the error has the only one.
func (p *planned) failure(program options.Program) error {
	switch total := len(p.plans) + len(p.failed); {
	case len(p.failed) == 0:
		return nil
	case total == 1:
		return p.failed[0]
	default:
		for _, err := range p.failed {
			fmt.Fprintln(program.Streams.ErrOut, "not planned:", texts.OneLine(err.Error()))
		}
		return fmt.Errorf("%d of %d virtual machines could not be planned", len(p.failed), total)
	}
}

// plans are those of the files or of the named VMs. Notes about skipped documents are on standard error.
func (c *planCommand) plans(ctx context.Context, args []string) (*planned, error) {
	p, err := newPlanner(ctx, c.program, &c.sources)
	if err != nil {
		return nil, err
	}
	if len(args) > 0 {
		return p.named(ctx, args, c.set)
	}
	documents, err := c.sources.ReadComplete(ctx, options.Once(c.program.Streams.In))
	if err != nil {
		return nil, err
	}
	if err := offline.MatchAll(ctx, p.cluster, p.facts, documents); err != nil {
		return nil, err
	}
	found, notes := virtualMachines(documents)
	for _, note := range notes {
		fmt.Fprintln(c.program.Streams.ErrOut, "note:", note)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no VirtualMachine", c.sources.Names())
	}
	plans := &planned{}
	for _, d := range found {
		one, err := p.file(ctx, d)
		if err != nil {
			err = fmt.Errorf("%s: %w", d.Location(), err)
		}
		if err := plans.add(ctx, one, err); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

func (p *planner) get(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	return p.cluster.Client.Resource(apikinds.VirtualMachines.GroupVersionResource()).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}

// named plans what is pending, or the settings of --set.
func (p *planner) named(ctx context.Context, args, set []string) (*planned, error) {
	list, err := names(args)
	if err != nil {
		return nil, err
	}
	given, err := settings(set)
	if err != nil {
		return nil, err
	}
	plans := &planned{}
	for _, name := range list {
		one, err := p.one(ctx, name, given)
		if err := plans.add(ctx, one, err); err != nil {
			return nil, err
		}
	}
	return plans, nil
}

func (p *planner) one(ctx context.Context, name string, given []setting) (*plan, error) {
	current, err := p.get(ctx, p.cluster.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("reading VirtualMachine %s/%s: %w", p.cluster.Namespace, name, err)
	}
	return p.change(ctx, current, given)
}

// change plans settings; without any, what is pending and live.
func (p *planner) change(ctx context.Context, current *unstructured.Unstructured, given []setting) (*plan, error) {
	if len(given) == 0 {
		return p.plan(ctx, current, current)
	}
	patch, err := settingsPatch(current, given)
	if err != nil {
		return nil, err
	}
	desired, note, err := patched(ctx, p.cluster, current, patch)
	if err != nil {
		return nil, err
	}
	return p.noted(ctx, current, desired, note)
}

// noted is a plan with a note, unless that is empty.
func (p *planner) noted(ctx context.Context, current, desired *unstructured.Unstructured, note string) (*plan, error) {
	one, err := p.plan(ctx, current, desired)
	if err == nil && note != "" {
		one.Notes = append(one.Notes, note)
	}
	return one, err
}

// file plans what happens if a file is applied.
func (p *planner) file(ctx context.Context, d manifests.Document) (*plan, error) {
	namespace := cmp.Or(d.Object.GetNamespace(), p.cluster.Namespace)
	current, err := p.get(ctx, namespace, d.Object.GetName())
	if apierrors.IsNotFound(err) {
		return &plan{Namespace: namespace, Name: d.Object.GetName(), Result: rollouts.Result{Changes: []rollouts.Change{}}, Notes: []string{"the virtual machine does not exist yet"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading VirtualMachine %s/%s: %w", namespace, d.Object.GetName(), err)
	}
	desired, note, err := applied(ctx, p.cluster, current, d.Object)
	if err != nil {
		return nil, err
	}
	return p.noted(ctx, current, desired, note)
}

func (p *planner) plan(ctx context.Context, current, desired *unstructured.Unstructured) (*plan, error) {
	var before, after v1.VirtualMachine
	for object, into := range map[*unstructured.Unstructured]*v1.VirtualMachine{current: &before, desired: &after} {
		if err := typed(object, into); err != nil {
			return nil, fmt.Errorf("reading VirtualMachine %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
	}
	if current == desired {
		before = after
	}
	in, notes, err := references.Rollout(ctx, p.cluster.Objects, p.facts, &before, &after)
	if err != nil {
		return nil, err
	}
	if in.Running == nil {
		notes = append(notes, "the virtual machine is not running")
	}
	return &plan{Namespace: after.Namespace, Name: after.Name, Running: in.Running != nil, Result: rollouts.Plan(in), Notes: notes}, nil
}

// typed decodes a VM. Quantities that cannot be parsed in a moment are errors.
func typed(object *unstructured.Unstructured, into *v1.VirtualMachine) error {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	if err := decode.Object(data, reflect.TypeFor[v1.VirtualMachine]()); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
