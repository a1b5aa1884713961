package launcher

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// Remark is about a figure of KubeVirt that is odd, and the better one.
type Remark struct {
	// Field of the instance that causes it.
	Field string
	Text  string
}

// remark is a row of the table of remarks. It returns an empty text if it does not apply.
type remark struct {
	field string
	text  func(s *subject, pod *corev1.Pod, overhead *Overhead) string
}

// remarkRows are sorted by field.
var remarkRows = []remark{
	{"spec.domain.cpu.dedicatedCpuPlacement", notGuaranteed},
	{"spec.domain.devices.hostDevices", usbAsVFIO},
	{"spec.domain.ioThreads", uselessThreads},
	{"spec.domain.memory.guest", fewPageTables},
	{"spec.domain.memory.hugepages", oddPages},
	{"spec.domain.resources.limits.memory", limitBelowGuest},
	{"spec.domain.resources.requests", fractions},
	{"spec.nodeSelector", overriddenSelectors},
}

func (s *subject) remarks(pod *corev1.Pod, overhead *Overhead) []Remark {
	var remarks []Remark
	for i := range remarkRows {
		if text := remarkRows[i].text(s, pod, overhead); text != "" {
			remarks = append(remarks, Remark{remarkRows[i].field, text})
		}
	}
	return remarks
}

// guest is the memory of the guest; zero if only requests state it.
func (s *subject) guest() resource.Quantity {
	if memory := s.spec.Domain.Memory; memory != nil && memory.Guest != nil {
		return *memory.Guest
	}
	return resource.Quantity{}
}

// fewPageTables compares the overhead for page tables with that of the guest's memory.
func fewPageTables(s *subject, _ *corev1.Pod, overhead *Overhead) string {
	guest := s.guest()
	advised := bytes(guest.Value() / 512)
	if have, _ := overhead.component("page-tables"); advised.Value() < have.Value()+mebibyte {
		return ""
	}
	total := overhead.Total.DeepCopy()
	total.Add(advised)
	return "KubeVirt adds no memory for the page tables of memory.guest, only of requests.memory. They need " + Readable(&advised) +
		", so that the overhead would be " + Readable(&total) + "."
}

func usbAsVFIO(s *subject, _ *corev1.Pod, _ *Overhead) string {
	permitted := s.Facts.Configuration.PermittedHostDevices
	devices := &s.spec.Domain.Devices
	if permitted == nil || len(devices.HostDevices) == 0 || len(devices.GPUs) > 0 || hasSRIOV(s.VMI) {
		return ""
	}
	for i := range devices.HostDevices {
		if !slices.ContainsFunc(permitted.USB, func(u v1.USBHostDevice) bool { return u.ResourceName == devices.HostDevices[i].DeviceName }) {
			return ""
		}
	}
	return "KubeVirt adds 1Gi for VFIO, which USB devices do not need."
}

func uselessThreads(s *subject, _ *corev1.Pod, _ *Overhead) string {
	if policy := s.spec.Domain.IOThreadsPolicy; s.ioThreads() == 0 || policy != nil && *policy == v1.IOThreadsPolicySupplementalPool {
		return ""
	}
	return "The pod requests CPUs for I/O threads that the guest does not get without ioThreadsPolicy: supplementalPool."
}

// oddPages are huge pages that are fewer than the guest needs, or no whole number of pages.
func oddPages(s *subject, pod *corev1.Pod, _ *Overhead) string {
	memory := s.spec.Domain.Memory
	if memory == nil || memory.Hugepages == nil {
		return ""
	}
	page, err := resource.ParseQuantity(memory.Hugepages.PageSize)
	if err != nil || page.Value() <= 0 {
		return ""
	}
	guest := s.guest()
	requested := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(corev1.ResourceHugePagesPrefix+memory.Hugepages.PageSize)]
	switch {
	case requested.Value() < guest.Value():
		return "The pod requests " + Readable(&requested) + " of huge pages, less than the memory of the guest: huge pages cannot be overcommitted."
	case requested.Value()%page.Value() != 0:
		return "The pod requests " + Readable(&requested) + " of huge pages, which is no whole number of pages of " + memory.Hugepages.PageSize + "."
	}
	return ""
}

func limitBelowGuest(s *subject, _ *corev1.Pod, _ *Overhead) string {
	guest := s.guest()
	limit, ok := s.spec.Domain.Resources.Limits[corev1.ResourceMemory]
	if !ok || limit.Cmp(guest) >= 0 {
		return ""
	}
	return "The limit is less than the memory of the guest, so that the pod can be killed."
}

func fractions(_ *subject, pod *corev1.Pod, _ *Overhead) string {
	requests := pod.Spec.Containers[0].Resources.Requests
	memory := requests[corev1.ResourceMemory]
	if memory.Cmp(*resource.NewQuantity(memory.Value(), memory.Format)) != 0 {
		return "The pod requests a fraction of a byte: " + memory.String() + ". Kubernetes warns about it."
	}
	cpu := requests[corev1.ResourceCPU]
	if cpu.Cmp(*resource.NewMilliQuantity(cpu.MilliValue(), cpu.Format)) != 0 {
		return "The pod requests a fraction of a thousandth of a CPU: " + cpu.String() + ". Kubernetes rounds it up."
	}
	return ""
}

func overriddenSelectors(s *subject, _ *corev1.Pod, _ *Overhead) string {
	var keys []string
	for _, key := range []string{corev1.LabelArchStable, v1.NodeSchedulable} {
		_, byAuthor := s.spec.NodeSelector[key]
		_, byCluster := s.Facts.Configuration.DeveloperConfiguration.NodeSelectors[key]
		if byAuthor || byCluster {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return "A node selector replaces KubeVirt's own demand for " + strings.Join(keys, " and ") + "."
}

// notGuaranteed are dedicated CPUs without a limit. Then the pod gets no CPUs of its own.
func notGuaranteed(s *subject, pod *corev1.Pod, _ *Overhead) string {
	if _, limited := pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]; limited || !s.dedicated {
		return ""
	}
	return "The pod has no CPU limit, so that it is not Guaranteed and gets no dedicated CPUs. State the CPUs as limits, or as cores."
}

// Readable is an amount of memory for people: in binary units, rounded to two digits after the point.
func Readable(amount *resource.Quantity) string {
	n := amount.Value()
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"Ti", 1 << 40}, {"Gi", gibibyte}, {"Mi", mebibyte}, {"Ki", 1 << 10}} {
		if n >= unit.bytes || n <= -unit.bytes {
			return fraction(n, unit.bytes) + unit.name
		}
	}
	return amount.String()
}

// fraction is n/unit with at most two digits after the point.
func fraction(n, unit int64) string {
	q := resource.NewScaledQuantity(int64(float64(n)/float64(unit)*100+0.5), -2)
	text := q.AsDec().String()
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
