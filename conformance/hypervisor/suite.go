package hypervisor

import (
	"fmt"
	"testing"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// Case is an object that a hypervisor's own rule looks at, and everything that is found in it.
type Case struct {
	// Name of the case, and the id of the Rule that it is about.
	Name, Rule string
	// VMI or VM is the object, in YAML. It is completed before it is checked.
	VMI, VM string
	// Configuration is that of the KubeVirt resource, in YAML; the hypervisor is the one that it selects. Empty:
	// KubeVirt's own defaults, on the hypervisor under its first name.
	Configuration string
	// Settings of Virtward's installation.
	Settings platform.Settings
	// Want are all findings, sorted by field: "RULE: FIELD: MESSAGE".
	Want []string
}

// Option tells the suite about a hypervisor.
type Option func(*suite)

// Cases are those of its own rules.
func Cases(cases ...Case) Option {
	return func(s *suite) { s.cases = append(s.cases, cases...) }
}

// Named is for a hypervisor that platform does not know: what the facts say of it, under each of its names.
func Named(forms ...platform.Hypervisor) Option {
	return func(s *suite) { s.forms = append(s.forms, forms...) }
}

// Page is the file of its documentation; README.md of the folder that the test is in, if it is not given.
func Page(file string) Option { return func(s *suite) { s.page = file } }

// Run holds a hypervisor to everything that the suite asks.
func Run(t *testing.T, h hypervisors.Hypervisor, options ...Option) { //nolint:thelper // it is the whole test
	run(tests{t}, h, options...)
}

// BuiltIn is one of this repository's hypervisors.
func BuiltIn(t *testing.T, name string) hypervisors.Hypervisor {
	t.Helper()
	for _, h := range hypervisors.BuiltIn() {
		if h.Name == name {
			return h
		}
	}
	t.Fatalf("hypervisors.BuiltIn has no %s", name)
	return hypervisors.Hypervisor{}
}

// reporter is what the suite needs of a test.
type reporter interface {
	Run(name string, check func(reporter))
	Error(args ...any)
}

type tests struct{ *testing.T }

func (t tests) Run(name string, check func(reporter)) {
	t.T.Run(name, func(t *testing.T) { check(tests{t}) })
}

// suite is a hypervisor, and what the checks need to know of it.
type suite struct {
	hypervisors.Hypervisor
	cases []Case
	forms []platform.Hypervisor
	named bool
	page  string
	// recorded are the objects of the conformance cases.
	recorded func() ([]object, error)

	registry *hypervisors.Registry
	pipeline *effective.Pipeline
	// plain is the pipeline of a hypervisor with nothing special about it.
	plain *effective.Pipeline
	// own are its rules beside the shared ones, by architecture.
	own map[string]validators.Table
}

// plainName is the name of the hypervisor with nothing special about it.
const plainName = "plain"

func run(t reporter, h hypervisors.Hypervisor, options ...Option) {
	s := &suite{Hypervisor: h, page: "README.md", recorded: recorded}
	for _, option := range options {
		option(s)
	}
	if !s.accepted(t) {
		return
	}
	for _, c := range []struct {
		name  string
		check func(*suite, *problems)
	}{
		{"names", (*suite).names},
		{"shared rules", (*suite).sharedRules},
		{"one writer per field", (*suite).oneWriter},
		{"steps write what they say", (*suite).steps},
		{"completing twice", (*suite).twice},
		{"defaults pass the checks", (*suite).defaultsPass},
		{"no panic", (*suite).noPanic},
		{"device detected and allocatable", (*suite).device},
		{"pod rendered", (*suite).pod},
		{"domain converted", (*suite).domain},
		{"cases", (*suite).wantedFindings},
		{"every rule has cases", (*suite).everyRule},
		{"page", (*suite).documented},
	} {
		t.Run(c.name, func(t reporter) {
			p := &problems{}
			p.attempt("the check", func() { c.check(s, p) })
			p.report(t)
		})
	}
}

// accepted reports whether the registry takes the hypervisor, beside those of this repository.
func (s *suite) accepted(t reporter) (ok bool) {
	t.Run("registry", func(t reporter) {
		p := &problems{}
		p.attempt("registering it", func() {
			if err := s.register(); err != nil {
				p.add("registry", "the registry does not take it: %v", err)
				return
			}
			ok = true
		})
		p.report(t)
	})
	return ok
}

func (s *suite) register() error {
	all := []hypervisors.Hypervisor{s.Hypervisor}
	for _, h := range hypervisors.BuiltIn() {
		if h.Name != s.Name {
			all = append(all, h)
		}
	}
	var err error
	if s.registry, err = hypervisors.NewRegistry(all...); err != nil {
		return err
	}
	s.pipeline = effective.NewPipeline(s.registry)
	plain, err := hypervisors.NewRegistry(plainHypervisor())
	if err != nil {
		return err
	}
	s.plain = effective.NewPipeline(plain)
	if s.named = len(s.forms) > 0; !s.named {
		s.forms = formsOf(s.Name)
	}
	s.own = map[string]validators.Table{}
	for _, architecture := range architectures.Names() {
		if s.own[architecture], err = s.ownRules(architecture); err != nil {
			return err
		}
	}
	return nil
}

func plainHypervisor() hypervisors.Hypervisor {
	return hypervisors.Hypervisor{
		Name: plainName,
		Defaults: func(architecture string) (mutators.DefaultsProvider, error) {
			return mutators.NewBaseDefaults(architecture, mutators.Layer{Name: plainName}, mutators.Layer{Name: plainName + "/" + architecture})
		},
		Validator: func(architecture string) (validators.Validator, error) {
			return validators.NewBaseValidator(architecture)
		},
	}
}

// formsOf are the forms under which platform knows a hypervisor.
func formsOf(name string) []platform.Hypervisor {
	var forms []platform.Hypervisor
	for _, configured := range platform.HypervisorNames() {
		if h, err := platform.HypervisorByName(configured); err == nil && h.Name == name {
			forms = append(forms, h)
		}
	}
	return forms
}

// ownRules are those of an architecture that a plain hypervisor does not have.
func (s *suite) ownRules(architecture string) (validators.Table, error) {
	validator, err := s.registry.Validator(s.Name, architecture)
	if err != nil {
		return nil, err
	}
	shared, err := validators.NewBaseValidator(architecture)
	if err != nil {
		return nil, err
	}
	return without(validator.Rules(), shared.Rules()), nil
}

// without are the rules of a table that another does not have.
func without(table, other validators.Table) validators.Table {
	var rest validators.Table
	ids := idsOf(other)
	for i := range table {
		if !ids[table[i].ID] {
			rest = append(rest, table[i])
		}
	}
	return rest
}

func idsOf(table validators.Table) map[string]bool {
	ids := make(map[string]bool, len(table))
	for i := range table {
		ids[table[i].ID] = true
	}
	return ids
}

// problems are the problems that a check found. A problem of many objects is reported once, for the first one.
type problems struct {
	texts []string
	count map[string]int
	keys  []string
}

// add notes a problem. Those with one key are the same.
func (p *problems) add(key, format string, args ...any) {
	if p.count == nil {
		p.count = map[string]int{}
	}
	if p.count[key]++; p.count[key] == 1 {
		p.keys, p.texts = append(p.keys, key), append(p.texts, fmt.Sprintf(format, args...))
	}
}

// attempt does something that may panic.
func (p *problems) attempt(what string, do func()) {
	defer func() {
		if cause := recover(); cause != nil {
			p.add(fmt.Sprintf("panic: %v", cause), "%s panics: %v", what, cause)
		}
	}()
	do()
}

func (p *problems) report(t reporter) {
	for i, text := range p.texts {
		if more := p.count[p.keys[i]] - 1; more > 0 {
			text = fmt.Sprintf("%s (and %d more)", text, more)
		}
		t.Error(text)
	}
}
