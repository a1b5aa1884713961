package templates

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

func source() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) } //nolint:gosec // a test

func specOf(t testing.TB, text string) *v1beta1.VirtualMachineTemplateSpec {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var spec v1beta1.VirtualMachineTemplateSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	return &spec
}

// said are findings on one line each: severity, field, rule.
func said(findings []validators.Finding) []string {
	said := []string{}
	for i := range findings {
		f := &findings[i]
		said = append(said, fmt.Sprintf("%s %s %s", f.Severity, f.Error.Field, strings.TrimPrefix(f.Rule, "template-")))
	}
	return said
}

// A value is never scanned, whatever is in it and wherever it comes from.
func TestValuesAreNotScanned(t *testing.T) {
	const spec = `
virtualMachine:
  metadata: {name: vm, annotations: {text: "user=${USER} password=${PASSWORD}", json: "${{USER}}", "key-${KEY}": "${USER}"}}
  spec: {template: {spec: {domain: {}}}}
message: "${USER}/${PASSWORD}"
parameters: [{name: USER}, {name: PASSWORD, value: s3cret}, {name: KEY, value: k}]
`
	for _, injected := range []string{"${PASSWORD}", "${{PASSWORD}}", "${", "}", "${USER}", "$${PASSWORD}", "${PASS${KEY}WORD}", "{\"a\": \"${PASSWORD}\"}x"} {
		rendered, findings := Render(specOf(t, spec), map[string]string{"USER": injected}, Options{Random: source()})
		if rendered == nil {
			t.Fatal(injected, said(findings))
		}
		want := map[string]string{"text": "user=" + injected + " password=s3cret", "json": injected, "key-k": injected}
		if diff := cmp.Diff(want, rendered.VirtualMachine.Annotations); diff != "" || rendered.Message != injected+"/s3cret" {
			t.Errorf("%s: message %q, annotations (-want +got):\n%s", injected, rendered.Message, diff)
		}
	}
}

// vmWith is a template whose VirtualMachine has some fields of its spec.template.spec.
func vmWith(fields, parameters string) string {
	return "virtualMachine: {metadata: {name: vm}, spec: {template: {spec: {domain: {}, " + fields + "}}}}\nparameters: [" + parameters + "]"
}

func TestFindings(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  string
		given map[string]string
		want  []string
	}{
		"nothing": {vmWith("hostname: a", ""), nil, nil},
		"all faults at once": {
			vmWith(`bogus: 1, hostname: "${NOPE}", domain: {cpu: {cores: "${{COUNT}}"}, ioThreadsPolicy: 7}`, `{name: COUNT, value: x}, {name: R, required: true}, {name: U}`),
			map[string]string{"Z": "1"},
			[]string{
				"Deny parameters[Z] unknown-given-parameter",
				"Warn spec.parameters[1].name unused-parameter",
				"Deny spec.parameters[1].value required-parameter",
				"Warn spec.parameters[2].name unused-parameter",
				"Deny spec.virtualMachine.spec.template.spec.bogus unknown-field",
				"Deny spec.virtualMachine.spec.template.spec.domain.cpu.cores does-not-decode",
				"Deny spec.virtualMachine.spec.template.spec.domain.ioThreadsPolicy does-not-decode",
				"Deny spec.virtualMachine.spec.template.spec.hostname undefined-parameter",
			},
		},
		"numbers of the wrong size": {
			vmWith(`domain: {cpu: {cores: "${{COUNT}}"}}, terminationGracePeriodSeconds: 9223372036854775808`, `{name: COUNT, value: "-1"}`), nil,
			[]string{
				"Deny spec.virtualMachine.spec.template.spec.domain.cpu.cores does-not-decode",
				"Deny spec.virtualMachine.spec.template.spec.terminationGracePeriodSeconds does-not-decode",
			},
		},
		"a field in another case": {
			vmWith(`hostName: a`, ""), nil, []string{"Deny spec.virtualMachine.spec.template.spec.hostName unknown-field"},
		},
		"a quantity out of all bounds": {
			vmWith(`domain: {memory: {guest: "${M}"}}`, `{name: M, value: 1e99999999}`), nil, []string{"Deny spec.virtualMachine.spec.template.spec.domain.memory.guest does-not-decode"},
		},
		"types": {
			vmWith(`hostname: "${S}", domain: {cpu: {cores: "${{I}}"}, memory: {guest: "${Q}"}}, nodeSelector: "${{O}}", evictionStrategy: "${B}"`,
				`{name: S, type: string}, {name: I, type: integer, value: "4"}, {name: Q, type: quantity, value: 1Gi}, {name: O, type: object, value: "{}"}, {name: B, type: boolean, value: "true"}`),
			map[string]string{"S": "a", "I": "four", "Q": "1GB", "O": "text", "B": "yes"},
			[]string{
				"Deny parameters[B] constrained-value", "Deny parameters[I] constrained-value", "Deny parameters[O] constrained-value", "Deny parameters[Q] constrained-value",
				"Deny spec.virtualMachine.spec.template.spec.domain.cpu.cores does-not-decode", "Deny spec.virtualMachine.spec.template.spec.domain.memory.guest does-not-decode",
				"Deny spec.virtualMachine.spec.template.spec.nodeSelector does-not-decode",
			},
		},
		"bounds": {
			vmWith(`hostname: "${A}${B}${C}", domain: {}`, `{name: A, type: integer, minimum: 1, maximum: 8, value: "9"}, {name: B, type: quantity, minimum: 1Gi, value: 512Mi}, {name: C, enum: [v, x], pattern: "[a-z]", value: z}`), nil,
			[]string{"Deny spec.parameters[0].value constrained-value", "Deny spec.parameters[1].value constrained-value", "Deny spec.parameters[2].value constrained-value"},
		},
		"constraints that make no sense": {
			vmWith(`hostname: "${A}${B}${C}"`, `{name: A, minimum: 1}, {name: B, type: integer, minimum: 2, maximum: 1, enum: ["1", x]}, {name: C, pattern: "("}`), nil,
			[]string{"Deny spec.parameters[0].type constraint", "Deny spec.parameters[1].enum[0] constraint", "Deny spec.parameters[1].enum[1] constraint", "Deny spec.parameters[1].minimum constraint", "Deny spec.parameters[2].pattern constraint"},
		},
		"a pattern must match the whole value": {
			vmWith(`hostname: "${A}"`, `{name: A, pattern: "[a-z]+|[0-9]+"}`), map[string]string{"A": "a1"}, []string{"Deny parameters[A] constrained-value"},
		},
		"a given value that adds fields": {
			vmWith(`nodeSelector: "${{A}}"`, `{name: A}`), map[string]string{"A": `{"a":"b"}`}, []string{"Warn parameters[A] value-adds-fields"},
		},
		"a given value that adds a line": {
			vmWith(`hostname: "${A}"`, `{name: A}`), map[string]string{"A": "a\nb"}, []string{"Warn parameters[A] value-line-break"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, findings := Render(specOf(t, tc.spec), tc.given, Options{Random: source()})
			if got := said(findings); !cmp.Equal(append([]string{}, tc.want...), got) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tc.want, got))
			}
			if (rendered == nil) != Denied(findings) {
				t.Errorf("rendered %v", rendered)
			}
		})
	}
}

// Where only approved templates may be used, a given value changes the values of fields, and nothing else.
func TestApproved(t *testing.T) {
	for name, tc := range map[string]struct {
		fields, parameter, given string
		want                     []string
	}{
		"a text":                       {`hostname: "${A}"`, `{name: A}`, "a", nil},
		"a number":                     {`domain: {cpu: {cores: "${{A}}"}}`, `{name: A}`, "4", nil},
		"an object":                    {`nodeSelector: "${{A}}"`, `{name: A}`, `{"a":"b"}`, []string{"Deny parameters[A] value-adds-fields"}},
		"a list":                       {`tolerations: "${{A}}"`, `{name: A}`, `[]`, []string{"Deny parameters[A] value-adds-fields"}},
		"an object that is allowed":    {`nodeSelector: "${{A}}"`, `{name: A, type: object}`, `{"a":"b"}`, nil},
		"a key":                        {`nodeSelector: {"${A}": x}`, `{name: A}`, "a", []string{"Deny parameters[A] value-adds-fields"}},
		"a key of an enum":             {`nodeSelector: {"${A}": x}`, `{name: A, enum: [a, b]}`, "a", nil},
		"a line break":                 {`hostname: "${A}"`, `{name: A}`, "a\nb", []string{"Deny parameters[A] value-line-break"}},
		"a carriage return":            {`hostname: "${{A}}"`, `{name: A}`, "a\rb", []string{"Deny parameters[A] value-line-break"}},
		"a line separator":             {`hostname: "${A}"`, `{name: A, type: string}`, "a\u2028b", []string{"Deny parameters[A] value-line-break"}},
		"a line break that is allowed": {`hostname: "${A}"`, `{name: A, pattern: "(?s).*"}`, "a\nb", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, findings := Render(specOf(t, vmWith(tc.fields, tc.parameter)), map[string]string{"A": tc.given}, Options{Random: source(), Approved: true})
			if got := said(findings); !cmp.Equal(append([]string{}, tc.want...), got) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tc.want, got))
			}
		})
	}
}

// Check validates what does not depend on required parameters, and says what does.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"a required number": {
			vmWith(`domain: {cpu: {cores: "${{COUNT}}"}}, "${COUNT}": 1, hostname: "a-${COUNT}"`, `{name: COUNT, required: true}`), []string{"Warn spec.parameters[0].value not-validated"},
		},
		"faults beside it": {
			vmWith(`bogus: 1, hostname: "${COUNT}${NOPE}", networks: "${{G}}"`, `{name: COUNT, required: true}, {name: G, generate: expression, from: "[z-a]{3}"}`),
			[]string{
				"Warn spec.parameters[0].value not-validated", "Deny spec.parameters[1].from reversed-range",
				"Deny spec.virtualMachine.spec.template.spec.bogus unknown-field", "Deny spec.virtualMachine.spec.template.spec.hostname undefined-parameter",
				"Deny spec.virtualMachine.spec.template.spec.networks does-not-decode",
			},
		},
		"no VirtualMachine": {"parameters: []", []string{"Deny spec.virtualMachine virtual-machine-missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := said(Check(specOf(t, tc.spec), source())); !cmp.Equal(tc.want, got) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(tc.want, got))
			}
		})
	}
}

// A small template with long values does not take the memory of their product.
func TestResultsAreBounded(t *testing.T) {
	long := strings.Repeat("x", v1beta1.MaxParameterValue)
	for name, spec := range map[string]string{
		"in one text":    vmWith(`hostname: "`+strings.Repeat("${A}", 1000)+`"`, "{name: A}"),
		"in many":        vmWith(`dnsConfig: {nameservers: [`+strings.Repeat(`"${A}",`, 1000)+`x]}`, "{name: A}"),
		"in a key":       vmWith(`nodeSelector: {"`+strings.Repeat("${A}", 200)+`": x}`, "{name: A}"),
		"in the message": vmWith(`hostname: a`, "{name: A}") + "\nmessage: \"" + strings.Repeat("${A}", 1000) + "\"",
	} {
		t.Run(name, func(t *testing.T) {
			rendered, findings := Render(specOf(t, spec), map[string]string{"A": long}, Options{Random: source()})
			if got := strings.Join(said(findings), "\n"); rendered != nil || !strings.Contains(got, "too-large") {
				t.Error(got)
			}
		})
	}
	if _, findings := Render(specOf(t, vmWith(`hostname: "${A}"`, "{name: A}")), map[string]string{"A": long + "x"}, Options{Random: source()}); !cmp.Equal(said(findings), []string{"Deny parameters[A] too-large"}) {
		t.Error(said(findings))
	}
}

// What is rendered takes a bounded time, whatever the template and the values are.
func TestTimeIsBounded(t *testing.T) {
	big := func(text string) string { return strings.Repeat(text, v1beta1.MaxParameterValue/len(text)-2) }
	labels := func(reference string) string {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "l%d: %s, ", i, reference)
		}
		return b.String()
	}
	for name, tc := range map[string]struct {
		template string
		given    map[string]string
		want     string
	}{
		"JSON of white space": {vmWith("nodeSelector: {"+labels("'${{A}}'")+"}", "{name: A}"), map[string]string{"A": "{" + big(" ") + "}"}, "too-large"},
		"text for numbers":    {"virtualMachine: {spec: {dataVolumeTemplates: [" + strings.Repeat("{metadata: {creationTimestamp: '${A}x'}}, ", 4000) + "]}}\nparameters: [{name: A}]", map[string]string{"A": big("x")}, "too-large"},
		"very many values":    {vmWith("terminationGracePeriodSeconds: '${{A}}'", "{name: A}"), map[string]string{"A": "[" + big("0,") + "0]"}, "too-large"},
		"a long pattern":      {vmWith("hostname: '${A}'", "{name: A, pattern: '((a{30}){30}){30}'}"), map[string]string{"A": "a"}, "constraint"},
		"a slow pattern":      {vmWith("hostname: '${A}'", "{name: A, pattern: '(a?){300}b{300}'}"), map[string]string{"A": big("a")}, "too-large"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := specOf(t, tc.template)
			began := time.Now()
			rendered, findings := Render(spec, tc.given, Options{Random: source()})
			if took := time.Since(began); took > 30*time.Second { // milliseconds if nothing else runs
				t.Errorf("it took %v", took)
			}
			if got := strings.Join(said(findings), "\n"); rendered != nil || !strings.Contains(got, tc.want) {
				t.Errorf("findings %.300s", got)
			}
		})
	}
}

// The same random numbers give the same values, and each draw matches the expression.
func TestGenerator(t *testing.T) {
	spec := specOf(t, vmWith(`hostname: "${A}-${B}", domain: {cpu: {cores: "${{COUNT}}"}}`, `{name: A, generate: expression, from: 'vm-[a-z0-9]{8}.[\A]{2}'}, {name: B, generate: expression, from: '[\d]{3}'}, {name: COUNT, generate: expression, from: '[0-9]{2}'}`))
	first, _ := Render(spec, nil, Options{Random: source()})
	again, _ := Render(spec, nil, Options{Random: source()})
	if diff := cmp.Diff(first.Values, again.Values); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	random := source()
	for range 1000 {
		rendered, findings := Render(spec, nil, Options{Random: random})
		if rendered == nil {
			t.Fatal(said(findings))
		}
		for name, pattern := range map[string]string{"A": `^vm-[a-z0-9]{8}\.[[:punct:]]{2}$`, "B": `^[0-9]{3}$`, "COUNT": `^[1-9][0-9]$`} {
			if !regexp.MustCompile(pattern).MatchString(rendered.Values[name]) {
				t.Fatalf("%s is %q", name, rendered.Values[name])
			}
		}
	}
}

// An escaped text renders to itself.
func TestEscape(t *testing.T) {
	for _, text := range []string{"", "plain", "${HOME}", "a ${HOME} and ${NAME}", "${{NAME}}", "x${{NAME}}", "${", "$${A}", "${${A}}", "\\${A}"} {
		spec := &v1beta1.VirtualMachineTemplateSpec{Parameters: []v1beta1.Parameter{{Name: "DOLLAR", Value: "$"}, {Name: "NAME", Value: "n"}}}
		raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": Escape(text, "DOLLAR")}}})
		if err != nil {
			t.Fatal(err)
		}
		spec.VirtualMachine = &runtime.RawExtension{Raw: raw}
		rendered, findings := Render(spec, nil, Options{Random: source()})
		if rendered == nil || rendered.VirtualMachine.Annotations["a"] != text {
			t.Errorf("%q: %q, %v", text, Escape(text, "DOLLAR"), said(findings))
		}
	}
}

// FuzzRender holds that no template and no value panics or gives two answers, and that a rendered one renders to itself.
func FuzzRender(f *testing.F) {
	f.Add(`{"metadata":{"name":"${A}"},"spec":{"template":{"spec":{"domain":{"cpu":{"cores":"${{B}}"}}}}}}`, "[a-z]{3}", "4", "x${A}")
	f.Add(`{"metadata":{"namespace":"${{A}}","${B}":"x"},"status":{}}`, `[\w-z]{2}`, `{"a":1}`, "${{A}}")
	f.Fuzz(func(t *testing.T, vm, from, given, message string) {
		spec := &v1beta1.VirtualMachineTemplateSpec{
			VirtualMachine: &runtime.RawExtension{Raw: []byte(vm)}, Message: message,
			Parameters: []v1beta1.Parameter{{Name: "A", Generate: "expression", From: from}, {Name: "B"}, {Name: "R", Required: true}},
		}
		Check(spec, source())
		values := map[string]string{"B": given, "R": given}
		first, findings := Render(spec, values, Options{Random: source()})
		again, others := Render(spec, values, Options{Random: source()})
		if diff := cmp.Diff(said(findings), said(others)); diff != "" || (first == nil) != (again == nil) {
			t.Fatalf("two answers:\n%s", diff)
		}
		if first == nil {
			if !Denied(findings) {
				t.Fatal("neither a VirtualMachine nor a reason")
			}
			return
		}
		if diff := cmp.Diff(first.VirtualMachine, again.VirtualMachine); diff != "" {
			t.Fatal(diff)
		}
	})
}
