package launcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
)

// supportResources are the defaults of a supporting container. Pods share them.
type supportResources struct {
	requests, limits map[corev1.ResourceName]resource.Quantity
}

func amounts(cpu, memory string) map[corev1.ResourceName]resource.Quantity {
	return map[corev1.ResourceName]resource.Quantity{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// withStorage adds the ephemeral storage of a launcher.
func withStorage(list map[corev1.ResourceName]resource.Quantity) map[corev1.ResourceName]resource.Quantity {
	list[corev1.ResourceEphemeralStorage] = launcherStorage
	return list
}

var (
	consoleDefaults  = supportResources{amounts("5m", "35M"), amounts("15m", "60M")}
	diskDefaults     = supportResources{withStorage(amounts("1m", "1M")), amounts("10m", "40M")}
	virtiofsDefaults = supportResources{amounts("10m", "1M"), amounts("100m", "80M")}
	sidecarDefaults  = supportResources{nil, amounts("200m", "64M")}
	// copyDefaults are those of the container that copies a binary. Its CPU limit is lower in guaranteed pods.
	copyDefaults           = supportResources{amounts("10m", "1M"), amounts("100m", "40M")}
	guaranteedCopyDefaults = supportResources{nil, amounts("10m", "40M")}
)

// supportNames are the resources of supporting containers.
var supportNames = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// support are the resources of a supporting container: those of the cluster, or the defaults. In guaranteed pods, the requests
// equal the limits.
func (s *subject) support(kind v1.SupportContainerType, defaults *supportResources) corev1.ResourceRequirements {
	if len(s.Facts.Configuration.SupportContainerResources) == 0 && !s.dedicated && !s.guaranteed {
		return corev1.ResourceRequirements{Requests: defaults.requests, Limits: defaults.limits}
	}
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}
	if storage, ok := defaults.requests[corev1.ResourceEphemeralStorage]; ok {
		r.Requests[corev1.ResourceEphemeralStorage] = storage
	}
	for _, name := range supportNames {
		setSupport(r.Limits, name, defaults.limits, s.configured(kind, name, false))
		setSupport(r.Requests, name, defaults.requests, s.configured(kind, name, true))
		if s.dedicated || s.guaranteed {
			r.Requests[name] = r.Limits[name]
		}
	}
	return r
}

func setSupport(list corev1.ResourceList, name corev1.ResourceName, defaults map[corev1.ResourceName]resource.Quantity, configured *resource.Quantity) {
	if configured != nil {
		list[name] = *configured
	} else if amount, ok := defaults[name]; ok {
		list[name] = amount
	}
}

// configured is what the cluster configures for a kind of supporting containers; nil for the default.
func (s *subject) configured(kind v1.SupportContainerType, name corev1.ResourceName, request bool) *resource.Quantity {
	for i := range s.Facts.Configuration.SupportContainerResources {
		row := &s.Facts.Configuration.SupportContainerResources[i]
		if row.Type != kind {
			continue
		}
		list := row.Resources.Limits
		if request {
			list = row.Resources.Requests
		}
		if amount := list[name]; !amount.IsZero() {
			return &amount
		}
	}
	return nil
}

// sidecarResources has no defaults in pods that are not guaranteed.
func (s *subject) sidecarResources() corev1.ResourceRequirements {
	if s.dedicated || s.guaranteed {
		return s.support(v1.SideCar, &sidecarDefaults)
	}
	return s.support(v1.SideCar, &supportResources{})
}

func (s *subject) copyResources() corev1.ResourceRequirements {
	if s.dedicated || s.guaranteed {
		return s.support(v1.ContainerDisk, &guaranteedCopyDefaults)
	}
	return s.support(v1.ContainerDisk, &copyDefaults)
}

// diskResources are those of the containers of container disks.
func (s *subject) diskResources() corev1.ResourceRequirements {
	return s.support(v1.ContainerDisk, &diskDefaults)
}
