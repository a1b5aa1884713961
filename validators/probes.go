package validators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func probeRules() Table {
	return Scoped(OnSpec,
		probeHandlersRule,
		probesReachGuestRule,
		probeTimingRule,
		probePortsRule,
	)
}

// podRejected ends what is said of a spec that KubeVirt accepts and that still can never run.
const podRejected = "; KubeVirt accepts this, but the VM's pod will be rejected"

// visitProbes shows the probes that there are.
func visitProbes(s *Subject, visit func(*field.Path, *v1.Probe)) {
	if s.Spec.ReadinessProbe != nil {
		visit(s.Path.Child("readinessProbe"), s.Spec.ReadinessProbe)
	}
	if s.Spec.LivenessProbe != nil {
		visit(s.Path.Child("livenessProbe"), s.Spec.LivenessProbe)
	}
}

// handlersOf names the handlers of a probe.
func handlersOf(probe *v1.Probe) (names []string) {
	if probe.HTTPGet != nil {
		names = append(names, "httpGet")
	}
	if probe.TCPSocket != nil {
		names = append(names, "tcpSocket")
	}
	if probe.Exec != nil {
		names = append(names, "exec")
	}
	if probe.GuestAgentPing != nil {
		names = append(names, "guestAgentPing")
	}
	return names
}

var probeHandlersRule = Rule{
	ID:     "probes-one-handler",
	Title:  "A probe has exactly one handler",
	Remedy: "Set exactly one of httpGet, tcpSocket, exec and guestAgentPing, or remove the probe.",
	Check:  probeHandlers,
}

func probeHandlers(s *Subject, found *Errors) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		handlers := handlersOf(probe)
		switch {
		case len(handlers) == 0:
			found.Add(field.Required(path, "the probe has no handler"))
		case len(handlers) > 1:
			found.Add(field.Invalid(path, strings.Join(handlers, ", "), "the probe has several handlers"))
		}
	})
}

var probesReachGuestRule = Rule{
	ID:     "probes-pod-network",
	Title:  "A probe over the network needs the pod network",
	Remedy: "Add a pod network and an interface for it, or probe with exec or guestAgentPing.",
	Check:  probesReachGuest,
}

func probesReachGuest(s *Subject, found *Errors) {
	for i := range s.Spec.Networks {
		if s.Spec.Networks[i].Pod != nil {
			return
		}
	}
	const unreachable = "the node reaches the guest over the pod network only, and the VM has none"
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.HTTPGet != nil {
			found.Add(field.Invalid(path.Child("httpGet"), probe.HTTPGet.Port.String(), unreachable))
		}
		if probe.TCPSocket != nil {
			found.Add(field.Invalid(path.Child("tcpSocket"), probe.TCPSocket.Port.String(), unreachable))
		}
	})
}

var probeTimingRule = Rule{
	ID:       "probes-pod-timing",
	Title:    "Pods accept the timing of a probe",
	Remedy:   "Use a delay of 0 or more, and a successThreshold of 1 in a livenessProbe.",
	Severity: Warn,
	Check:    probeTiming,
}

func probeTiming(s *Subject, found *Errors) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.InitialDelaySeconds < 0 {
			found.Add(field.Invalid(path.Child("initialDelaySeconds"), probe.InitialDelaySeconds, "must not be negative"+podRejected))
		}
	})
	if probe := s.Spec.LivenessProbe; probe != nil && probe.SuccessThreshold > 1 {
		found.Add(field.Invalid(s.Path.Child("livenessProbe", "successThreshold"), probe.SuccessThreshold, "must be 1 in a livenessProbe"+podRejected))
	}
}

var probePortsRule = Rule{
	ID:       "probes-pod-port",
	Title:    "Pods accept the port of a probe",
	Remedy:   "Correct the port.",
	Severity: Warn,
	Check:    probePorts,
}

func probePorts(s *Subject, found *Errors) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.HTTPGet != nil && !isProbePort(probe.HTTPGet.Port) {
			found.Add(probePortFault(path.Child("httpGet", "port"), probe.HTTPGet.Port))
		}
		if probe.TCPSocket != nil && !isProbePort(probe.TCPSocket.Port) {
			found.Add(probePortFault(path.Child("tcpSocket", "port"), probe.TCPSocket.Port))
		}
	})
}

func isProbePort(port intstr.IntOrString) bool {
	if port.Type == intstr.String {
		return len(validation.IsValidPortName(port.StrVal)) == 0
	}
	return len(validation.IsValidPortNum(int(port.IntVal))) == 0
}

func probePortFault(path *field.Path, port intstr.IntOrString) *field.Error {
	return field.Invalid(path, port.String(), "must be a number from 1 to 65535 or the name of a port"+podRejected)
}
