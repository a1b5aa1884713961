package effective_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
)

const (
	noArguments = `
enforcement: Deny
match: {kinds: [Plugin]}
validations:
- {expression: "!has(domain.qemu_commandline)", message: the hooks add arguments for QEMU, fieldPath: spec.domainHooks}`
	noArgumentsRego = `
enforcement: Deny
match: {kinds: [Plugin]}
rego: {module: "package p\nimport rego.v1\ndeny contains {\"msg\": \"the hooks add arguments for QEMU\", \"field\": \"spec.domainHooks\"} if input.domain.qemu_commandline\n"}`
	namedByTeam = `
enforcement: Deny
match: {kinds: [Plugin]}
validations:
- {expression: "object.metadata.name.startsWith('team-') && object.spec.?nodeHooks.orValue([]).size() == 0", message: not of a team, fieldPath: metadata.name}`
	ofMachines = `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
- {expression: "false", message: never}`
	writesArguments = `Domain{QEMUCommandline: DomainQEMUCommandline{Args: [DomainQEMUCommandlineArg{Value: "-no-shutdown"}]}}`
)

// TestPoliciesOnPlugins: policies read a Plugin, and the domain of a sample after all of its hooks, whatever their conditions.
func TestPoliciesOnPlugins(t *testing.T) {
	const denied = "FieldValueInvalid spec.domainHooks: the hooks add arguments for QEMU"
	hook := func(expression string) string {
		return `{domainHooks: [{cel: {expression: '` + expression + `'}}]}`
	}
	for name, c := range map[string]struct {
		policies  []string
		spec, old string
		want      []string
	}{
		"arguments":           {policies: []string{noArguments}, spec: hook(writesArguments), want: []string{"Deny " + denied}},
		"in Rego":             {policies: []string{noArgumentsRego}, spec: hook(writesArguments), want: []string{"Deny " + denied}},
		"another hook":        {policies: []string{noArguments, noArgumentsRego}, spec: hook(`Domain{OnReboot: "destroy"}`)},
		"a hidden hook":       {policies: []string{noArguments}, spec: `{condition: 'domainSpec.Type == "qemu"', domainHooks: [{condition: "false", failureStrategy: Ignore, cel: {expression: '` + writesArguments + `'}}]}`, want: []string{"Deny " + denied}},
		"a list that grows":   {policies: []string{noArguments}, spec: hook(`Domain{QEMUCommandline: DomainQEMUCommandline{Args: domainSpec.QEMUCommandline.Args}}`), want: []string{"Deny " + denied}},
		"a sidecar":           {policies: []string{noArguments}, spec: `{domainHooks: [{sidecar: {socketPath: /var/run/kubevirt-plugin/p/s}}]}`, want: []string{"Deny InternalError spec"}},
		"a hook that fails":   {policies: []string{noArguments}, spec: hook(`Domain{Title: domainSpec.Devices.Disks[7].Serial}`), want: []string{"Deny InternalError spec"}},
		"the object":          {policies: []string{namedByTeam}, spec: `{nodeHooks: [{socket: /s, permittedHooks: [PreVMStart]}]}`, want: []string{"Deny FieldValueInvalid metadata.name: not of a team"}},
		"another kind":        {policies: []string{ofMachines}, spec: hook(writesArguments)},
		"an older violation":  {policies: []string{noArguments}, old: hook(writesArguments), spec: `{failureStrategy: Ignore, domainHooks: [{cel: {expression: '` + writesArguments + `'}}]}`, want: []string{"Warn " + denied}},
		"an unchanged update": {policies: []string{noArguments}, old: hook(writesArguments), spec: hook(writesArguments), want: []string{"Warn " + denied}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := func(spec string) *pluginv1alpha1.Plugin {
				if spec == "" {
					return nil
				}
				p := &pluginv1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
				if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
					t.Fatal(err)
				}
				return p
			}
			request := create("jane")
			if c.old != "" {
				request.Operation = "UPDATE"
			}
			found, err := pipeline(t).DecidePlugin(effective.Input{Facts: platform.Defaults(platform.Settings{}), Policies: active(t, c.policies...), Request: request}, plugin(c.spec), plugin(c.old))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				text := string(f.Severity) + " " + string(f.Error.Type) + " " + f.Error.Field
				if f.EvaluationError == "" {
					text += ": " + f.Error.Detail
				} else {
					t.Log(f.Error.Detail)
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
