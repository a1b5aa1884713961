package hypervisor

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/leaves"
	"github.com/virtward/virtward/validators"
)

// names: a cluster can name the hypervisor, and what the facts say of it is whole.
func (s *suite) names(p *problems) {
	if len(s.forms) == 0 {
		p.add("forms", "platform.HypervisorByName knows no name of %s", s.Name)
	}
	for _, form := range s.forms {
		switch {
		case form.Name != s.Name:
			p.add(form.ConfiguredName, "the name %s is that of the hypervisor %s, not of %s", form.ConfiguredName, form.Name, s.Name)
		case form.ConfiguredName == "" || form.VirtType == "":
			p.add("empty", "a form of %s lacks the name in the KubeVirt resource or libvirt's domain type: %+v", s.Name, form)
		case !strings.Contains(form.Device, "/"):
			p.add(form.ConfiguredName, "the device %q of %s is no extended resource, such as devices.kubevirt.io/kvm", form.Device, form.ConfiguredName)
		}
	}
}

// sharedRules: nothing that is checked on every hypervisor is left out.
func (s *suite) sharedRules(p *problems) {
	for _, architecture := range architectures.Names() {
		validator, err := s.registry.Validator(s.Name, architecture)
		if err != nil {
			p.add(architecture, "%v", err)
			continue
		}
		shared, err := validators.NewBaseValidator(architecture)
		if err != nil {
			p.add(architecture, "%v", err)
			continue
		}
		for _, rule := range without(shared.Rules(), validator.Rules()) {
			p.add(architecture, "%s/%s does not check the shared rule %s: its validator does not embed validators.BaseValidator", s.Name, architecture, rule.ID)
		}
	}
}

// defaultsPass: whatever is rejected is its author's doing. No layer of the hypervisor writes what a rule then
// rejects, and an object with nothing wrong stays one.
func (s *suite) defaultsPass(p *problems) {
	recordedObjects, err := s.recorded()
	if err != nil {
		p.add("objects", "%v", err)
		return
	}
	for _, architecture := range architectures.Names() {
		for _, form := range s.forms {
			for _, o := range ordinary() {
				for _, f := range s.rejections(p, s.pipeline, &o, form, architecture) {
					p.add(architecture+f.Rule, "%s/%s rejects %s, with which nothing is wrong: %s: %v", s.Name, architecture, o.name, f.Rule, f.Error)
				}
			}
			for i := range recordedObjects {
				s.blame(p, &recordedObjects[i], form, architecture)
			}
		}
	}
}

// blame finds rejections of an object that the hypervisor causes: of values of its own layers, and by shared rules that
// do not apply without such a layer.
func (s *suite) blame(p *problems, o *object, form platform.Hypervisor, architecture string) {
	findings := s.rejections(p, s.pipeline, o, form, architecture)
	if len(findings) == 0 {
		return
	}
	own := idsOf(s.own[architecture])
	var written, plain map[string]bool
	for _, f := range findings {
		if own[f.Rule] {
			if f.Layer != s.Name && f.Layer != s.Name+"/"+architecture {
				continue
			}
			if written == nil {
				written = s.asWritten(p, o, form, architecture)
			}
			if !written[f.Rule] {
				p.add(architecture+f.Rule, "%s/%s: %s rejects what the layer %s wrote into %s: %v", s.Name, architecture, f.Rule, f.Layer, o.name, f.Error)
			}
			continue
		}
		if plain == nil {
			nothing := platform.Hypervisor{Name: plainName, ConfiguredName: plainName}
			plain = rulesOf(s.rejections(p, s.plain, o, nothing, architecture))
		}
		if !plain[f.Rule] {
			p.add(architecture+f.Rule, "%s/%s: %s rejects %s because of the hypervisor's defaults: %v", s.Name, architecture, f.Rule, o.name, f.Error)
		}
	}
}

// rejections are what is rejected in an object after it was completed.
func (s *suite) rejections(p *problems, pipeline *effective.Pipeline, o *object, form platform.Hypervisor, architecture string) (rejected []validators.Finding) {
	p.attempt(s.Name+"/"+architecture+": checking "+o.name, func() {
		in := effective.Input{Facts: o.facts.WithHypervisor(form)}
		if in.VMI = o.on(architecture); o.vm != nil && o.vm.Spec.Template != nil {
			in.VM, in.VMI = o.vm.DeepCopy(), nil
			in.VM.Spec.Template.Spec.Architecture = architecture
		}
		verdict, err := pipeline.Decide(in)
		if err != nil {
			p.add("evaluate", "%s: %v", o.name, err)
			return
		}
		rejected = denied(verdict.Findings)
	})
	return rejected
}

// asWritten are the rules that reject an object before it is completed.
func (s *suite) asWritten(p *problems, o *object, form platform.Hypervisor, architecture string) map[string]bool {
	validator, err := s.registry.Validator(s.Name, architecture)
	if err != nil {
		p.add(architecture, "%v", err)
		return nil
	}
	vmi := o.on(architecture)
	return rulesOf(denied(validator.ValidateVirtualMachineInstanceSpec(&validators.Subject{
		Facts: o.facts.WithHypervisor(form), VMI: vmi, Spec: &vmi.Spec, Path: field.NewPath("spec"),
		Meta: &vmi.ObjectMeta, MetaPath: field.NewPath("metadata"),
	})))
}

func denied(findings []validators.Finding) []validators.Finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f validators.Finding) bool { return f.Severity != validators.Deny })
}

func rulesOf(findings []validators.Finding) map[string]bool {
	ids := map[string]bool{}
	for i := range findings {
		ids[findings[i].Rule] = true
	}
	return ids
}

// noPanic evaluates every object: as it is, as an update of another one, and on an unknown architecture.
func (s *suite) noPanic(p *problems) {
	objects, err := s.everyObject()
	if err != nil {
		p.add("objects", "%v", err)
		return
	}
	for _, form := range s.forms {
		for i := range objects {
			o, other := &objects[i], &objects[(i*31+7)%len(objects)]
			facts := o.facts.WithHypervisor(form)
			inputs := []effective.Input{
				{VMI: o.vmi.DeepCopy(), Facts: facts},
				{VMI: o.vmi.DeepCopy(), Facts: facts, PostMutation: true},
				{VMI: o.vmi.DeepCopy(), OldVMI: other.vmi.DeepCopy(), Facts: facts},
				{VMI: o.on("riscv64"), Facts: facts},
			}
			if o.vm != nil {
				inputs = append(inputs, effective.Input{VM: o.vm.DeepCopy(), Facts: facts}, effective.Input{VM: o.vm.DeepCopy(), OldVM: o.vm.DeepCopy(), Facts: facts})
			}
			for _, in := range inputs {
				p.attempt(s.Name+": evaluating "+o.name, func() {
					if _, err := s.pipeline.Decide(in); err != nil {
						p.add("evaluate", "%s: %v", o.name, err)
					}
				})
			}
		}
	}
}

// wantedFindings: every case gives what it says, and nothing else.
func (s *suite) wantedFindings(p *problems) {
	names := map[string]bool{}
	for i := range s.cases {
		c := &s.cases[i]
		if names[c.Name] {
			p.add(c.Name, "two cases have the name %q", c.Name)
		}
		names[c.Name] = true
		p.attempt("case "+c.Name, func() {
			verdict, err := s.evaluate(c)
			if err != nil {
				p.add(c.Name, "case %q: %v", c.Name, err)
				return
			}
			if diff := cmp.Diff(strings.Join(c.Want, "\n"), strings.Join(texts(verdict.Findings), "\n")); diff != "" {
				p.add(c.Name, "case %q: findings (-want +got):\n%s", c.Name, diff)
			}
		})
	}
}

func texts(findings []validators.Finding) []string {
	var all []string
	for i := range findings {
		all = append(all, findings[i].Rule+": "+findings[i].Error.Error())
	}
	return all
}

func (s *suite) evaluate(c *Case) (*effective.Verdict, error) {
	facts, err := s.factsOf(c)
	if err != nil {
		return nil, err
	}
	in := effective.Input{Facts: facts}
	if c.VM != "" {
		in.VM = &v1.VirtualMachine{}
		err = read(c.VM, in.VM)
	}
	if c.VMI != "" && err == nil {
		in.VMI = &v1.VirtualMachineInstance{}
		err = read(c.VMI, in.VMI)
	}
	if err != nil {
		return nil, err
	}
	return s.pipeline.Decide(in)
}

// read decodes an object, and rejects fields that it does not have: a misspelt one would leave the case without
// a meaning. KubeVirt's types decode themselves, so that a strict decoder would not notice.
func read(text string, into any) error {
	var generic any
	if err := yaml.Unmarshal([]byte(text), &generic); err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		return err
	}
	written, err := leaves.Of("", generic)
	if err != nil {
		return err
	}
	typed, err := leaves.Of("", into)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(written)) {
		if _, there := typed[path]; !there && !unset(path, written[path]) {
			return fmt.Errorf("there is no field %s", path)
		}
	}
	return nil
}

func (s *suite) factsOf(c *Case) (*platform.Facts, error) {
	configuration := map[string]any{}
	if err := yaml.Unmarshal([]byte(c.Configuration), &configuration); err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	facts, err := factsFrom(configuration, c.Settings)
	if err != nil {
		return nil, err
	}
	if (s.named || c.Configuration == "") && len(s.forms) > 0 {
		return facts.WithHypervisor(s.forms[0]), nil
	}
	return facts, nil
}

// everyRule: each rule of the hypervisor's own has a case in which it finds something, and one, on a platform
// that has the rule, in which it finds nothing.
func (s *suite) everyRule(p *problems) {
	own := map[string]bool{}
	for _, architecture := range architectures.Names() {
		for _, rule := range s.own[architecture] {
			own[rule.ID] = true
		}
	}
	denies, allows := map[string]bool{}, map[string]bool{}
	for i := range s.cases {
		c := &s.cases[i]
		if !own[c.Rule] {
			p.add(c.Name, "case %q is about %q, which is no rule of its own", c.Name, c.Rule)
		}
		found := slices.ContainsFunc(c.Want, func(text string) bool { return strings.HasPrefix(text, c.Rule+": ") })
		if found {
			denies[c.Rule] = true
		} else if s.holds(c) {
			allows[c.Rule] = true
		}
	}
	for _, rule := range slices.Sorted(maps.Keys(own)) {
		if !denies[rule] {
			p.add(rule, "the rule %s has no case in which it finds something", rule)
		}
		if !allows[rule] {
			p.add(rule+"allow", "the rule %s has no case in which it finds nothing, on a platform that has it", rule)
		}
	}
}

// holds reports whether the platform of a case has the rule that it is about.
func (s *suite) holds(c *Case) bool {
	verdict, err := s.evaluate(c)
	return err == nil && verdict.Hypervisor == s.Name && idsOf(s.own[verdict.Architecture])[c.Rule]
}

// documented: the folder has a page with the names, the device, the domain type, the defaults and the rules.
func (s *suite) documented(p *problems) {
	data, err := os.ReadFile(s.page)
	if err != nil {
		p.add("page", "the page of documentation: %v", err)
		return
	}
	page := string(data)
	expect := func(what, text string) {
		if !strings.Contains(page, text) {
			p.add(what+text, "%s does not say %s: %s", s.page, what, text)
		}
	}
	for _, form := range s.forms {
		expect("its name in the KubeVirt resource", "`"+form.ConfiguredName+"`")
		expect("its device", "`"+form.Device+"`")
		expect("libvirt's domain type", "`"+form.VirtType+"`")
	}
	expect("what its defaults are", "\n## Defaults\n")
	expect("what its rules are", "\n## Rules\n")
	for _, architecture := range architectures.Names() {
		for _, rule := range s.own[architecture] {
			expect("one of its rules", "`"+rule.ID+"`")
		}
		steps, _ := s.writersOf(architecture)
		for _, w := range steps {
			for _, f := range w.Fields {
				if w.Layer == s.Name || w.Layer == s.Name+"/"+architecture {
					expect("a field that it fills", "`"+f+"`")
				}
			}
		}
	}
	for i := range s.Support {
		if gate := s.Support[i].Gate; gate != "" {
			expect("one of its feature gates", "`"+gate+"`")
		}
	}
}
