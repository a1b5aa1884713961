package rollouts

import (
	"reflect"

	v1 "kubevirt.io/api/core/v1"
)

// event is what happened to a value.
type event uint8

const (
	changed event = iota
	added
	removed
	// reordered lists have the same items in another order.
	reordered
	// reattach is for a disk that the VM does not change, and that KubeVirt detaches and attaches with its volume.
	reattach
	// vanish is for an absent interface that is already unplugged.
	vanish
	// explicit values are written in the VM now, and the instance already has them.
	explicit
	// absent is for a reference to something that does not exist.
	absent
	// conflicting is for a field that the VM must not set beside its instancetype.
	conflicting
	// fails is for a step at which KubeVirt fails.
	fails
)

// difference is a field whose desired value is not the one that runs.
type difference struct {
	// path is relative to the spec of an instance, or to the VM if outside is set.
	path    string
	outside bool
	// list is volumes, disks, interfaces or networks, and item the name of the item; empty for other fields.
	list, item string
	event      event
	// unstarted is set if the desired value equals the one at the start of the instance.
	unstarted  bool
	name       string
	old, wants reflect.Value
}

// maxFound bounds the differences that are kept. The others are counted.
const maxFound = 8 * MaxChanges

func (p *planner) add(d difference) {
	if len(p.found) >= maxFound {
		p.dropped++
		return
	}
	p.found = append(p.found, d)
}

// path is the path of a node below the spec of an instance. It is empty if its difference is not kept.
func (p *planner) path(at *node) string {
	if len(p.found) >= maxFound {
		return ""
	}
	return at.relative()
}

// findDifferences lists what differs, in the order of the fields.
func (p *planner) findDifferences() {
	p.missingDifferences()
	p.specDifferences()
	p.socketDifference()
	p.guestDifference()
	p.firmwareDifference()
	p.placementDifferences()
	p.itemDifferences()
	p.metadataDifferences()
	p.outsideDifferences()
	p.conflictDifferences()
}

// specDifferences are those of fields without rules of their own. They are compared with the start of the instance, whose
// running spec has defaults.
func (p *planner) specDifferences() {
	wanted := reflect.ValueOf(p.wanted).Elem()
	if p.started == nil {
		c := comparison{separate: true, differ: func(at *node, before, after reflect.Value) bool {
			if !after.IsZero() && !covers(before, after) && !p.keepsEviction(at) {
				p.add(p.fieldDifference(at, before, after))
			}
			return true
		}}
		if p.running != nil {
			c.compare(nil, reflect.ValueOf(p.running).Elem(), wanted)
		}
		return
	}
	c := comparison{separate: true, differ: func(at *node, before, after reflect.Value) bool {
		if p.coldFields++; p.coldFields == 1 {
			p.coldField = at.relative()
		}
		p.refine(at, before, after)
		return true
	}}
	c.compare(nil, reflect.ValueOf(p.started).Elem(), wanted)
}

// refine compares a difference with the running instance, which may already have the desired value as a default.
func (p *planner) refine(at *node, before, after reflect.Value) {
	if p.running != nil && p.keepsEviction(at) {
		d := p.fieldDifference(at, before, after)
		d.event = explicit
		p.add(d)
		return
	}
	if p.running == nil || after.IsZero() {
		p.add(p.fieldDifference(at, before, after))
		return
	}
	running := valueAt(reflect.ValueOf(p.running).Elem(), at)
	if !running.IsValid() || running.IsZero() {
		p.add(p.fieldDifference(at, before, after))
		return
	}
	if covers(running, after) {
		d := p.fieldDifference(at, before, after)
		d.event = explicit
		p.add(d)
		return
	}
	if !before.IsZero() {
		p.add(p.fieldDifference(at, before, after))
		return
	}
	c := comparison{separate: true, differ: func(below *node, runs, wants reflect.Value) bool {
		if !wants.IsZero() && !covers(runs, wants) {
			p.add(p.fieldDifference(below, runs, wants))
		}
		return true
	}}
	c.compare(at, running, after)
}

// keepsEviction reports whether a difference is one of the eviction strategy, without effect on the instance.
func (p *planner) keepsEviction(at *node) bool {
	return at.parent == nil && at.name == "evictionStrategy" && p.evictsAs(p.running) == p.evictsAs(p.wanted)
}

// evictsAs is the eviction strategy that counts for an instance: that of the cluster, unless it has its own.
func (p *planner) evictsAs(spec *v1.VirtualMachineInstanceSpec) v1.EvictionStrategy {
	switch {
	case spec.EvictionStrategy != nil:
		return *spec.EvictionStrategy
	case p.facts.EvictionStrategy != nil:
		return *p.facts.EvictionStrategy
	}
	return v1.EvictionStrategyNone
}

func (p *planner) fieldDifference(at *node, before, after reflect.Value) difference {
	d := difference{path: p.path(at), name: at.name, old: before, wants: after}
	switch {
	case before.IsZero():
		d.event = added
	case after.IsZero():
		d.event = removed
	}
	return d
}

func (p *planner) socketDifference() {
	if p.wanted.Domain.CPU == nil || p.running == nil && p.started == nil {
		return
	}
	runs := p.startedSockets()
	if p.running != nil && p.running.Domain.CPU != nil {
		runs = p.running.Domain.CPU.Sockets
	}
	if wants := p.wanted.Domain.CPU.Sockets; runs != wants {
		p.add(difference{path: "domain.cpu.sockets", name: "sockets", old: reflect.ValueOf(runs), wants: reflect.ValueOf(wants), unstarted: wants == p.startedSockets()})
	}
}

func (p *planner) startedSockets() uint32 {
	if p.started != nil && p.started.Domain.CPU != nil {
		return p.started.Domain.CPU.Sockets
	}
	return 0
}

func (p *planner) guestDifference() {
	before, wants, runs := guestOf(p.started), guestOf(p.wanted), guestOf(p.running)
	d := difference{path: "domain.memory.guest", name: "guest", unstarted: equalQuantities(before, wants)}
	switch {
	case wants == nil:
		if before == nil || p.wanted.Domain.Memory == nil {
			return // without a memory section, specDifferences reports all of it
		}
		d.event, d.old = removed, reflect.ValueOf(before)
	case p.running == nil:
		if d.unstarted || p.started == nil {
			return
		}
		d.old, d.wants = reflect.ValueOf(before), reflect.ValueOf(wants)
	case equalQuantities(runs, wants) || runs == nil && d.unstarted:
		return
	default:
		d.old, d.wants = reflect.ValueOf(runs), reflect.ValueOf(wants)
	}
	p.add(d)
}

func (p *planner) firmwareDifference() {
	if p.wantedUUID == uuidOf(p.started) && p.started != nil {
		return
	}
	runs := uuidOf(p.running)
	if p.running == nil {
		runs = uuidOf(p.started)
	}
	if runs != "" && runs != p.wantedUUID {
		p.add(difference{path: "domain.firmware.uuid", name: "uuid", old: reflect.ValueOf(runs), wants: reflect.ValueOf(p.wantedUUID)})
	}
}

// placementDifferences are those of nodeSelector, affinity and tolerations. Under LiveUpdate, KubeVirt makes the instance
// equal to the VM. Otherwise only what the VM changes is pending.
func (p *planner) placementDifferences() {
	if p.running == nil && p.started == nil {
		return
	}
	compare := func(name string, runs, wants, before reflect.Value) {
		unstarted := p.started != nil && equal(before, wants, false)
		if !p.facts.LiveUpdate && unstarted {
			return
		}
		at := node{name: name}
		c := comparison{differ: func(below *node, old, wants reflect.Value) bool {
			d := p.fieldDifference(below, old, wants)
			d.unstarted = unstarted
			p.add(d)
			return true
		}}
		c.compare(&at, runs, wants)
	}
	started, running := p.started, p.running
	if started == nil {
		started = &v1.VirtualMachineInstanceSpec{}
	}
	if running == nil {
		running = started
	}
	compare("nodeSelector", reflect.ValueOf(running.NodeSelector), reflect.ValueOf(p.wanted.NodeSelector), reflect.ValueOf(started.NodeSelector))
	compare("affinity", reflect.ValueOf(running.Affinity), reflect.ValueOf(p.wanted.Affinity), reflect.ValueOf(started.Affinity))
	compare("tolerations", reflect.ValueOf(running.Tolerations), reflect.ValueOf(p.wanted.Tolerations), reflect.ValueOf(started.Tolerations))
}

// metadataDifferences are those of the labels and annotations of the template, and of the annotation of the VM that
// KubeVirt copies to the instance.
func (p *planner) metadataDifferences() {
	if p.in.Running == nil {
		return
	}
	template := &p.in.Desired.Spec.Template.ObjectMeta
	p.keyDifferences("spec.template.metadata.labels", p.startedMetadata.Labels, template.Labels, p.in.Running.Labels, p.syncsLabel)
	p.keyDifferences("spec.template.metadata.annotations", p.startedMetadata.Annotations, template.Annotations, p.in.Running.Annotations, p.syncsAnnotation)
	wants, set := p.in.Desired.Annotations[skipBackupHooks]
	if runs, has := p.in.Running.Annotations[skipBackupHooks]; has != set || runs != wants {
		p.add(difference{path: "metadata.annotations[" + skipBackupHooks + "]", outside: true, name: skipBackupHooks, old: text(runs), wants: text(wants)})
	}
}

func text(s string) reflect.Value { return reflect.ValueOf(s) }

// keyDifferences are the keys that the VM has set or removed, and the synced ones, which KubeVirt also removes.
func (p *planner) keyDifferences(path string, before, wants, runs map[string]string, synced func(string) bool) {
	for _, key := range sortedKeys(reflect.ValueOf(wants), reflect.ValueOf(before), reflect.ValueOf(runs)) {
		k := key.String()
		want, set := wants[k]
		run, has := runs[k]
		_, had := before[k]
		if set == has && want == run || !set && !had && !synced(k) || k == v1.PciTopologyVersionAnnotation || k == v1.PciInterfaceSlotCountAnnotation {
			continue
		}
		d := difference{path: path + "[" + k + "]", outside: true, name: k, old: text(run), wants: text(want)}
		if !set {
			d.event = removed
		}
		p.add(d)
	}
}

// outsideDifferences are those of the VM's fields outside of its template.
func (p *planner) outsideDifferences() {
	before, wants := p.in.LastStarted, &p.in.Desired.Spec
	if before == nil {
		return
	}
	if oldStrategy, newStrategy := runStrategyOf(before), runStrategyOf(wants); oldStrategy != newStrategy {
		p.add(difference{path: "spec.runStrategy", outside: true, name: "runStrategy", old: text(oldStrategy), wants: text(newStrategy)})
	}
	list := node{parent: &node{name: "spec"}, name: "dataVolumeTemplates"}
	known := map[string]*v1.DataVolumeTemplateSpec{}
	for i := range before.DataVolumeTemplates {
		known[before.DataVolumeTemplates[i].Name] = &before.DataVolumeTemplates[i]
	}
	for i := range wants.DataVolumeTemplates {
		template := &wants.DataVolumeTemplates[i]
		old := known[template.Name]
		item := list.item(template.Name)
		d := difference{path: p.path(&item), outside: true, name: template.Name, wants: text(template.Name)}
		switch {
		case old == nil:
			d.event = added
		case same(&old.Spec, &template.Spec):
			continue
		default:
			d.old = text(template.Name)
		}
		p.add(d)
	}
}

func runStrategyOf(spec *v1.VirtualMachineSpec) string {
	vm := v1.VirtualMachine{Spec: *spec}
	strategy, err := vm.RunStrategy()
	if err != nil {
		return ""
	}
	return string(strategy)
}

func uuidOf(spec *v1.VirtualMachineInstanceSpec) string {
	if spec == nil || spec.Domain.Firmware == nil {
		return ""
	}
	return string(spec.Domain.Firmware.UUID)
}
