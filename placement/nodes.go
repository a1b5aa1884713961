package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr" //nolint:depguard // a function of the scheduler takes a logger, which writes nothing
	corev1 "k8s.io/api/core/v1"
	schedule "k8s.io/component-helpers/scheduling/corev1"
)

// nodeName requires the node that the pod names.
func nodeName(c *compilation) []check {
	name := c.pod.Spec.NodeName
	if name == "" {
		return nil
	}
	return []check{{
		kind: OtherNode, lasting: always,
		passes:  func(n *node) bool { return n.Name == name },
		explain: func(*node) (string, string) { return "the pod names the node " + name, "" },
	}}
}

// unschedulable rejects nodes that are cordoned.
func unschedulable(c *compilation) []check {
	if c.tolerates(&corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return nil
	}
	return []check{{
		kind:    Unschedulable,
		passes:  func(n *node) bool { return !n.Spec.Unschedulable },
		explain: func(n *node) (string, string) { return "the node is cordoned", "kubectl uncordon " + n.Name },
	}}
}

func (c *compilation) tolerates(taint *corev1.Taint) bool {
	return schedule.TolerationsTolerateTaint(logr.Discard(), c.pod.Spec.Tolerations, taint, true)
}

// kubernetesTaint is the prefix of taints that Kubernetes sets itself. They come and go.
const kubernetesTaint = "node.kubernetes.io/"

// taints rejects nodes with a taint that the pod does not tolerate.
func taints(c *compilation) []check {
	untolerated := func(n *node) *corev1.Taint {
		for i := range n.Spec.Taints {
			t := &n.Spec.Taints[i]
			if t.Effect != corev1.TaintEffectPreferNoSchedule && !c.tolerates(t) {
				return t
			}
		}
		return nil
	}
	return []check{{
		kind: UntoleratedTaint, source: c.of("spec.tolerations", ""),
		lasting: func(n *node) bool { return !strings.HasPrefix(untolerated(n).Key, kubernetesTaint) },
		passes:  func(n *node) bool { return len(n.Spec.Taints) == 0 || untolerated(n) == nil },
		explain: func(n *node) (string, string) {
			t := untolerated(n)
			text := "the node has the taint " + t.ToString() + ", which the virtual machine does not tolerate"
			switch {
			case t.Key == corev1.TaintNodeUnschedulable:
				return text, "kubectl uncordon " + n.Name
			case strings.HasPrefix(t.Key, kubernetesTaint):
				return text, "repair the node: Kubernetes removes this taint itself"
			}
			return text, "add a toleration of " + t.Key + " to spec.tolerations, or remove the taint"
		},
	}}
}

// nodePorts rejects nodes on which a port of the host is in use.
func nodePorts(c *compilation) []check {
	var checks []check
	for _, port := range hostPorts(c.pod) {
		checks = append(checks, check{
			kind: PortInUse, source: c.of("spec.domain.devices.interfaces", ""),
			passes: func(n *node) bool {
				return !slices.ContainsFunc(n.pods, func(p *pod) bool {
					return slices.ContainsFunc(p.ports, func(used corev1.ContainerPort) bool { return conflict(&used, &port) })
				})
			},
			explain: func(*node) (string, string) {
				return fmt.Sprintf("port %d/%s of the node is in use", port.HostPort, port.Protocol), "use another port"
			},
		})
	}
	return checks
}

// hostPorts are the ports of the node that a pod listens on.
func hostPorts(p *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				if port.Protocol == "" {
					port.Protocol = corev1.ProtocolTCP
				}
				ports = append(ports, port)
			}
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; isSidecar(c) {
			add(c)
		}
	}
	return ports
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// conflict reports whether two ports are one: their addresses overlap.
func conflict(a, b *corev1.ContainerPort) bool {
	all := func(p *corev1.ContainerPort) bool { return p.HostIP == "" || p.HostIP == "0.0.0.0" || p.HostIP == "::" }
	return a.HostPort == b.HostPort && a.Protocol == b.Protocol && (all(a) || all(b) || a.HostIP == b.HostIP)
}
