package sample

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// Launcher is the layer of sample on the pod: each launcher has a monitor and its device, and there is no vhost-net.
func Launcher() launcher.Layer {
	return launcher.Layer{
		Components: []launcher.Component{{
			Name: "monitor", Title: "monitor of sample",
			Of: func(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity { return resource.MustParse("16Mi") },
		}},
		Devices: []launcher.Device{
			{
				Name:      "monitor",
				Resource:  func(*platform.Facts) corev1.ResourceName { return "devices.kubevirt.io/sample-monitor" },
				Requested: func(*v1.VirtualMachineInstance, *platform.Facts) bool { return true },
			},
			{Name: "vhost-net"},
		},
	}
}
