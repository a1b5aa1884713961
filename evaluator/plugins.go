package evaluator

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/validators"
)

// compiling is held while a Plugin of KubeVirt is compiled: the memory of the process has room for one.
var compiling sync.Mutex

// plugin evaluates a Plugin of KubeVirt: one that cannot work, so that virtual machines would not start, and the policies. What was
// wrong before an update is a warning, so that the rest can change.
func (e *evaluation) plugin(d decoded) error {
	object, is := d.object.(*pluginv1alpha1.Plugin)
	if !is {
		return nil
	}
	old, _ := d.old.(*pluginv1alpha1.Plugin)
	if d.wasUnreadable {
		old = nil
	}
	compiling.Lock()
	defer compiling.Unlock()
	e.validatePlugin(object, old)
	if len(e.active.Policies.Policies()) == 0 {
		return nil
	}
	in := effective.Input{Facts: e.facts, Requester: e.request.requester(), RequesterExtra: extraOf(e.request), Author: e.request.Author}
	e.addPolicies(&in)
	findings, err := e.evaluator.Pipeline.DecidePlugin(in, object, old)
	e.result.Findings = append(e.result.Findings, findings...)
	return err
}

func (e *evaluation) validatePlugin(object, old *pluginv1alpha1.Plugin) {
	before := map[string]bool{}
	if old != nil {
		if equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			return
		}
		denied, _ := plugins.Validate(old)
		for _, wrong := range denied {
			before[wrong.Error()] = true
		}
	}
	denied, warnings := plugins.Validate(object)
	for _, wrong := range denied {
		finding := validators.Finding{Rule: validators.RulePlugin, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedyPlugin}
		if before[wrong.Error()] {
			finding.Severity, finding.PreExisting = validators.Warn, true
		}
		e.result.Findings = append(e.result.Findings, finding)
	}
	e.result.Warnings = append(e.result.Warnings, warnings...)
}
