package placement

import (
	"fmt"
	"maps"
	"slices"

	nodev1 "k8s.io/api/node/v1"
)

// runtimeSource is where the RuntimeClass of a launcher is set.
const runtimeSource = "KubeVirt's spec.configuration.defaultRuntimeClass"

// runtime is the RuntimeClass of the pod; nil if the pod names none, or there is none.
func (c *compilation) runtime() *nodev1.RuntimeClass {
	name := c.pod.Spec.RuntimeClassName
	if name == nil {
		return nil
	}
	i := slices.IndexFunc(c.snapshot.cluster.RuntimeClasses, func(class *nodev1.RuntimeClass) bool { return class.Name == *name })
	if i < 0 {
		return nil
	}
	return c.snapshot.cluster.RuntimeClasses[i]
}

// addRuntime adds what the API server adds to a pod with a RuntimeClass: its overhead, and the nodes that have it. The pod is a copy of
// that of the subject, and shares its maps.
func (c *compilation) addRuntime() {
	class := c.runtime()
	if class == nil {
		return
	}
	if class.Overhead != nil {
		c.pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil {
		all := make(map[string]string, len(c.pod.Spec.NodeSelector)+len(class.Scheduling.NodeSelector))
		maps.Copy(all, c.pod.Spec.NodeSelector)
		maps.Copy(all, class.Scheduling.NodeSelector)
		c.pod.Spec.NodeSelector = all
		c.pod.Spec.Tolerations = append(c.pod.Spec.Tolerations, class.Scheduling.Tolerations...)
	}
}

// runtimeClass requires that the RuntimeClass exists, and that its node selector does not contradict that of the pod.
func runtimeClass(c *compilation) []Reason {
	name := c.pod.Spec.RuntimeClassName
	switch {
	case name == nil:
		return nil
	case c.snapshot.cluster.Unknown.RuntimeClasses:
		c.assume("the RuntimeClass " + *name + " exists, and adds nothing to the pod")
		return nil
	}
	class := c.runtime()
	if class == nil {
		return []Reason{{Kind: NoRuntimeClass, Text: "there is no RuntimeClass " + *name, Rule: runtimeSource, Change: "create it, or change " + runtimeSource}}
	}
	if class.Scheduling == nil {
		return nil
	}
	var reasons []Reason
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		if stated, ok := c.Pod.Spec.NodeSelector[key]; ok && stated != class.Scheduling.NodeSelector[key] {
			from := c.of("spec.nodeSelector", runtimeSource)
			reasons = append(reasons, Reason{
				Kind: RuntimeClassConflict, Text: fmt.Sprintf("RuntimeClass %s demands nodes with %s=%s, and the pod nodes with %s=%s", *name, key, class.Scheduling.NodeSelector[key], key, stated),
				Field: from.field, Layer: from.layer, Rule: from.rule, Change: "remove " + key + " from spec.nodeSelector",
			})
		}
	}
	return reasons
}

// networks requires the NetworkAttachmentDefinitions that the instance names: KubeVirt reads them before it makes the pod.
func networks(c *compilation) []Reason {
	if c.Launcher == nil {
		return nil
	}
	known := make(map[string]bool, len(c.snapshot.cluster.Networks))
	for _, n := range c.snapshot.cluster.Networks {
		known[n.Namespace+"/"+n.Name] = true
	}
	var reasons []Reason
	for _, a := range c.Launcher.Attachments {
		switch name := a.String(); {
		case known[name]:
		case c.snapshot.cluster.Unknown.Networks, c.snapshot.cluster.Unknown.OtherNetworks && a.Namespace != c.pod.Namespace:
			c.assume("the NetworkAttachmentDefinition " + name + " exists")
		default:
			from := c.of(a.Field, "")
			reasons = append(reasons, Reason{
				Kind: NetworkNotFound, Text: "there is no NetworkAttachmentDefinition " + name, Field: from.field, Layer: from.layer,
				Change: "create it, or name another one",
			})
		}
	}
	return reasons
}
