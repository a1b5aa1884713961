package hypervisor

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/leaves"
)

// writers is what every provider built on mutators.BaseDefaults can tell.
type writers interface{ Writers() []mutators.Writer }

// writersOf are the steps for an architecture, as far as they are known, and the key they are registered under.
func (s *suite) writersOf(architecture string) ([]mutators.Writer, string) {
	key := s.Name + "/" + architecture
	provider, err := s.registry.Defaults(s.Name, architecture)
	if err != nil {
		return nil, key // the registry has every architecture
	}
	if steps, ok := provider.(writers); ok {
		return steps.Writers(), key
	}
	return nil, key
}

// oneWriter: for one hypervisor and architecture no two steps write one field, nor one a field below the other's.
func (s *suite) oneWriter(p *problems) {
	for _, architecture := range architectures.Names() {
		steps, key := s.writersOf(architecture)
		if len(steps) == 0 {
			p.add(key, "%s: the provider does not embed mutators.BaseDefaults, so the fields that its steps write are unknown", key)
		}
		var before []struct{ field, step string }
		for _, w := range steps {
			if len(w.Fields) == 0 {
				p.add(key+w.Step, "%s: step %s of layer %s does not say what it writes", key, w.Step, w.Layer)
			}
			for _, f := range w.Fields {
				for _, b := range before {
					if leaves.Covers(f, b.field) || leaves.Covers(b.field, f) {
						p.add(key+f, "%s: the steps %s and %s both write %s", key, b.step, w.Step, f)
					}
				}
				before = append(before, struct{ field, step string }{f, w.Step})
			}
		}
	}
}

var index = regexp.MustCompile(`\[\d+\]`)

// steps: what changes was empty, is recorded, and is among what a step of that layer says it writes.
func (s *suite) steps(p *problems) {
	s.eachCompletion(p, func(key string, steps []mutators.Writer, o *object, provider mutators.DefaultsProvider, facts *platform.Facts, vmi *v1.VirtualMachineInstance) {
		before, err := leaves.Of("", vmi)
		if err != nil {
			return // not even JSON
		}
		rec := provenance.NewRecorder("spec")
		provider.SetDefaultVirtualMachineInstance(facts, vmi, rec)
		after, err := leaves.Of("", vmi)
		if err != nil {
			p.add(key, "%s: %s does not encode after it was completed: %v", key, o.name, err)
			return
		}
		for _, c := range rec.Changes() {
			if len(steps) == 0 {
				break // unknown
			}
			path := index.ReplaceAllString(strings.TrimPrefix(c.Path, "spec."), "[*]")
			if !writes(steps, c.Layer, path) {
				p.add(key+path, "%s: layer %s wrote %s of %s, which none of its steps says", key, c.Layer, c.Path, o.name)
			}
		}
		lost := leaves.Lost(before, after)
		for _, path := range leaves.Changed(before, after) {
			if !inChanges(rec.Changes(), path) && (!slices.Contains(lost, path) || unset(path, before[path])) {
				p.add(key+index.ReplaceAllString(path, ""), "%s: %s of %s was changed, but nothing was recorded", key, path, o.name)
			}
		}
		for _, path := range lost {
			if !unset(path, before[path]) {
				p.add(key+"lost", "%s: %s of %s was %v, and now is %v", key, path, o.name, before[path], after[path])
			}
		}
	})
}

// twice: completing what is complete changes nothing.
func (s *suite) twice(p *problems) {
	s.eachCompletion(p, func(key string, _ []mutators.Writer, o *object, provider mutators.DefaultsProvider, facts *platform.Facts, vmi *v1.VirtualMachineInstance) {
		provider.SetDefaultVirtualMachineInstance(facts, vmi, provenance.NewRecorder("spec"))
		once, rec := vmi.DeepCopy(), provenance.NewRecorder("spec")
		provider.SetDefaultVirtualMachineInstance(facts, vmi, rec)
		if changes := rec.Changes(); len(changes) > 0 {
			p.add(key+changes[0].Layer, "%s: completing %s twice writes %s again, in layer %s", key, o.name, changes[0].Path, changes[0].Layer)
		} else if !equality.Semantic.DeepEqual(once, vmi) {
			p.add(key, "%s: completing %s twice changes it again", key, o.name)
		}
		if o.vm == nil {
			return
		}
		vm := o.vm.DeepCopy()
		provider.SetVirtualMachineDefaults(vm, facts, provenance.NewRecorder("spec.template.spec"))
		persisted := vm.DeepCopy()
		provider.SetVirtualMachineDefaults(vm, facts, provenance.NewRecorder("spec.template.spec"))
		if !equality.Semantic.DeepEqual(persisted, vm) {
			p.add(key+"vm", "%s: what is persisted of %s changes when it is completed again", key, o.name)
		}
	})
}

type completion func(key string, steps []mutators.Writer, o *object, provider mutators.DefaultsProvider, facts *platform.Facts, vmi *v1.VirtualMachineInstance)

// eachCompletion goes through every object, on every architecture, under every name.
func (s *suite) eachCompletion(p *problems, do completion) {
	objects, err := s.everyObject()
	if err != nil {
		p.add("objects", "%v", err)
		return
	}
	for _, architecture := range architectures.Names() {
		steps, key := s.writersOf(architecture)
		provider, err := s.registry.Defaults(s.Name, architecture)
		if err != nil {
			p.add(key, "%v", err)
			continue
		}
		for i := range objects {
			for _, form := range s.forms {
				o := &objects[i]
				p.attempt(key+": completing "+o.name, func() {
					do(key, steps, o, provider, o.facts.WithHypervisor(form), o.on(architecture))
				})
			}
		}
	}
}

func writes(steps []mutators.Writer, layer, path string) bool {
	for _, w := range steps {
		for _, f := range w.Fields {
			if w.Layer == layer && leaves.Covers(f, path) {
				return true
			}
		}
	}
	return false
}

func inChanges(changes []provenance.Change, path string) bool {
	for i := range changes {
		if leaves.Covers(changes[i].Path, path) {
			return true
		}
	}
	return false
}

// unset tells the values that mean "not set" where there is no pointer: zeroes, and in probes whatever is below
// their minimum of 1.
func unset(path string, value any) bool {
	number, ok := value.(float64)
	return value == "" || value == 0.0 || value == false || ok && number < 1 && strings.Contains(path, "Probe.")
}
