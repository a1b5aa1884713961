package cel

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/domain"
)

// Previews compute what KubeVirt makes of the virtual machine. Each is computed once, when a policy first reads it. A nil
// function is that of a document that is not known.
type Previews struct {
	// Size is how large they are.
	Size   PreviewSize
	Pod    func() (*corev1.Pod, error)
	Domain func() (*domain.Domain, error)
	// Targets computes the number of nodes that could receive the virtual machine by live migration, from the objects that it points at:
	// see TargetReferences.
	Targets func(*References) (int, error)

	pod, domain, targets *Preview
}

// PreviewSize is how large previews are.
type PreviewSize struct {
	// PodDevices is the number of volumes, networks, devices and other elements of lists that make something in the pod.
	PodDevices uint64
	Domain     domain.Size
	// Conditions is the number of conditions on nodes that the virtual machine states.
	Conditions uint64
}

// Preview is what a policy that reads it gets.
type Preview struct {
	// Value is valid without Err.
	Value any
	// Units are what each policy pays that reads it, in units of ExpressionLimit.
	Units uint64
	// Err is why there is none.
	Err error
}

// What a policy pays for a preview, in units, and what a preview takes in all forms that policies read it in, in bytes: a
// constant, and so much for each part. A test compares them with what is measured.
const (
	podUnits, podDeviceUnits                               = 300, 40
	domainUnits, domainDeviceUnits, vcpuUnits, threadUnits = 600, 50, 3, 1
	podBytes, podDeviceBytes                               = 128 << 10, 10 << 10
	domainBytes, domainDeviceBytes, vcpuBytes, threadBytes = 96 << 10, 8 << 10, 1600, 512
	targetUnits, conditionUnits                            = 30_000, 4_000
)

// PodBytes returns what a pod of a size takes, in bytes.
func PodBytes(devices uint64) int64 { return int64(podBytes + podDeviceBytes*devices) } //nolint:gosec // far below the bound

// DomainBytes returns what a domain of a size takes, in bytes.
func DomainBytes(s *PreviewSize) int64 {
	of := &s.Domain
	return int64(domainBytes + domainDeviceBytes*of.Devices + vcpuBytes*of.VCPUs + threadBytes*of.IOThreads) //nolint:gosec // far below the bound
}

// MaxPreviewBytes bounds the memory of a preview, in all forms that policies read it in. It is taken besides MemoryLimit.
const MaxPreviewBytes = 4 << 20

// ErrNotPreviewed is the cause of an error of an expression that reads a preview which cannot be computed.
var ErrNotPreviewed = errors.New("cannot be previewed")

// LauncherPod is the variable pod.
type LauncherPod struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Metadata   *metav1.ObjectMeta `json:"metadata"`
	Spec       *corev1.PodSpec    `json:"spec"`
}

// PreviewNames returns the names of the variables that are computed only for policies that read them, sorted.
func PreviewNames() []string { return []string{varDomain, varTargets, varPod} }

// Preview returns the value of a variable of PreviewNames.
func (d *Documents) Preview(name string) Preview {
	if d.Previews == nil {
		return (&Previews{}).of(name, d.References)
	}
	return d.Previews.of(name, d.References)
}

// errNoPreview is the error of a preview without a function.
var errNoPreview = errors.New("the virtual machine is not known")

func (p *Previews) of(name string, references *References) Preview {
	switch name {
	case varTargets:
		var targets func() (int, error)
		if p.Targets != nil {
			targets = func() (int, error) { return p.Targets(references) }
		}
		units := targetUnits + podUnits + podDeviceUnits*p.Size.PodDevices + conditionUnits*p.Size.Conditions
		return once(&p.targets, name, units, PodBytes(p.Size.PodDevices), targets, func(n int) any { return int64(n) })
	case varPod:
		return once(&p.pod, name, podUnits+podDeviceUnits*p.Size.PodDevices, PodBytes(p.Size.PodDevices), p.Pod, func(pod *corev1.Pod) any {
			return &LauncherPod{"v1", "Pod", &pod.ObjectMeta, &pod.Spec}
		})
	}
	of := &p.Size.Domain
	units := domainUnits + domainDeviceUnits*of.Devices + vcpuUnits*of.VCPUs + threadUnits*of.IOThreads
	return once(&p.domain, name, units, DomainBytes(&p.Size), p.Domain, func(d *domain.Domain) any { return d })
}

// once computes a preview, unless it is known, or too large.
func once[T any](known **Preview, name string, units uint64, bytes int64, compute func() (T, error), value func(T) any) Preview {
	if *known != nil {
		return **known
	}
	made := &Preview{Units: units}
	var computed T
	switch {
	case compute == nil:
		made.Err = errNoPreview
	case bytes > MaxPreviewBytes:
		made.Err = fmt.Errorf("the virtual machine has too many devices, vCPUs or I/O threads: policies would need %d KiB of memory to read it, and may use %d KiB", bytes>>10, MaxPreviewBytes>>10)
	default:
		computed, made.Err = compute()
	}
	if made.Err != nil {
		made.Err = fmt.Errorf("%s %w: %w", name, ErrNotPreviewed, made.Err)
	} else {
		made.Value = value(computed)
	}
	*known = made
	return *made
}

// preview is the variable of a name. Each policy pays for it once, also for one that another policy has read before: what a
// policy may cost does not depend on others.
func (a *Activation) preview(name string, known *ref.Val) ref.Val {
	made := a.documents.Preview(name)
	if !a.paid[name] {
		a.budget.pay(made.Units, 0, name)
		if a.paid == nil {
			a.paid = map[string]bool{}
		}
		a.paid[name] = true
	}
	if made.Err != nil {
		return types.WrapErr(made.Err)
	}
	return a.once(known, func() any { return made.Value })
}
