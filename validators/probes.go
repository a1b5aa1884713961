package validators

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func probeRules() Table {
	return Table{
		{ID: "probes-one-handler", Title: "A probe asks in exactly one way", Scope: OnSpec, Remedy: "Set exactly one of httpGet, tcpSocket, exec and guestAgentPing, or remove the probe.", Check: probeHandlers},
		{ID: "probes-pod-network", Title: "A probe over the network has the pod network", Scope: OnSpec, Remedy: "Add a pod network and an interface for it, or probe with exec or guestAgentPing.", Check: probesReachGuest},
		{ID: "probes-pod-timing", Title: "A probe has a timing that pods accept", Scope: OnSpec, Severity: Warn, Remedy: "Use a delay of 0 or more, and a successThreshold of 1 in a livenessProbe.", Check: probeTiming},
		{ID: "probes-pod-port", Title: "A probe has a port that pods accept", Scope: OnSpec, Severity: Warn, Remedy: "Name a port from 1 to 65535.", Check: probePorts},
	}
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

const probeHandlerNames = "httpGet, tcpSocket, exec and guestAgentPing"

// handlersOf names the ways in which a probe asks.
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

func probeHandlers(s *Subject) (errs field.ErrorList) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		handlers := handlersOf(probe)
		switch {
		case len(handlers) == 0:
			errs = append(errs, field.Required(path, "the probe does not say how to ask: it needs one of "+probeHandlerNames))
		case len(handlers) > 1:
			errs = append(errs, field.Invalid(path, strings.Join(handlers, ", "), "the probe asks in several ways: only one of "+probeHandlerNames+" can be set"))
		}
	})
	return errs
}

func probesReachGuest(s *Subject) (errs field.ErrorList) {
	for i := range s.Spec.Networks {
		if s.Spec.Networks[i].Pod != nil {
			return nil
		}
	}
	const unreachable = "the node reaches the guest over the pod network only, and the VM has none"
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.HTTPGet != nil {
			errs = append(errs, field.Invalid(path.Child("httpGet"), probe.HTTPGet.Port.String(), unreachable))
		}
		if probe.TCPSocket != nil {
			errs = append(errs, field.Invalid(path.Child("tcpSocket"), probe.TCPSocket.Port.String(), unreachable))
		}
	})
	return errs
}

func probeTiming(s *Subject) (errs field.ErrorList) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.InitialDelaySeconds < 0 {
			errs = append(errs, field.Invalid(path.Child("initialDelaySeconds"), probe.InitialDelaySeconds, "must not be negative"+podRejected))
		}
	})
	if probe := s.Spec.LivenessProbe; probe != nil && probe.SuccessThreshold > 1 {
		errs = append(errs, field.Invalid(s.Path.Child("livenessProbe", "successThreshold"), probe.SuccessThreshold, "must be 1 in a livenessProbe"+podRejected))
	}
	return errs
}

func probePorts(s *Subject) (errs field.ErrorList) {
	visitProbes(s, func(path *field.Path, probe *v1.Probe) {
		if probe.HTTPGet != nil && !isProbePort(probe.HTTPGet.Port) {
			errs = append(errs, probePortFault(path.Child("httpGet", "port"), probe.HTTPGet.Port))
		}
		if probe.TCPSocket != nil && !isProbePort(probe.TCPSocket.Port) {
			errs = append(errs, probePortFault(path.Child("tcpSocket", "port"), probe.TCPSocket.Port))
		}
	})
	return errs
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
