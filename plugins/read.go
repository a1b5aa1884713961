package plugins

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	sigsjson "sigs.k8s.io/json"
)

// Kind and APIVersion are those of KubeVirt's Plugins.
const (
	Kind       = "Plugin"
	APIVersion = "plugin.kubevirt.io/v1alpha1"
)

// Decode reads a Plugin from the JSON form of an object. Fields that KubeVirt does not have are an error.
func Decode(content map[string]any) (*pluginv1alpha1.Plugin, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	p := &pluginv1alpha1.Plugin{}
	strict, err := sigsjson.UnmarshalStrict(text, p)
	if err != nil {
		return nil, fmt.Errorf("not a Plugin: %w", err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("not a Plugin: %w", strict[0])
	}
	if problems := bounded(p); len(problems) > 0 {
		return nil, problems[0]
	}
	return p, nil
}

// bounded checks that a Plugin is not larger than the bounds of a preview.
func bounded(p *pluginv1alpha1.Plugin) field.ErrorList {
	spec := field.NewPath("spec")
	var problems field.ErrorList
	if len(p.Spec.DomainHooks) > maxHooks {
		problems = append(problems, field.TooMany(spec.Child(domainHooks), len(p.Spec.DomainHooks), maxHooks))
	}
	if len(p.Spec.NodeHooks) > maxHooks {
		problems = append(problems, field.TooMany(spec.Child(nodeHooks), len(p.Spec.NodeHooks), maxHooks))
	}
	return problems
}
