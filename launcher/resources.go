package launcher

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1 "kubevirt.io/api/core/v1"
)

// The amounts that KubeVirt adds to each launcher. They are copied, not changed.
var (
	launcherStorage = resource.MustParse("50M")
	one             = *resource.NewQuantity(1, resource.DecimalSI)
)

// resources are those of the compute container while they are calculated. What the author states wins over what is
// calculated.
type resources struct {
	limits, requests corev1.ResourceList
	// countedLimits and countedRequests are the devices that are counted, because the author does not state them.
	countedLimits, countedRequests []corev1.ResourceName
	claims                         []corev1.ResourceClaim
}

// device requests one more of a device.
func (r *resources) device(name corev1.ResourceName) {
	r.countedLimits = count(r.limits, r.countedLimits, name)
	r.countedRequests = count(r.requests, r.countedRequests, name)
}

// count adds one to an amount that is not stated.
func count(list corev1.ResourceList, counted []corev1.ResourceName, name corev1.ResourceName) []corev1.ResourceName {
	amount, ok := list[name]
	switch {
	case slices.Contains(counted, name):
		amount.Add(one)
		list[name] = amount
	case !ok:
		list[name] = one
		return append(counted, name)
	}
	return counted
}

// calculate sets an amount that is not stated.
func calculate(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	if _, stated := list[name]; !stated {
		list[name] = amount
	}
}

// computeResources are those of the container in which the guest runs. The order of the steps is KubeVirt's.
func (s *subject) computeResources(overhead *Overhead, networks []string) (corev1.ResourceRequirements, error) {
	stated := &s.spec.Domain.Resources
	r := &resources{limits: copied(stated.Limits), requests: copied(stated.Requests)}
	r.addStorage()
	for _, device := range s.Renderer.DeviceRequests(s.VMI, s.Facts) {
		if !device.Optional {
			r.limits[device.Resource] = one
		}
	}
	if stated.Requests.Memory().IsZero() {
		s.memoryRequest(r)
	}
	if s.dedicated {
		s.pinnedCPUs(r)
	} else if err := s.sharedCPUs(r); err != nil {
		return corev1.ResourceRequirements{}, err
	}
	if memory := s.spec.Domain.Memory; memory != nil && memory.Hugepages != nil {
		r.hugePages(memory, overhead.Total)
	} else {
		r.addOverhead(overhead.Total, stated.OvercommitGuestOverhead)
	}
	if s.limited(corev1.ResourceMemory) {
		request := r.requests[corev1.ResourceMemory]
		limit := int64(float64(request.Value()) * s.memoryLimitRatio())
		calculate(r.limits, corev1.ResourceMemory, *resource.NewQuantity(limit, request.Format))
	}
	for _, name := range networks {
		if name != "" {
			r.device(corev1.ResourceName(name))
		}
	}
	s.passthrough(r)
	return corev1.ResourceRequirements{Limits: r.limits, Requests: r.requests, Claims: r.claims}, nil
}

// copied is a copy with room for what is added.
func copied(list corev1.ResourceList) corev1.ResourceList {
	result := make(corev1.ResourceList, len(list)+4)
	maps.Copy(result, list)
	return result
}

// addStorage adds the launcher's own ephemeral storage to that of the author.
func (r *resources) addStorage() {
	request := r.requests[corev1.ResourceEphemeralStorage]
	request.Add(launcherStorage)
	r.requests[corev1.ResourceEphemeralStorage] = request
	if limit, ok := r.limits[corev1.ResourceEphemeralStorage]; ok {
		limit.Add(launcherStorage)
		r.limits[corev1.ResourceEphemeralStorage] = limit
	}
}

// memoryRequest fills a request that is missing: from the limit, or from the memory of the guest, which the cluster can
// overcommit.
func (s *subject) memoryRequest(r *resources) {
	request, ok := r.requests[corev1.ResourceMemory]
	if limit := r.limits[corev1.ResourceMemory]; !limit.IsZero() && request.IsZero() {
		r.requests[corev1.ResourceMemory] = limit
		return
	}
	memory := s.spec.Domain.Memory
	if ok || memory == nil {
		return
	}
	var guest resource.Quantity
	switch {
	case memory.Guest != nil:
		guest = *memory.Guest
	case memory.Hugepages != nil:
		page, err := resource.ParseQuantity(memory.Hugepages.PageSize)
		if err != nil {
			return
		}
		guest = page
	}
	switch overcommit := int64(s.Facts.Configuration.DeveloperConfiguration.MemoryOvercommit); {
	case guest.Value() <= 0:
	case overcommit == 100:
		r.requests[corev1.ResourceMemory] = guest
	default:
		r.requests[corev1.ResourceMemory] = *resource.NewQuantity(guest.Value()*100/overcommit, guest.Format)
	}
}

// ioThreads are the additional CPUs of a pool of I/O threads. KubeVirt counts them whatever the policy is.
func (s *subject) ioThreads() int64 {
	threads := s.spec.Domain.IOThreads
	if threads == nil || threads.SupplementalPoolThreadCount == nil {
		return 0
	}
	return int64(*threads.SupplementalPoolThreadCount)
}

// pinnedCPUs requests whole CPUs, and limits the memory to what is requested, so that the pod is guaranteed.
func (s *subject) pinnedCPUs(r *resources) {
	cpu := s.spec.Domain.CPU
	threads := s.ioThreads()
	if cpus := vcpus(cpu); cpus != 0 {
		r.limits[corev1.ResourceCPU] = *resource.NewQuantity(cpus+threads, resource.BinarySI)
		r.requests[corev1.ResourceCPU] = *resource.NewQuantity(cpus+threads, resource.BinarySI)
	} else {
		addTo(r.limits, corev1.ResourceCPU, threads)
		addTo(r.requests, corev1.ResourceCPU, threads)
	}
	if cpu.IsolateEmulatorThread {
		limit := r.limits[corev1.ResourceCPU]
		emulator := int64(1)
		_, even := s.VMI.Annotations[v1.EmulatorThreadCompleteToEvenParity]
		if policy := s.spec.Domain.IOThreadsPolicy; policy == nil || *policy != v1.IOThreadsPolicySupplementalPool {
			threads = 0
		}
		if even && (limit.Value()+threads)%2 == 0 {
			emulator = 2
		}
		limit.Add(*resource.NewQuantity(emulator, resource.BinarySI))
		r.limits[corev1.ResourceCPU] = limit
		addTo(r.requests, corev1.ResourceCPU, emulator)
	}
	if request, ok := r.requests[corev1.ResourceMemory]; ok {
		r.limits[corev1.ResourceMemory] = request
	}
}

// addTo adds to an amount that is stated.
func addTo(list corev1.ResourceList, name corev1.ResourceName, n int64) {
	if amount, ok := list[name]; ok {
		amount.Add(*resource.NewQuantity(n, resource.BinarySI))
		list[name] = amount
	}
}

// sharedCPUs requests a share of each vCPU.
func (s *subject) sharedCPUs(r *resources) error {
	cpus := int64(1)
	if cpu := s.spec.Domain.CPU; cpu != nil {
		cpus = vcpus(cpu)
	}
	cpus += s.ioThreads()
	if cpus == 0 {
		return nil
	}
	request, err := share(cpus, s.Facts.Configuration.DeveloperConfiguration.CPUAllocationRatio)
	if err != nil {
		return err
	}
	calculate(r.requests, corev1.ResourceCPU, request)
	if s.limited(corev1.ResourceCPU) || s.limitsCPUOfNamespace() {
		calculate(r.limits, corev1.ResourceCPU, *resource.NewQuantity(cpus, resource.DecimalSI))
	}
	return nil
}

// usualRatio is KubeVirt's default, for which no fraction is lost.
const usualRatio = 10

// share divides CPUs by the cluster's ratio. KubeVirt divides floating-point numbers, and reads the text of the result, which
// loses nothing but what is less than a nanoCPU.
func share(cpus int64, ratio int) (resource.Quantity, error) {
	if ratio == usualRatio {
		return *resource.NewMilliQuantity(cpus*1000/usualRatio, resource.DecimalSI), nil
	}
	value, unit := float64(cpus)/float64(ratio), ""
	if value < 1 {
		value, unit = value*1000, "m"
	}
	request, err := resource.ParseQuantity(strconv.FormatFloat(value, 'f', -1, 64) + unit)
	if err != nil {
		return request, fmt.Errorf("dividing %d CPUs by cpuAllocationRatio %d: %w", cpus, ratio, err)
	}
	return request, nil
}

// hugePages requests huge pages for the guest, so that the memory is the overhead, and what the author requests beyond the
// guest's memory.
func (r *resources) hugePages(memory *v1.Memory, overhead resource.Quantity) {
	name := corev1.ResourceName(corev1.ResourceHugePagesPrefix + memory.Hugepages.PageSize)
	request, limit := r.requests[corev1.ResourceMemory], r.limits[corev1.ResourceMemory]
	pages := request
	moreRequest, moreLimit := bytes(0), bytes(0)
	if guest := memory.Guest; guest != nil {
		if request.Value() > guest.Value() {
			pages = *guest
			moreRequest = request
			moreRequest.Sub(*guest)
		}
		if limit.Value() > guest.Value() {
			moreLimit = limit
			moreLimit.Sub(*guest)
		}
	}
	calculate(r.requests, name, pages)
	calculate(r.limits, name, pages)
	moreRequest.Add(overhead)
	r.requests[corev1.ResourceMemory] = moreRequest
	if _, ok := r.limits[corev1.ResourceMemory]; ok {
		moreLimit.Add(overhead)
		r.limits[corev1.ResourceMemory] = moreLimit
	}
}

// addOverhead adds the overhead to the memory. The author can leave it out of the request, but not of the limit.
func (r *resources) addOverhead(overhead resource.Quantity, overcommitted bool) {
	request := r.requests[corev1.ResourceMemory]
	if !overcommitted {
		request.Add(overhead)
	}
	r.requests[corev1.ResourceMemory] = request
	if limit, ok := r.limits[corev1.ResourceMemory]; ok {
		limit.Add(overhead)
		r.limits[corev1.ResourceMemory] = limit
	}
}

// limited reports whether KubeVirt adds a limit, because a ResourceQuota of the namespace requires one.
func (s *subject) limited(name corev1.ResourceName) bool {
	if _, stated := s.spec.Domain.Resources.Limits[name]; stated {
		return false
	}
	return slices.Contains(s.Cluster.Quotas, "limits."+string(name))
}

// limitsCPUOfNamespace reports whether the configuration of KubeVirt limits the CPUs of all virtual machines of the namespace.
func (s *subject) limitsCPUOfNamespace() bool {
	selector := s.Facts.Configuration.AutoCPULimitNamespaceLabelSelector
	if _, stated := s.spec.Domain.Resources.Limits[corev1.ResourceCPU]; selector == nil || stated {
		return false
	}
	if s.Cluster.NamespaceLabels == nil {
		s.assume("autoCPULimitNamespaceLabelSelector of the cluster does not select the namespace")
		return false
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && selects.Matches(labels.Set(s.Cluster.NamespaceLabels))
}

// defaultMemoryLimitRatio of a limit that a quota requires.
const defaultMemoryLimitRatio = 2.0

func (s *subject) memoryLimitRatio() float64 {
	ratio, err := strconv.ParseFloat(s.Cluster.NamespaceLabels[v1.AutoMemoryLimitsRatioLabel], 64)
	if err != nil || !(ratio >= 1) {
		return defaultMemoryLimitRatio
	}
	return ratio
}
