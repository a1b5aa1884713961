package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/cel-go/common/types"
	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/domain"
)

// Outcome is what became of a hook.
type Outcome string

// The outcomes of hooks.
const (
	// Applied is that of a hook that was evaluated; it has changed the domain or not.
	Applied Outcome = "Applied"
	// Skipped is that of a hook whose condition, or that of its Plugin, is false.
	Skipped Outcome = "Skipped"
	// Ignored is that of a hook that failed, and whose failure strategy is Ignore.
	Ignored Outcome = "Ignored"
	// Failed is that of a hook or a condition because of which virt-launcher does not start the instance.
	Failed Outcome = "Failed"
	// Unpreviewable is that of a sidecar, of a node hook, and of an expression that names what cannot be previewed.
	Unpreviewable Outcome = "Unpreviewable"
)

// HookResult is what became of a hook.
type HookResult struct {
	Plugin string `json:"plugin"`
	// Hook is the field of the hook below spec, such as domainHooks[0], or condition for that of the Plugin.
	Hook    string  `json:"hook"`
	Outcome Outcome `json:"outcome"`
	// Message is why, unless the hook was applied.
	Message string `json:"message,omitempty"`
	// Changes are the values that the hook has changed.
	Changes []domain.Difference `json:"-"`
}

// Result is a domain after the hooks of all Plugins.
type Result struct {
	// Document is the domain that virt-launcher passes to libvirt. The source of what a hook wrote is the hook.
	Document *domain.Element
	// Before is the domain before the first hook, as libvirtxml writes it.
	Before *domain.Element
	// Hooks are in the order in which KubeVirt calls them. Node hooks of a Plugin follow its domain hooks.
	Hooks []HookResult
	// Lost are attributes and elements that libvirtxml does not have, and that the domain loses if there is any Plugin.
	Lost []string
	// Err is why virt-launcher does not start the instance; nil if it does.
	Err error
}

// Exact reports whether the document is the whole result: nothing of it depends on what cannot be previewed.
func (r *Result) Exact() bool {
	return !slices.ContainsFunc(r.Hooks, func(h HookResult) bool { return h.Outcome == Unpreviewable && !h.OnNode() })
}

// OnNode reports whether the hook is one of a node, which does not change the domain.
func (h *HookResult) OnNode() bool {
	return len(h.Hook) >= len(nodeHooks) && h.Hook[:len(nodeHooks)] == nodeHooks
}

// The fields of hooks below spec.
const (
	domainHooks = "domainHooks"
	nodeHooks   = "nodeHooks"
)

// RoundTrip is the source of values that libvirtxml writes differently, though no hook has changed them.
const RoundTrip = "libvirtxml"

// Set are compiled Plugins, in KubeVirt's order. It can be applied to several instances at once.
type Set struct{ plugins []*compiled }

// compiled is a Plugin with its programs. A nil program is that of no expression.
type compiled struct {
	plugin                     *pluginv1alpha1.Plugin
	condition, onNodeCondition *step
	domainHooks, nodeHooks     []hook
}

type hook struct {
	condition, expression *step
	strategy              pluginv1alpha1.FailureStrategy
}

// step is an expression that was compiled, or the error of its compiler.
type step struct {
	program *program
	err     error
}

func newStep(text string, compile func(string) (*program, error)) *step {
	if text == "" {
		return nil
	}
	p, err := compile(text)
	return &step{p, err}
}

// NewSet compiles Plugins. Each evaluation of an expression has KubeVirt's limit.
func NewSet(list []*pluginv1alpha1.Plugin) *Set { return compiler(costLimit).set(list) }

// NewAdmittedSet compiles a Plugin for an admission. All of its expressions together have the limit AdmittedCost.
func NewAdmittedSet(p *pluginv1alpha1.Plugin) *Set {
	return compiler(AdmittedCost / max(1, len(p.Spec.DomainHooks))).set([]*pluginv1alpha1.Plugin{p})
}

func (c compiler) set(list []*pluginv1alpha1.Plugin) *Set {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *pluginv1alpha1.Plugin) int { return cmp.Compare(a.Name, b.Name) })
	s := &Set{}
	for _, p := range sorted {
		one := &compiled{plugin: p, condition: newStep(p.Spec.Condition, c.condition)}
		if len(p.Spec.NodeHooks) > 0 {
			one.onNodeCondition = newStep(p.Spec.Condition, c.nodeCondition)
		}
		for i := range p.Spec.DomainHooks {
			h := &p.Spec.DomainHooks[i]
			made := hook{condition: newStep(h.Condition, c.condition), strategy: cmp.Or(h.FailureStrategy, p.Spec.FailureStrategy, pluginv1alpha1.FailureStrategyFail)}
			if h.CEL != nil {
				made.expression = newStep(h.CEL.Expression, c.hook)
				if made.expression == nil {
					made.expression = &step{err: errors.New("the expression is empty")}
				}
			}
			one.domainHooks = append(one.domainHooks, made)
		}
		for i := range p.Spec.NodeHooks {
			one.nodeHooks = append(one.nodeHooks, hook{condition: newStep(p.Spec.NodeHooks[i].Condition, c.nodeCondition)})
		}
		s.plugins = append(s.plugins, one)
	}
	return s
}

// Apply applies the Plugins to the domain of an instance, as virt-launcher passes it to libvirt. It changes neither. Without
// Plugins the result is the document itself.
func (s *Set) Apply(vmi *v1.VirtualMachineInstance, document *domain.Element) *Result {
	if len(s.plugins) == 0 {
		return &Result{Document: document, Before: document}
	}
	o, lost, err := decodeDomain(document)
	if err != nil {
		return &Result{Document: document, Before: document, Lost: lost, Err: fmt.Errorf("with any Plugin in the cluster, virt-launcher cannot read the domain: %w", err)}
	}
	a := &application{vmi: vmi, domain: o, result: &Result{Document: encodeDomain(o), Lost: lost}}
	domain.Carry(document, a.result.Document, domain.Source{Plugin: RoundTrip})
	a.result.Before = a.result.Document
	for _, p := range s.plugins {
		a.plugin(p)
		if a.result.Err != nil {
			break
		}
	}
	return a.result
}

// application is the state between the hooks of an instance.
type application struct {
	vmi    *v1.VirtualMachineInstance
	domain *object
	result *Result
	// changes are those of the last hook that was applied.
	changes []domain.Difference
}

func (a *application) variables() map[string]any {
	return map[string]any{variableInstance: a.vmi, variableDomain: a.domain}
}

// record adds the result of a hook. A failure stops virt-launcher.
func (a *application) record(p *compiled, field string, outcome Outcome, err error) {
	h := HookResult{Plugin: p.plugin.Name, Hook: field, Outcome: outcome}
	if err != nil {
		h.Message = err.Error()
	}
	if outcome == Failed {
		a.result.Err = fmt.Errorf("plugin %s, %s: %w", p.plugin.Name, field, err)
	}
	a.result.Hooks = append(a.result.Hooks, h)
}

// met evaluates a condition. It records the result of one that is not met.
func (a *application) met(p *compiled, condition *step, field string) bool {
	if condition == nil {
		return true
	}
	yes, err := false, condition.err
	if err == nil {
		yes, err = condition.program.condition(a.variables())
	}
	switch {
	case err != nil && isUnpreviewable(err):
		a.record(p, field, Unpreviewable, err)
	case err != nil:
		a.record(p, field, Failed, fmt.Errorf("its condition failed, which no failure strategy ignores: %w", err))
	case !yes:
		a.record(p, field, Skipped, errors.New("its condition is false"))
	}
	return yes && err == nil
}

func isUnpreviewable(err error) bool {
	var part *UnpreviewableError
	return errors.As(err, &part)
}

func (a *application) plugin(p *compiled) {
	if a.met(p, p.condition, "condition") {
		for i := range p.domainHooks {
			a.hook(p, i)
			if a.result.Err != nil {
				return
			}
		}
	}
	if a.result.Err == nil && len(p.nodeHooks) > 0 && a.met(p, p.onNodeCondition, nodeHooks) {
		for i := range p.nodeHooks {
			a.nodeHook(p, i)
		}
	}
}

// hook calls a domain hook.
func (a *application) hook(p *compiled, index int) {
	h, field := &p.domainHooks[index], fmt.Sprintf("%s[%d]", domainHooks, index)
	if !a.met(p, h.condition, field) {
		return
	}
	if h.expression == nil {
		if sidecar := p.plugin.Spec.DomainHooks[index].Sidecar; sidecar != nil {
			a.record(p, field, Unpreviewable, fmt.Errorf("a sidecar at %s changes the domain when it starts", sidecar.SocketPath))
		}
		return
	}
	err := a.mutate(h.expression, p.plugin.Name+"/"+field)
	switch {
	case err == nil:
		a.record(p, field, Applied, nil)
		a.result.Hooks[len(a.result.Hooks)-1].Changes = a.changes
	case isUnpreviewable(err):
		a.record(p, field, Unpreviewable, err)
	case errors.As(err, new(*unwritableError)):
		a.record(p, field, Failed, err)
	case h.strategy == pluginv1alpha1.FailureStrategyIgnore:
		a.record(p, field, Ignored, err)
	default:
		a.record(p, field, Failed, err)
	}
}

// mutate evaluates the expression of a hook and merges its result into a copy of the domain, which was encoded and decoded.
func (a *application) mutate(expression *step, source string) error {
	if expression.err != nil {
		return expression.err
	}
	out, err := expression.program.evaluate(a.variables())
	if err != nil {
		return err
	}
	sparse, is := out.(*object)
	if !is || !sparse.sparse {
		return errors.New("the result is not a Domain{…} of the expression, such as the variable domainSpec; Domain{} changes nothing")
	}
	made, _, err := decodeDomain(encodeDomain(a.domain))
	if err != nil {
		return fmt.Errorf("virt-launcher cannot copy the domain: %w", err)
	}
	if err := merge(made, sparse); err != nil {
		return err
	}
	if err := alignIOMMU(made); err != nil {
		return &unwritableError{err}
	}
	if size := sizeOf(made, 0); size > maxDomain {
		return fmt.Errorf("the domain is larger than %d bytes", maxDomain)
	}
	a.domain = made
	before := a.result.Document
	a.result.Document = encodeDomain(made)
	domain.Carry(before, a.result.Document, domain.Source{Plugin: source})
	a.changes = domain.Diff(before, a.result.Document)
	return nil
}

// unwritableError is an error of a domain that cannot be written, which no failure strategy ignores.
type unwritableError struct{ error }

// The sizes of values in bytes, about.
const (
	objectSize = 200
	fieldSize  = 50
)

// sizeOf is the size of the document of a value. It ends when it is too large.
func sizeOf(o *object, size int) int {
	size += objectSize
	for _, v := range o.fields {
		all := []any{v}
		if isList(v) {
			all = all[:0]
			for _, item := range items(v) {
				all = append(all, item)
			}
		}
		for _, item := range all {
			if size += fieldSize; size > maxDomain {
				return size
			}
			switch item := item.(type) {
			case *object:
				size = sizeOf(item, size)
			case types.String:
				size += len(item)
			}
		}
	}
	return size
}

func (a *application) nodeHook(p *compiled, index int) {
	field := fmt.Sprintf("%s[%d]", nodeHooks, index)
	if a.met(p, p.nodeHooks[index].condition, field) {
		h := &p.plugin.Spec.NodeHooks[index]
		a.record(p, field, Unpreviewable, fmt.Errorf("the process at %s on the node is called at %v; it does not change the domain", h.Socket, h.PermittedHooks))
	}
}
