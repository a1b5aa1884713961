package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/plugins"
)

const document = `
<domain type="kvm">
  <name>shop_db</name>
  <memory unit="b">1024</memory>
  <vcpu placement="static">2</vcpu>
  <cpu mode="host-model">
    <topology sockets="1" cores="2" threads="1"/>
    <feature policy="require" name="vmx"/>
  </cpu>
  <devices>
    <controller type="usb" index="0" model="none"/>
    <controller type="scsi" index="0" model="virtio-non-transitional"/>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw" cache="none"/>
      <source file="/data/disk.img"/>
      <target dev="vda" bus="virtio"/>
      <alias name="ua-data"/>
      <capacity>1</capacity>
    </disk>
    <interface type="ethernet">
      <address type="pci" domain="0x0000" bus="0x01" slot="0x00" function="0x0"/>
      <target dev="tap0" managed="no"/>
      <model type="virtio-non-transitional"/>
    </interface>
    <channel type="unix">
      <target type="virtio" name="org.qemu.guest_agent.0"/>
    </channel>
    <serial type="unix"><target port="0"/><source mode="bind" path="/run/serial0"/></serial>
  </devices>
</domain>`

func parse(t testing.TB, text string) *domain.Element {
	t.Helper()
	e, err := domain.ParseElement(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func instance() *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace, vmi.Labels = "db", "shop", map[string]string{"tier": "gold"}
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: 2}
	return vmi
}

// read reads a list of Plugins.
func read(t testing.TB, text string) (list []*pluginv1alpha1.Plugin) {
	t.Helper()
	var objects []map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &objects); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		p, err := plugins.Decode(object)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// hook is a Plugin with one expression.
func hook(expression string) *pluginv1alpha1.Plugin {
	p := &pluginv1alpha1.Plugin{}
	p.Name = "p"
	p.Spec.DomainHooks = []pluginv1alpha1.DomainHook{{CEL: &pluginv1alpha1.CELDomainHook{Expression: expression}}}
	return p
}

func values(e *domain.Element) map[string]string {
	all := map[string]string{}
	e.Walk(func(path, value string, _ domain.Source) { all[path] = value })
	return all
}

// TestMerge holds how the result of a hook changes the domain. The real virt-launcher gives the same.
func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		expression string
		// want are the values that differ from the document; - says that there is none.
		want map[string]string
	}{
		"nothing":                  {`Domain{}`, nil},
		"a text":                   {`Domain{Title: "a" + vmi.Labels["tier"]}`, map[string]string{"title": "agold"}},
		"a part of an element":     {`Domain{Memory: DomainMemory{Value: domainSpec.Memory.Value * 2u}}`, map[string]string{"memory": "2048"}},
		"a new element":            {`Domain{Clock: DomainClock{Offset: "utc"}}`, map[string]string{"clock@offset": "utc"}},
		"null":                     {`Domain{VCPU: null}`, map[string]string{"vcpu": "-", "vcpu@placement": "-"}},
		"zero of a plain field":    {`Domain{Memory: DomainMemory{Unit: ""}}`, map[string]string{"memory@unit": "-"}},
		"zero of a pointer":        {`Domain{ID: 0}`, map[string]string{"@id": "0"}},
		"a list is replaced":       {`Domain{CPU: DomainCPU{Features: [DomainCPUFeature{Name: "svm"}]}}`, map[string]string{"cpu/feature@name": "svm", "cpu/feature@policy": "-"}},
		"a list is extended":       {`Domain{CPU: DomainCPU{Features: domainSpec.CPU.Features + [DomainCPUFeature{Name: "svm"}]}}`, map[string]string{"cpu/feature@name": "-", "cpu/feature@policy": "-", "cpu/feature[0]@name": "vmx", "cpu/feature[0]@policy": "require", "cpu/feature[1]@name": "svm"}},
		"a list is emptied":        {`Domain{CPU: DomainCPU{Features: []}}`, map[string]string{"cpu/feature@name": "-", "cpu/feature@policy": "-"}},
		"a part of the old domain": {`Domain{CPU: domainSpec.CPU}`, nil},
		"an absent part is empty":  {`Domain{Title: domainSpec.OS.Type.Arch + string(domainSpec.Clock.Timer.size())}`, map[string]string{"title": "0"}},
		"a variant":                {`Domain{Devices: DomainDeviceList{Watchdogs: [DomainWatchdog{Model: "i6300esb", Action: "none", Address: DomainAddress{PCI: DomainAddressPCI{Bus: 10u, Slot: 1u}}}]}}`, map[string]string{"devices/watchdog@model": "i6300esb", "devices/watchdog@action": "none", "devices/watchdog/address@type": "pci", "devices/watchdog/address@bus": "0x0a", "devices/watchdog/address@slot": "0x01"}},
		"a variant replaces one":   {`Domain{Devices: DomainDeviceList{Serials: [DomainSerial{Source: DomainChardevSource{Pty: DomainChardevSourcePty{}}}]}}`, map[string]string{"devices/serial@type": "pty", "devices/serial/target@port": "-", "devices/serial/source@mode": "-", "devices/serial/source@path": "-"}},
		"arguments of QEMU":        {`Domain{QEMUCommandline: DomainQEMUCommandline{Args: [DomainQEMUCommandlineArg{Value: "-trace"}]}}`, map[string]string{"qemu:commandline/qemu:arg@value": "-trace"}},
		"each item is changed": {
			`Domain{Devices: DomainDeviceList{Disks: domainSpec.Devices.Disks.map(d, d.Target.Bus == "virtio", DomainDisk{Device: d.Device, Driver: DomainDiskDriver{Cache: "writeback"}, Source: d.Source, Target: d.Target})}}`,
			map[string]string{"devices/disk/driver@cache": "writeback", "devices/disk/driver@name": "-", "devices/disk/driver@type": "-", "devices/disk/alias@name": "-"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := plugins.NewSet([]*pluginv1alpha1.Plugin{hook(`Domain{}`)}).Apply(instance(), parse(t, document))
			result := plugins.NewSet([]*pluginv1alpha1.Plugin{hook(c.expression)}).Apply(instance(), parse(t, document))
			if result.Err != nil || !result.Exact() {
				t.Fatalf("%v, %+v", result.Err, result.Hooks)
			}
			was, is, got := values(before.Document), values(result.Document), map[string]string(nil)
			note := func(path, value string) {
				if got == nil {
					got = map[string]string{}
				}
				got[path] = value
			}
			for path, value := range is {
				if old, had := was[path]; !had || old != value {
					note(path, value)
				}
			}
			for path := range was {
				if _, has := is[path]; !has {
					note(path, "-")
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestErrors holds which hooks fail, and with what.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ expression, want string }{
		"an unknown field":               {`Domain{Bogus: "a"}`, "undefined field 'Bogus'"},
		"a name of JSON":                 {`Domain{Title: vmi.metadata.name}`, "undefined field 'metadata'"},
		"a signed number":                {`Domain{Memory: DomainMemory{Value: 1}}`, "expected type of field 'Value' is 'uint' but provided type is 'int'"},
		"a library of strings":           {`Domain{Title: vmi.Name.lowerAscii()}`, "undeclared reference to 'lowerAscii'"},
		"another type":                   {`domainSpec.Name`, "a domain hook makes a Domain, and this is of the type string"},
		"the variable":                   {`domainSpec`, "is not a Domain{…} of the expression"},
		"a text without a type":          {`Domain{Memory: DomainMemory{Value: dyn("a")}}`, "libvirtxml.DomainMemory.Value: a value of the type string cannot be converted"},
		"an object for a text":           {`Domain{Name: dyn(DomainCPU{})}`, "virt-launcher would panic"},
		"an object of another type":      {`Domain{CPU: dyn(DomainMemory{Value: 1u})}`, "libvirtxml.DomainCPU has no field Value"},
		"a field that was not made":      {`Domain{Title: DomainCPU{}.Mode}`, "reads the field Mode of a libvirtxml.DomainCPU that it made without it"},
		"a comparison of what was made":  {`Domain{Title: DomainCPU{} == domainSpec.CPU ? "a" : "b"}`, "cannot be compared"},
		"an index":                       {`Domain{Title: domainSpec.Devices.Disks[9].Device}`, "index out of bounds"},
		"an expensive loop":              {`Domain{Title: [1,2,3,4,5,6,7,8,9,10].all(a, ` + strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(b, `, 7) + `true` + strings.Repeat(`)`, 8) + ` ? "a" : "b"}`, "cost limit"},
		"a large domain":                 {`Domain{Title: ` + strings.Repeat(`[`, 15) + `"aaaaaaaaaaaaaaaa"` + strings.Repeat(`].map(x, x+x+x+x)[0]`, 15) + `}`, ""},
		"an address that has no content": {`Domain{Devices: DomainDeviceList{Interfaces: [DomainInterface{}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugins.NewSet([]*pluginv1alpha1.Plugin{hook(c.expression), hook(`Domain{}`)}).Apply(instance(), parse(t, document))
			if result.Err == nil || !strings.Contains(result.Err.Error(), c.want) || result.Hooks[len(result.Hooks)-1].Outcome != plugins.Failed {
				t.Errorf("%v, want %s", result.Err, c.want)
			}
			if name == "an expensive loop" {
				return // it takes a second
			}
			ignoring := hook(c.expression)
			ignoring.Spec.FailureStrategy = pluginv1alpha1.FailureStrategyIgnore
			result = plugins.NewSet([]*pluginv1alpha1.Plugin{ignoring}).Apply(instance(), parse(t, document))
			if name != "an address that has no content" && (result.Err != nil || result.Hooks[0].Outcome != plugins.Ignored) {
				t.Errorf("with Ignore: %v, %+v", result.Err, result.Hooks)
			}
		})
	}
}

// TestOrder holds the order of hooks, the conditions and the sources of what they write.
func TestOrder(t *testing.T) {
	list := read(t, `
- apiVersion: plugin.kubevirt.io/v1alpha1
  kind: Plugin
  metadata: {name: b}
  spec:
    condition: vmi.Spec.Domain.CPU.Cores == 2u
    domainHooks:
    - cel: {expression: 'Domain{Title: domainSpec.Title + "b0"}'}
    - condition: domainSpec.Title == "a0b0"
      cel: {expression: 'Domain{Title: domainSpec.Title + "b1", Description: "last"}'}
    - condition: domainSpec.Title == "a0"
      cel: {expression: 'Domain{Title: "never"}'}
- apiVersion: plugin.kubevirt.io/v1alpha1
  kind: Plugin
  metadata: {name: a}
  spec:
    failureStrategy: Ignore
    domainHooks:
    - cel: {expression: 'Domain{Title: "a0"}'}
    - cel: {expression: 'Domain{Title: domainSpec.Devices.Disks[7].Device}'}
- apiVersion: plugin.kubevirt.io/v1alpha1
  kind: Plugin
  metadata: {name: c}
  spec:
    condition: vmi.Name == "other"
    domainHooks: [{cel: {expression: 'Domain{Title: "c"}'}}]
`)
	result := plugins.NewSet(list).Apply(instance(), parse(t, document))
	var got []string
	for i := range result.Hooks {
		h := &result.Hooks[i]
		got = append(got, fmt.Sprintf("%s %s %s", h.Plugin, h.Hook, h.Outcome))
	}
	want := []string{
		"a domainHooks[0] Applied", "a domainHooks[1] Ignored", "b domainHooks[0] Applied", "b domainHooks[1] Applied",
		"b domainHooks[2] Skipped", "c condition Skipped",
	}
	if diff := cmp.Diff(want, got); diff != "" || result.Err != nil {
		t.Error(diff, result.Err)
	}
	sources := map[string]string{}
	result.Document.Walk(func(path, value string, source domain.Source) { sources[path] = value + " " + source.Plugin })
	for path, want := range map[string]string{"title": "a0b0b1 b/domainHooks[1]", "description": "last b/domainHooks[1]", "name": "shop_db ", "memory": "1024 "} {
		if sources[path] != want {
			t.Errorf("%s is %q, want %q", path, sources[path], want)
		}
	}
	if changes := result.Hooks[2].Changes; len(changes) != 1 || changes[0].Before != "a0" || changes[0].After != "a0b0" || changes[0].BeforeSource.Plugin != "a/domainHooks[0]" {
		t.Errorf("the hook b/0 changed %+v", changes)
	}
	if diff := cmp.Diff([]string{"devices[0]/disk[0]/capacity[0]"}, result.Lost); diff != "" {
		t.Error(diff)
	}
}

// TestConditions holds that a failing condition is fatal, whatever the strategy.
func TestConditions(t *testing.T) {
	for name, text := range map[string]string{
		"of the plugin": `{condition: 'domainSpec.Devices.Disks[9].Device == "a"', failureStrategy: Ignore, domainHooks: [{cel: {expression: 'Domain{}'}}]}`,
		"of the hook":   `{failureStrategy: Ignore, domainHooks: [{condition: 'vmi.Labels["gone"] == "a"', failureStrategy: Ignore, cel: {expression: 'Domain{}'}}]}`,
		"of no type":    `{failureStrategy: Ignore, condition: 'vmi.Name', domainHooks: [{cel: {expression: 'Domain{}'}}]}`,
	} {
		list := read(t, `[{apiVersion: plugin.kubevirt.io/v1alpha1, kind: Plugin, metadata: {name: p}, spec: `+text+`}]`)
		if result := plugins.NewSet(list).Apply(instance(), parse(t, document)); result.Err == nil || !strings.Contains(result.Err.Error(), "which no failure strategy ignores") {
			t.Errorf("%s: %v", name, result.Err)
		}
	}
}

// TestNotPreviewed holds that nothing that cannot be previewed is ignored.
func TestNotPreviewed(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a sidecar":              {`{domainHooks: [{sidecar: {socketPath: /var/run/kubevirt-plugin/p/s.sock}}]}`, "a sidecar at /var/run/kubevirt-plugin/p/s.sock"},
		"metadata":               {`{domainHooks: [{cel: {expression: 'Domain{Title: domainSpec.Metadata.XML}'}}]}`, "libvirtxml.Domain.Metadata cannot be previewed"},
		"a test of metadata":     {`{domainHooks: [{condition: 'has(domainSpec.Metadata)', cel: {expression: 'Domain{}'}}]}`, "libvirtxml.Domain.Metadata cannot be previewed"},
		"a part that is written": {`{domainHooks: [{cel: {expression: 'Domain{Devices: DomainDeviceList{Smartcards: [DomainSmartcard{}]}}'}}]}`, "DomainSmartcard"},
		"a field without a type": {`{domainHooks: [{cel: {expression: 'Domain{Title: dyn(domainSpec).Metadata.XML}'}}]}`, "libvirtxml.Domain.Metadata cannot be previewed"},
		"a plugin's condition":   {`{condition: 'has(domainSpec.Metadata)', domainHooks: [{cel: {expression: 'Domain{}'}}]}`, "libvirtxml.Domain.Metadata cannot be previewed"},
	} {
		list := read(t, `[{apiVersion: plugin.kubevirt.io/v1alpha1, kind: Plugin, metadata: {name: p}, spec: `+c.text+`}]`)
		result := plugins.NewSet(list).Apply(instance(), parse(t, document))
		if result.Err != nil || result.Exact() || !strings.Contains(result.Hooks[0].Message, c.want) {
			t.Errorf("%s: %v, %+v, want %s", name, result.Err, result.Hooks, c.want)
		}
	}
}

// TestNodeHooks holds that conditions of node hooks are of the other language, and that their hooks change nothing.
func TestNodeHooks(t *testing.T) {
	list := read(t, `
- apiVersion: plugin.kubevirt.io/v1alpha1
  kind: Plugin
  metadata: {name: p}
  spec:
    nodeHooks:
    - {socket: /run/p.sock, permittedHooks: [PreVMStart], condition: 'vmi.metadata.name.upperAscii() == "DB"'}
    - {socket: /run/p.sock, permittedHooks: [PreVMStart], condition: vmi.spec.domain.cpu.cores > 2}
`)
	result := plugins.NewSet(list).Apply(instance(), parse(t, document))
	if result.Err != nil || !result.Exact() || len(result.Hooks) != 2 || result.Hooks[0].Outcome != plugins.Unpreviewable || result.Hooks[1].Outcome != plugins.Skipped {
		t.Errorf("%v, %+v", result.Err, result.Hooks)
	}
}

// TestUnreadable holds that a domain that libvirtxml cannot read is an error with any Plugin.
func TestUnreadable(t *testing.T) {
	text := strings.Replace(document, "<controller", `<hostdev type="pci" managed="no"><source><address type="pci" bus="0x1"/></source></hostdev><controller`, 1)
	result := plugins.NewSet([]*pluginv1alpha1.Plugin{hook(`Domain{}`)}).Apply(instance(), parse(t, text))
	if result.Err == nil || !strings.Contains(result.Err.Error(), "devices[0]/hostdev[0]: libvirtxml requires the attribute mode") {
		t.Error(result.Err)
	}
	if without := plugins.NewSet(nil).Apply(instance(), parse(t, text)); without.Err != nil || len(domain.Diff(parse(t, text), without.Document)) > 0 {
		t.Error(without.Err)
	}
}

// TestDecode holds that unknown fields and too many hooks are errors.
func TestDecode(t *testing.T) {
	many := make([]any, 300)
	for i := range many {
		many[i] = map[string]any{"cel": map[string]any{"expression": "Domain{}"}}
	}
	for want, spec := range map[string]map[string]any{
		`unknown field "spec.hooks"`:                   {"hooks": []any{}},
		"spec.domainHooks: Too many: 300":              {"domainHooks": many},
		"cannot unmarshal number into Go struct field": {"condition": 1},
	} {
		if _, err := plugins.Decode(map[string]any{"spec": spec}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func parseOnly(text string) (*domain.Element, error) {
	return domain.ParseElement(strings.NewReader(text))
}
