package plugins_test

import (
	"testing"

	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/json"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/plugins"
)

// FuzzApply holds that no expression, instance and document panic, and that a result can be read again.
func FuzzApply(f *testing.F) {
	for _, expression := range []string{
		`Domain{}`, `Domain{Devices: DomainDeviceList{Disks: domainSpec.Devices.Disks + [DomainDisk{}]}}`, `Domain{Name: dyn(DomainCPU{})}`,
		`Domain{CPU: DomainCPU{Features: domainSpec.CPU.Features.map(x, DomainCPUFeature{Name: x.Name})}}`, `Domain{SysInfo: [DomainSysInfo{}]}`,
		`Domain{Devices: DomainDeviceList{Interfaces: domainSpec.Devices.Interfaces.filter(i, has(i.Source))}}`, `dyn(domainSpec)`,
		`Domain{Title: string(domainSpec == domainSpec)}`, `Domain{Metadata: null}`, `Domain{XMLName: domainSpec.XMLName}`,
	} {
		f.Add(expression, `domainSpec.Name == vmi.Name`, []byte(`{"metadata":{"name":"db"}}`), document)
	}
	f.Fuzz(func(t *testing.T, expression, condition string, instance []byte, text string) {
		vmi := &v1.VirtualMachineInstance{}
		if _, err := json.UnmarshalStrict(instance, vmi); err != nil || len(text)+len(expression)+len(condition) > 1<<16 {
			t.Skip()
		}
		before, err := parseOnly(text)
		if err != nil {
			t.Skip()
		}
		p := hook(expression)
		p.Spec.DomainHooks[0].Condition = condition
		plugins.Lint([]*pluginv1alpha1.Plugin{p, hook(expression)})
		result := plugins.NewSet([]*pluginv1alpha1.Plugin{p, hook(expression)}).Apply(vmi, before)
		nothing := plugins.NewSet([]*pluginv1alpha1.Plugin{hook(`Domain{}`)})
		if result.Err != nil {
			return
		}
		read := nothing.Apply(vmi, result.Document) // it has the types that libvirtxml assumes
		if read.Err != nil {
			return
		}
		if again := nothing.Apply(vmi, read.Document); again.Err != nil || len(domain.Diff(read.Document, again.Document)) > 0 {
			t.Errorf("the document changes when it is read again: %v, %+v", again.Err, domain.Diff(read.Document, again.Document))
		}
	})
}
