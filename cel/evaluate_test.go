package cel_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

func TestVariables(t *testing.T) {
	for expression, want := range map[string]any{
		// object and oldObject
		"object.metadata.name":                                      "db",
		"object.metadata.namespace":                                 "default",
		"object.kind + ' ' + object.apiVersion":                     "VirtualMachine kubevirt.io/v1",
		"object.metadata.labels['app.kubernetes.io/name']":          "db",
		"object.metadata.labels.tier":                               "gold",
		"'tier' in object.metadata.labels":                          true,
		"'policy.example.com/other' in object.metadata.annotations": false,
		"object.metadata.annotations['policy.example.com/owner']":   "alice",
		"object.metadata.?labels['none'].orValue('-')":              "-",
		"object.spec.runStrategy":                                   "Halted",
		"object.spec.template.metadata.labels.app":                  "db",
		"object.spec.template.spec.domain.devices.disks.size()":     int64(3),
		"oldObject == null":                                         true,
		// the effective VM
		"vm.metadata.name":         "db",
		"vm.metadata.labels.app":   "db",
		"vm.spec.architecture":     "arm64",
		"vm.spec.domain.cpu.cores": int64(4),
		"vm.spec.domain.cpu.cores + 1 == 5 && vm.spec.domain.cpu.cores > 3.5": true,
		"vm.spec.domain.cpu.dedicatedCpuPlacement":                            true,
		"vm.spec.domain.devices.disks.map(d, d.name)":                         []any{"root", "data", "cloudinit"},
		"vm.spec.domain.devices.disks[0].disk.bus":                            "virtio",
		"vm.spec.domain.devices.disks[0].disk.bus == 'virtio'":                true,
		"vm.spec.domain == object.spec.template.spec.domain":                  false,
		"vm.spec.volumes == object.spec.template.spec.volumes":                true,
		"vm.spec.volumes[0] in object.spec.template.spec.volumes":             true,
		"vm.kind": "VirtualMachineInstance",
		// quantities are strings in canonical form
		"vm.spec.domain.memory.guest":                                                  "4Gi",
		"vm.spec.domain.resources.limits.memory":                                       "4Gi",
		"vm.spec.domain.resources.limits['memory'] == vm.spec.domain.memory.guest":     true,
		"quantity(vm.spec.domain.memory.guest).isGreaterThan(quantity('3Gi'))":         true,
		"quantity(vm.spec.domain.memory.guest).compareTo(quantity('4096Mi'))":          int64(0),
		"quantity(instancetype.memory.guest).sub(quantity('12Gi')) == quantity('4Gi')": true,
		"quantity(vm.spec.domain.memory.guest).asInteger()":                            int64(4 << 30),
		"quantity('2').add(quantity('500m')).isLessThan(quantity('3'))":                true,
		// where it comes from
		"provenance['spec.domain.machine.type']":                         "arm64",
		"provenance['spec.domain.devices.disks[1].disk.bus']":            "preference/linux",
		"'spec.domain.cpu.cores' in provenance":                          false,
		"provenance.exists(path, layer, layer.startsWith('preference'))": true,
		// where it runs
		"platform.hypervisor + ' ' + platform.hypervisorDevice":      "kvm devices.kubevirt.io/kvm",
		"platform.architecture + ' ' + platform.defaultArchitecture": "arm64 amd64",
		"'LiveMigration' in platform.featureGates":                   true,
		"'HostDisk' in platform.featureGates":                        false,
		"instancetype.cpu.guest":                                     int64(8),
		"preference.machine.preferredMachineType":                    "q35",
		"has(preference.cpu)":                                        false,
		// the request
		"request.operation + ' ' + request.name + ' ' + request.namespace": "CREATE db default",
		"request.kind.kind + ' ' + request.resource.resource":              "VirtualMachine virtualmachines",
		"request.userInfo.username":                                        "system:serviceaccount:team:bot",
		"'system:authenticated' in request.userInfo.groups":                true,
		"request.userInfo.extra['scopes'][0]":                              "vm",
		"request.dryRun":                                                   false,
		"requester":                                                        "alice",
		"namespaceObject.metadata.labels.env":                              "prod",
		// parameters without a schema: a whole number is an int
		"params.max": int64(4),
		"params.names.exists(n, n == 'b') && params['by-team'].x == 'y'": true,
		// variables of the policy
		"variables.cores * 2": int64(8),
		"variables.both":      []any{"root", "db"},
	} {
		t.Run(expression, func(t *testing.T) {
			s := scope(t, cel.ScopeOptions{
				Kinds: []string{apikinds.VirtualMachine},
				Variables: []cel.Expression{
					{Name: "cores", Expression: "vm.spec.domain.cpu.cores"},
					{Name: "first", Expression: "vm.spec.domain.devices.disks[0]"},
					{Name: "both", Expression: "[variables.first.name, object.metadata.name]"},
				},
			})
			d := documents()
			d.Request.UserInfo.Username = "system:serviceaccount:team:bot"
			d.Request.UserInfo.Groups = []string{"system:authenticated"}
			d.Request.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"scopes": {"vm"}}
			got, err := evaluate(t, s, d, expression)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLibraries(t *testing.T) {
	for expression, want := range map[string]any{
		"ip('10.0.0.1').family()":                                                   int64(4),
		"cidr('10.0.0.0/8').containsIP(ip('10.1.2.3'))":                             true,
		"isIP('10.0.0.300')":                                                        false,
		"semver('1.9.2').isGreaterThan(semver('1.8.0'))":                            true,
		"isSemver('one')":                                                           false,
		"url('https://quay.io:443/x').getHost()":                                    "quay.io:443",
		"'quay.io/a/b:41'.find('[0-9]+')":                                           "41",
		"'a1b2'.findAll('[0-9]')":                                                   []any{"1", "2"},
		"sets.contains(['a', 'b'], ['b'])":                                          true,
		"sets.intersects([1], [2])":                                                 false,
		"'%s has %d disks'.format(['db', 3])":                                       "db has 3 disks",
		"format.dns1123Label().validate('Not_OK').hasValue()":                       true,
		"!format.named('dns1123Label').value().validate('ok').hasValue()":           true,
		"'a,b'.split(',').join('+').upperAscii()":                                   "A+B",
		"'abc'.substring(1).replace('b', 'x')":                                      "xc",
		"[3, 1, 2].sort()":                                                          []any{int64(1), int64(2), int64(3)},
		"[1, 2, 2].distinct().size() == 2 && [1, 2].sum() == 3":                     true,
		"[[1], [2]].flatten()":                                                      []any{int64(1), int64(2)},
		"[{'n': 'b'}, {'n': 'a'}].sortBy(x, x.n)[0].n":                              "a",
		"['a', 'b'].all(i, v, i < 2 && v != 'c')":                                   true,
		"{'a': 1}.transformMap(k, v, v + 1)":                                        map[string]any{"a": int64(2)},
		"optional.of(1).orValue(2) + optional.none().orValue(3)":                    int64(4),
		"duration('90m') > duration('1h')":                                          true,
		"timestamp('2026-01-01T00:00:00Z').getFullYear()":                           int64(2026),
		"quantity('1Gi').isInteger() && !isQuantity('x')":                           true,
		"type(1) == int && string(1) == '1' && int('2') == 2 && dyn(1) == dyn(1.0)": true,
		"b'ab'":                             "YWI=",
		"1u":                                float64(1),
		"quantity('1500m')":                 "1500m",
		"optional.of('x')":                  "x",
		"optional.none()":                   nil,
		"null":                              nil,
		"timestamp('2026-01-01T00:00:00Z')": "2026-01-01T00:00:00Z",
	} {
		t.Run(expression, func(t *testing.T) {
			got, err := evaluate(t, scope(t, cel.ScopeOptions{}), documents(), expression)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What is absent, what is empty and what is there.
func TestHas(t *testing.T) {
	seconds, no := int64(0), false
	vmi := build.VMI("db").With(func(s *v1.VirtualMachineInstanceSpec) {
		s.TerminationGracePeriodSeconds = &seconds
		s.Domain.Devices.Interfaces = []v1.Interface{{Name: "a", InterfaceBindingMethod: v1.InterfaceBindingMethod{Masquerade: &v1.InterfaceMasquerade{}}}}
		s.Domain.Devices.AutoattachMemBalloon = &no
		s.Domain.Devices.Disks = []v1.Disk{}
		s.NodeSelector = map[string]string{}
		s.Domain.Firmware = &v1.Firmware{}
	}).Obj()
	for expression, want := range map[string]string{
		"has(vm.spec.terminationGracePeriodSeconds)":                              "true", // 0 is a value of a pointer
		"vm.spec.terminationGracePeriodSeconds":                                   "0",
		"has(vm.spec.domain.devices.autoattachMemBalloon)":                        "true", // so is false
		"has(vm.spec.domain.cpu)":                                                 "false",
		"vm.spec.domain.cpu":                                                      "1:15: no such key: cpu",
		"vm.spec.domain.cpu.cores > 1":                                            "1:15: no such key: cpu",
		"has(vm.spec.domain.cpu.cores)":                                           "1:19: no such key: cpu",
		"vm.spec.domain.?cpu.?cores.orValue(1)":                                   "1",
		"has(vm.spec.domain.resources)":                                           "false", // an empty struct is absent
		"has(vm.spec.domain.resources.limits)":                                    "false", // and can be read
		"vm.spec.domain.resources":                                                "map[]",
		"vm.spec.domain.?resources.?limits.hasValue()":                            "false",
		"has(vm.spec.domain.devices)":                                             "true",
		"has(vm.spec.domain.firmware)":                                            "true", // the manifest has firmware: {}
		"has(vm.spec.domain.firmware.bootloader)":                                 "false",
		"has(vm.spec.domain.devices.disks)":                                       "false", // an empty list is as none
		"has(vm.spec.nodeSelector)":                                               "false",
		"has(vm.spec.domain.devices.interfaces[0].masquerade)":                    "true",
		"has(vm.spec.domain.devices.interfaces[0].bridge)":                        "false",
		"vm.spec.domain.devices.interfaces[0].masquerade":                         "map[]",
		"vm.spec.domain.devices.interfaces[3].name":                               "1:37: index out of bounds: 3",
		"has(vm.metadata.labels)":                                                 "false",
		"vm.metadata.labels['a']":                                                 "1:12: no such key: labels",
		"has(vm.metadata.creationTimestamp)":                                      "false",
		"instancetype == null && preference == null":                              "true",
		"instancetype.cpu.guest":                                                  "1:17: no such key: cpu",
		"namespaceObject == null":                                                 "true",
		"params == null":                                                          "true",
		"params.x":                                                                "1:7: no such key: x",
		"platform == null":                                                        "true",
		"provenance.size()":                                                       "0",
		"dyn(vm.spec).nosuchfield":                                                "1:13: no such key: nosuchfield",
		"'domain' in dyn(vm.spec) && !('x' in dyn(vm.spec))":                      "true",
		"dyn(vm.spec.domain.memory) == {'guest': '1Gi'}":                          "true",
		"{'guest': '1Gi'} == dyn(vm.spec.domain.memory)":                          "true",
		"dyn(vm.spec.domain.memory).map(k, k)":                                    "[guest]",
		"size(dyn(vm.spec.domain.memory))":                                        "1",
		"dyn(vm.spec) == 1 || 1 == dyn(vm.spec)":                                  "false",
		"type(vm.spec) == map && type(vm.spec.domain.devices.interfaces) == list": "true",
	} {
		t.Run(expression, func(t *testing.T) {
			got, err := evaluate(t, scope(t, cel.ScopeOptions{}), &cel.Documents{VM: vmi}, expression)
			text := fmt.Sprint(got)
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%s\nwant %s", text, want)
			}
		})
	}
}

// A native policy sees the JSON as it was written; here quantities are canonical.
func TestQuantitiesAreCanonical(t *testing.T) {
	s := scope(t, cel.ScopeOptions{})
	for written, want := range map[string]string{"4096Mi": "4Gi", "1": "1", "1000m": "1", "1e3": "1e3", "1073741824": "1073741824", "0.5Gi": "512Mi"} {
		vmi := build.VMI("db").Memory(written).With(func(s *v1.VirtualMachineInstanceSpec) {
			s.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(written)}
		}).Obj()
		got, err := evaluate(t, s, &cel.Documents{VM: vmi}, "[vm.spec.domain.memory.guest, vm.spec.domain.resources.requests.cpu]")
		if diff := cmp.Diff([]any{want, want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", written, err, diff)
		}
	}
}

// A schema decides what the numbers of parameters are, and which there are.
func TestTypedParams(t *testing.T) {
	schema := &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"max":    {Type: "integer"},
			"ratio":  {Type: "number"},
			"names":  {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
			"teams":  {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "number"}}},
			"any":    {Type: "object"},
			"dashes": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"max-cores": {Type: "integer"}}},
		},
	}
	s := scope(t, cel.ScopeOptions{Params: schema})
	params := map[string]any{
		"max": 4.0, "ratio": int64(2), "names": []any{"a"}, "teams": map[string]any{"x": 3},
		"any": map[string]any{"deep": []any{1.0, 1.5}}, "dashes": map[string]any{"max-cores": 8},
	}
	for expression, want := range map[string]any{
		"params.max + 1":             int64(5),
		"params.ratio * 1.5":         3.0,
		"params.names[0] + '!'":      "a!",
		"params.teams['x'] / 2.0":    1.5,
		"params.any.deep":            []any{int64(1), 1.5},
		"params.dashes['max-cores']": int64(8),
		"has(params.teams)":          true,
	} {
		got, err := evaluate(t, s, &cel.Documents{Params: params}, expression)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", expression, err, diff)
		}
		own := scope(t, cel.ScopeOptions{Params: schema, Values: params})
		got, err = evaluate(t, own, &cel.Documents{Params: map[string]any{"max": 0}}, expression)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s, with the scope's own: %v (-want +got):\n%s", expression, err, diff)
		}
	}
	for expression, want := range map[string]string{
		"params.maxx":      "1:7: undefined field 'maxx'; did you mean 'max'?",
		"params.max + 'x'": "1:12: found no matching overload for '_+_' applied to '(int, string)'",
		"params.names.max": "1:13: type 'list(string)' does not support field selection",
	} {
		if _, issues := s.Compile(expression, cel.Any); len(issues) != 1 || issues[0].String() != want {
			t.Errorf("%s: %v, want %s", expression, issues, want)
		}
	}
}

// What only a request has is an error without one, unless the result does not depend on it.
func TestNotAuditable(t *testing.T) {
	s := scope(t, cel.ScopeOptions{Variables: []cel.Expression{{Name: "may", Expression: "authorizer.group('').resource('pods').check('get').allowed()"}}})
	d := &cel.Documents{VM: build.VMI("db").Obj(), Facts: platform.Defaults(platform.Settings{}), Request: cel.Request{Name: "db", Namespace: "default"}}
	for expression, want := range map[string]string{
		"request.operation == 'CREATE'":                     "1:8: request.operation is not auditable here",
		"has(request.userInfo)":                             "1:4: request.userInfo is not auditable here",
		"requester == 'x'":                                  "1:1: requester is not auditable here",
		"variables.may":                                     "variables.may: 1:1: authorizer is not auditable here",
		"authorizer.requestResource.check('get').allowed()": "1:11: authorizer.requestResource is not auditable here",
	} {
		p := program(t, s, expression, cel.Bool)
		_, err := p.Eval(s.Activation(d), cel.NewBudget())
		if !errors.Is(err, cel.ErrNotAuditable) || err.Error() != want {
			t.Errorf("%s: %v, want %s", expression, err, want)
		}
		if p.Auditable() {
			t.Errorf("%s says that it is auditable", expression)
		}
	}
	for _, expression := range []string{"request.name == 'db' && request.namespace == 'default'", "object == null && vm.metadata.name == 'db'"} {
		p := program(t, s, expression, cel.Bool)
		if got, err := p.Eval(s.Activation(d), cel.NewBudget()); got != true || err != nil || !p.Auditable() {
			t.Errorf("%s: %v, %v, auditable: %t", expression, got, err, p.Auditable())
		}
	}
	p := program(t, s, "vm.metadata.name == 'db' || variables.may", cel.Bool)
	if got, err := p.Eval(s.Activation(d), cel.NewBudget()); got != true || err != nil {
		t.Errorf("what is true without the authorizer: %v, %v", got, err)
	}
}

func TestReads(t *testing.T) {
	s := scope(t, cel.ScopeOptions{
		Kinds: []string{apikinds.VirtualMachine},
		Variables: []cel.Expression{
			{Name: "who", Expression: "request.userInfo.username"},
			{Name: "friend", Expression: "variables.who == requester"},
		},
	})
	for expression, want := range map[string]struct {
		reads               []string
		request, authorizer bool
	}{
		"vm.spec.domain.cpu.cores > 1 && object.metadata.name != ''": {[]string{"object", "vm"}, false, false},
		"variables.friend":                                {[]string{"request", "requester"}, true, false},
		"request.name == ''":                              {[]string{"request"}, false, false},
		"[request].size() == 1":                           {[]string{"request"}, true, false},
		"authorizer.requestResource.check('x').allowed()": {[]string{"authorizer"}, false, true},
		"params == platform":                              {[]string{"params", "platform"}, false, false},
	} {
		p := program(t, s, expression, cel.Bool)
		if diff := cmp.Diff(want.reads, p.Reads()); diff != "" || p.UsesRequest() != want.request || p.UsesAuthorizer() != want.authorizer {
			t.Errorf("%s: request %t, authorizer %t, (-want +got):\n%s", expression, p.UsesRequest(), p.UsesAuthorizer(), diff)
		}
	}
}

// A policy's expressions share a budget, and one that exceeds its own limit costs no more than that.
func TestBudget(t *testing.T) {
	s := scope(t, cel.ScopeOptions{Variables: []cel.Expression{{Name: "list", Expression: "lists.range(1000)"}}})
	p := program(t, s, "variables.list.all(x, x >= 0)", cel.Bool)
	budget := cel.NewBudget()
	if _, err := p.Eval(s.Activation(documents()), budget); err != nil {
		t.Fatal(err)
	}
	spent := cel.PolicyLimit - budget.Left()
	if spent < 1000 || spent > 20000 {
		t.Errorf("a thousand steps cost %d", spent)
	}
	budget = cel.NewBudgetOf(spent/2, cel.MemoryLimit)
	if _, err := p.Eval(s.Activation(documents()), budget); !errors.Is(err, cel.ErrBudget) || budget.Left() != 0 {
		t.Errorf("half of what it costs: %v, %d left", err, budget.Left())
	}
	if _, err := p.Eval(s.Activation(documents()), budget); !errors.Is(err, cel.ErrBudget) {
		t.Errorf("nothing left: %v", err)
	}
	endless := program(t, s, "variables.list.all(x, variables.list.all(y, variables.list.all(z, true)))", cel.Bool)
	budget = cel.NewBudget()
	if _, err := endless.Eval(s.Activation(documents()), budget); !errors.Is(err, cel.ErrExpensive) {
		t.Errorf("an endless expression: %v", err)
	}
	if budget.Left() < cel.PolicyLimit-cel.ExpressionLimit-spent || budget.Left() > cel.PolicyLimit-cel.ExpressionLimit/2 {
		t.Errorf("an endless expression leaves %d", budget.Left())
	}
}

// A variable is evaluated once, however many expressions read it.
func TestVariablesAreEvaluatedOnce(t *testing.T) {
	s := scope(t, cel.ScopeOptions{Variables: []cel.Expression{{Name: "dear", Expression: "lists.range(5000).all(x, x >= 0)"}}})
	p := program(t, s, "variables.dear", cel.Bool)
	a, budget := s.Activation(documents()), cel.NewBudget()
	for range 3 {
		if _, err := p.Eval(a, budget); err != nil {
			t.Fatal(err)
		}
	}
	once := cel.NewBudget()
	if _, err := p.Eval(s.Activation(documents()), once); err != nil {
		t.Fatal(err)
	}
	if three, one := cel.PolicyLimit-budget.Left(), cel.PolicyLimit-once.Left(); three > one+100 {
		t.Errorf("three times cost %d, once costs %d", three, one)
	}
}

func TestResults(t *testing.T) {
	s := scope(t, cel.ScopeOptions{})
	for _, c := range []struct {
		expression string
		want       cel.Result
		compile    string
		run        string
	}{
		{"1 + 1", cel.Bool, "1:1: must result in a bool, not in a int", ""},
		{"true", cel.String, "1:1: must result in a string, not in a bool", ""},
		{"object.x", cel.Bool, "", "wrong result: it must be a bool, and is a string"},
		{"object.x", cel.String, "", ""},
		{"object.y", cel.String, "", "wrong result: it must be a string, and is a map"},
	} {
		p, issues := s.Compile(c.expression, c.want)
		if c.compile != "" {
			if len(issues) != 1 || issues[0].String() != c.compile {
				t.Errorf("%s: %v, want %s", c.expression, issues, c.compile)
			}
			continue
		}
		d := &cel.Documents{Object: map[string]any{"x": "text", "y": map[string]any{}}}
		_, err := p.Eval(s.Activation(d), cel.NewBudget())
		if got := fmt.Sprint(err); c.run != "" && got != c.run || c.run == "" && err != nil {
			t.Errorf("%s: %s, want %s", c.expression, got, c.run)
		}
	}
}

// Programs and scopes are used by many requests at once.
func TestConcurrency(t *testing.T) {
	s := scope(t, cel.ScopeOptions{
		Kinds:     []string{apikinds.VirtualMachine},
		Variables: []cel.Expression{{Name: "disks", Expression: "vm.spec.domain.devices.disks"}},
	})
	p := program(t, s, "variables.disks.all(d, d.name in vm.spec.volumes.map(v, v.name)) && object.metadata.labels.tier == 'gold'", cel.Bool)
	shared := documents()
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			for range 50 {
				own := *documents()
				own.Object, own.VM, own.Facts = shared.Object, shared.VM, shared.Facts // the objects are shared, as those of caches are
				if got, err := p.Eval(s.Activation(&own), cel.NewBudget()); got != true || err != nil {
					t.Errorf("%v, %v", got, err)
				}
			}
			if _, issues := s.Compile(fmt.Sprintf("vm.spec.domain.cpu.corez == %d", i), cel.Bool); len(issues) != 1 || issues[0].Message != "undefined field 'corez'; did you mean 'cores'?" {
				t.Errorf("%v", issues)
			}
		})
	}
	wait.Wait()
}

func TestEstimates(t *testing.T) {
	s := scope(t, cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
	cheap := program(t, s, "vm.spec.domain.cpu.cores < 4", cel.Bool).EstimatedCost()
	nested := program(t, s, "vm.spec.domain.devices.disks.all(d, vm.spec.volumes.exists(v, v.name == d.name))", cel.Bool).EstimatedCost()
	absurd := program(t, s, "lists.range(100000).all(a, lists.range(100000).all(b, a != b))", cel.Bool).EstimatedCost()
	if cheap.Max > 10 {
		t.Errorf("a comparison is estimated at %d", cheap.Max)
	}
	if nested.Max <= cheap.Max || nested.Max > cel.ExpressionLimit {
		t.Errorf("a loop in a loop is estimated at %d", nested.Max)
	}
	if absurd.Max <= cel.ExpressionLimit {
		t.Errorf("an absurd loop is estimated at %d", absurd.Max)
	}
}
