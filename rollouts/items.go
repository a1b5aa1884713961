package rollouts

import (
	"reflect"

	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/claims"
)

// itemLists are the lists whose items KubeVirt plugs and unplugs. Each is compared by the names of its items.
func (p *planner) itemDifferences() {
	if p.running == nil {
		p.stoppedItemDifferences()
		return
	}
	started := p.started
	if started == nil {
		started = &v1.VirtualMachineInstanceSpec{}
	}
	comparedItems(p, &items[v1.Volume]{
		list: "volumes", path: "volumes", name: volumeName,
		started: started.Volumes, wanted: p.wanted.Volumes, running: p.running.Volumes,
		foreign: func(v *v1.Volume) bool { return !hotplugged(v) },
		defaulted: func(wants, runs *v1.Volume) bool {
			return claims.OfVolume(wants) == claims.OfVolume(runs) && hotpluggable(wants) == hotpluggable(runs)
		},
	})
	comparedItems(p, &items[v1.Disk]{
		list: "disks", path: "domain.devices.disks", name: diskName,
		started: started.Domain.Devices.Disks, wanted: p.wanted.Domain.Devices.Disks, running: p.running.Domain.Devices.Disks,
		foreign:   func(d *v1.Disk) bool { return !hotplugged(p.runningVolumes.find(d.Name)) },
		defaulted: func(_, _ *v1.Disk) bool { return true }, ordered: true,
	})
	comparedItems(p, &items[v1.Interface]{
		list: "interfaces", path: "domain.devices.interfaces", name: interfaceName,
		started: started.Domain.Devices.Interfaces, wanted: p.wanted.Domain.Devices.Interfaces, running: p.running.Domain.Devices.Interfaces,
		foreign:   func(i *v1.Interface) bool { return p.attachedByDefault(i.Name) },
		defaulted: func(wants, runs *v1.Interface) bool { return wants.State == runs.State }, ordered: true,
	})
	comparedItems(p, &items[v1.Network]{
		list: "networks", path: "networks", name: networkName,
		started: started.Networks, wanted: p.wanted.Networks, running: p.running.Networks,
		foreign:   func(n *v1.Network) bool { return p.attachedByDefault(n.Name) },
		defaulted: func(wants, runs *v1.Network) bool { return attachment(wants) == attachment(runs) },
	})
}

// items are a list of the instance: at its start, as desired, and as it runs.
type items[T any] struct {
	list, path string
	name       func(*T) string
	started    []T
	wanted     []T
	running    []T
	// foreign items of the instance were not in the VM: KubeVirt has added them.
	foreign func(*T) bool
	// defaulted reports whether an item that the VM has not changed since the start only differs by defaults.
	defaulted func(wants, runs *T) bool
	// ordered lists have a meaning of their order.
	ordered bool
}

// index finds items by their names. Of items with one name it finds the first.
type index[T any] struct {
	list   []T
	name   func(*T) string
	byName map[string]int
}

// fewItems are searched without a map.
const fewItems = 12

func indexed[T any](list []T, name func(*T) string) index[T] {
	x := index[T]{list: list, name: name}
	if len(list) <= fewItems {
		return x
	}
	x.byName = make(map[string]int, len(list))
	for i := range list {
		if _, taken := x.byName[name(&list[i])]; !taken {
			x.byName[name(&list[i])] = i
		}
	}
	return x
}

// position is -1 if there is no such item.
func (x *index[T]) position(name string) int {
	if x.byName != nil {
		if i, ok := x.byName[name]; ok {
			return i
		}
		return -1
	}
	for i := range x.list {
		if x.name(&x.list[i]) == name {
			return i
		}
	}
	return -1
}

func (x *index[T]) find(name string) *T {
	if i := x.position(name); i >= 0 {
		return &x.list[i]
	}
	return nil
}

func comparedItems[T any](p *planner, l *items[T]) {
	started, wanted, running := indexed(l.started, l.name), indexed(l.wanted, l.name), indexed(l.running, l.name)
	for i := range l.wanted {
		wants := &l.wanted[i]
		name := l.name(wants)
		if wanted.position(name) != i {
			continue
		}
		before, runs := started.find(name), running.find(name)
		switch {
		case runs == nil:
			p.add(difference{
				path: p.path(l.node(name)), list: l.list, item: name, event: added, name: name, wants: reflect.ValueOf(wants),
				unstarted: before != nil && same(before, wants),
			})
		case same(runs, wants) || before != nil && same(before, wants) && l.defaulted(wants, runs):
		default:
			comparedItem(p, l, l.node(name), before, wants, runs)
		}
	}
	for i := range l.running {
		runs := &l.running[i]
		name := l.name(runs)
		before := started.find(name)
		if wanted.find(name) != nil || before == nil && l.foreign(runs) {
			continue
		}
		p.add(difference{
			path: p.path(l.node(name)), list: l.list, item: name, event: removed, name: name, old: reflect.ValueOf(runs),
			unstarted: before == nil,
		})
	}
	if l.ordered && !inOrder(l, &started) {
		at := nodeOf(l.path)
		p.add(difference{path: p.path(at), list: l.list, event: reordered, name: l.list, old: namesIn(l.started, l.name), wants: namesIn(l.wanted, l.name)})
	}
}

// comparedItem reports the fields of an item that differ. A value of the instance that neither the VM nor its start has is
// a default.
func comparedItem[T any](p *planner, l *items[T], at *node, before, wants, runs *T) {
	unstarted := before != nil && same(before, wants)
	c := comparison{differ: func(below *node, old, want reflect.Value) bool {
		isDefault := want.IsZero() && before != nil && !setAt(reflect.ValueOf(before).Elem(), below, at)
		if isDefault && !(l.list == "interfaces" && below.name == "state") {
			return true
		}
		d := p.fieldDifference(below, old, want)
		d.list, d.item, d.event, d.unstarted = l.list, l.name(wants), changed, unstarted
		p.add(d)
		return true
	}}
	c.compare(at, reflect.ValueOf(runs).Elem(), reflect.ValueOf(wants).Elem())
}

// setAt reports whether a value has the field of a node that is below another one.
func setAt(value reflect.Value, below, top *node) bool {
	if below == top {
		return value.IsValid() && !value.IsZero()
	}
	var cut func(*node) *node
	cut = func(n *node) *node {
		if n == nil || n == top {
			return nil
		}
		return &node{parent: cut(n.parent), name: n.name, key: n.key}
	}
	found := valueAt(value, cut(below))
	return found.IsValid() && !found.IsZero()
}

func (l *items[T]) node(name string) *node {
	at := nodeOf(l.path).item(name)
	return &at
}

// inOrder reports whether the items that the VM has kept are in the order of the start.
func inOrder[T any](l *items[T], started *index[T]) bool {
	last := -1
	for i := range l.wanted {
		k := started.position(l.name(&l.wanted[i]))
		if k < 0 {
			continue
		}
		if k < last {
			return false
		}
		last = k
	}
	return true
}

func namesIn[T any](list []T, name func(*T) string) reflect.Value {
	names := make([]string, len(list))
	for i := range list {
		names[i] = name(&list[i])
	}
	return reflect.ValueOf(names)
}

// stoppedItemDifferences compares with the start of an instance that is gone.
func (p *planner) stoppedItemDifferences() {
	if p.started == nil {
		return
	}
	for _, l := range []struct {
		at            *node
		list          string
		before, after reflect.Value
	}{
		{nodeOf("volumes"), "volumes", reflect.ValueOf(p.started.Volumes), reflect.ValueOf(p.wanted.Volumes)},
		{nodeOf("domain.devices.disks"), "disks", reflect.ValueOf(p.started.Domain.Devices.Disks), reflect.ValueOf(p.wanted.Domain.Devices.Disks)},
		{nodeOf("domain.devices.interfaces"), "interfaces", reflect.ValueOf(p.started.Domain.Devices.Interfaces), reflect.ValueOf(p.wanted.Domain.Devices.Interfaces)},
		{nodeOf("networks"), "networks", reflect.ValueOf(p.started.Networks), reflect.ValueOf(p.wanted.Networks)},
	} {
		c := comparison{differ: func(at *node, before, after reflect.Value) bool {
			d := p.fieldDifference(at, before, after)
			d.list = l.list
			p.add(d)
			return true
		}}
		c.compare(l.at, l.before, l.after)
	}
}

// attachedByDefault reports whether an interface of the instance is the one that KubeVirt adds to VMs without networks.
func (p *planner) attachedByDefault(name string) bool {
	networks := indexed(p.running.Networks, networkName)
	network := networks.find(name)
	return network != nil && network.Pod != nil
}

// attachment is the name of the NetworkAttachmentDefinition of a network.
func attachment(network *v1.Network) string {
	if network == nil || network.Multus == nil {
		return ""
	}
	return network.Multus.NetworkName
}

func volumeName(v *v1.Volume) string       { return v.Name }
func diskName(d *v1.Disk) string           { return d.Name }
func interfaceName(i *v1.Interface) string { return i.Name }
func networkName(n *v1.Network) string     { return n.Name }
