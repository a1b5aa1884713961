package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/compare/engine"
	"github.com/virtward/virtward/test/corpus"
)

//go:embed policies/*.yaml
var files embed.FS

// set is one row of the table.
type set struct {
	name     string
	title    string
	policies []engine.Policy
}

// throughServer is the set that is also compared through the API server.
const throughServer = "cel-50"

// policiesOf returns the policies of a set.
func policiesOf(all []set, name string) []engine.Policy {
	for _, s := range all {
		if s.name == name {
			return s.policies
		}
	}
	return nil
}

// requests is the number of varied virtual machines.
const requests = 20

// namespace is that of all requests.
var namespace = engine.Namespace{Name: "default", Labels: map[string]string{corev1.LabelMetadataName: "default"}}

// sets returns the rows in their order.
func sets() ([]set, error) {
	simple, err := read("simple")
	if err != nil {
		return nil, err
	}
	rego, err := read("rego")
	if err != nil {
		return nil, err
	}
	gatekeeper, err := read("gatekeeper")
	if err != nil {
		return nil, err
	}
	gatekeeperRego, err := read("gatekeeper-rego")
	if err != nil {
		return nil, err
	}
	kyverno, err := read("kyverno")
	if err != nil {
		return nil, err
	}
	inCEL, inRego, err := portable()
	if err != nil {
		return nil, err
	}
	return []set{
		{"cel-5", "5 simple policies in CEL", repeated(simple, 5, 5)},
		{"cel-50", "50 simple policies in CEL", repeated(simple, 50, 50)},
		{"loaded-10", "10 simple policies in CEL", repeated(simple, 10, 10)},
		{"loaded-1000", "1,000 simple policies in CEL, 10 of which match the namespace", repeated(simple, 10, 1000)},
		{"library-cel", fmt.Sprintf("%d policies of Virtward's library in CEL", len(inCEL)), inCEL},
		{"library-rego", fmt.Sprintf("%d policies of Virtward's library in Rego", len(inRego)), inRego},
		{"rego-50", "50 simple policies in Rego", repeated(rego, 50, 50)},
		{"gatekeeper-cel", fmt.Sprintf("%d policies in the form of Gatekeeper's library, in CEL", len(gatekeeper)), gatekeeper},
		{"gatekeeper-rego", fmt.Sprintf("%d policies in the form of Gatekeeper's library, in Rego", len(gatekeeperRego)), gatekeeperRego},
		{"kyverno-cel", fmt.Sprintf("%d policies in the form of Kyverno's library, in CEL", len(kyverno)), kyverno},
	}, nil
}

func read(name string) ([]engine.Policy, error) {
	data, err := files.ReadFile("policies/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	var result []engine.Policy
	if err := yaml.UnmarshalStrict(data, &result); err != nil {
		return nil, fmt.Errorf("policies/%s.yaml: %w", name, err)
	}
	for i := range result {
		result[i].Kind = result[i].Name
	}
	return result, nil
}

// repeated returns a number of policies, under different names. Those after the first ones are for namespaces of others.
func repeated(from []engine.Policy, matching, loaded int) []engine.Policy {
	result := make([]engine.Policy, 0, loaded)
	for i := range loaded {
		policy := from[i%len(from)]
		policy.Name = fmt.Sprintf("%s-%d", policy.Kind, i)
		if i >= matching {
			policy.NamespaceLabels = map[string]string{corev1.LabelMetadataName: fmt.Sprintf("team-%d", i)}
		}
		result = append(result, policy)
	}
	return result
}

var (
	// own are the variables and functions that only Virtward has.
	own = regexp.MustCompile(`(^|[^.?\w])(provenance|platform|domain|pod|references|instancetype|preference|requester|authorizer|namespaceObject|request|oldObject|migrationTargets|virtward)\b`)
	// ownInput are the documents that only Virtward has.
	ownInput = regexp.MustCompile(`\binput\.(domain|pod|references|instancetype|preference|requester|request|object|oldObject|platform|provenance|namespaceObject|migrationTargets)\b|\bvirtward\.is`)
	vm       = regexp.MustCompile(`(^|[^.?\w'"\[])vm\.`)
	ofParams = regexp.MustCompile(`(^|[^.?\w])params\.`)
	module   = regexp.MustCompile(`(?m)^package .*$`)
)

// portable returns the policies of the library that the peers can evaluate: they match instances, and read only the instance and
// their parameters.
func portable() (inCEL, inRego []engine.Policy, err error) {
	env, err := cel.NewEnvironment()
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range library.All() {
		compiled, _ := policies.Compile(env, entry.Policy, nil)
		spec := compiled.Spec()
		if !slices.Contains(spec.Match.Kinds, policyv1alpha1.PolicyVirtualMachineInstance) || len(spec.Match.MatchConditions) > 0 || usesOwn(spec) {
			continue
		}
		policy := engine.Policy{Name: entry.Name, Kind: entry.Name}
		if values := compiled.Params(); values != nil {
			if policy.Params, err = json.Marshal(values); err != nil {
				return nil, nil, err
			}
		}
		if spec.Rego != nil {
			text := module.ReplaceAllString(spec.Rego.Module, "")
			policy.Rego = strings.NewReplacer("input.vm", engine.Object, "input.params", engine.Params).Replace(text)
			inRego = append(inRego, policy)
			continue
		}
		for _, v := range spec.Variables {
			policy.Variables = append(policy.Variables, engine.Variable{Name: v.Name, Expression: neutral(v.Expression)})
		}
		for _, v := range spec.Validations {
			policy.Validations = append(policy.Validations,
				engine.Validation{Expression: neutral(v.Expression), Message: v.Message, MessageExpression: neutral(v.MessageExpression)})
		}
		inCEL = append(inCEL, policy)
	}
	return inCEL, inRego, nil
}

func neutral(expression string) string {
	return ofParams.ReplaceAllString(vm.ReplaceAllString(expression, "${1}"+engine.Object+"."), "${1}"+engine.Params+".")
}

// text is a literal in CEL, whose words are not variables.
var text = regexp.MustCompile(`'[^']*'|"[^"]*"`)

func usesOwn(spec *policyv1alpha1.VirtualMachinePolicySpec) bool {
	if spec.Rego != nil {
		return ownInput.MatchString(spec.Rego.Module)
	}
	var expressions []string
	for _, v := range spec.Variables {
		expressions = append(expressions, v.Expression)
	}
	for _, v := range spec.Validations {
		expressions = append(expressions, v.Expression, v.MessageExpression)
	}
	return slices.ContainsFunc(expressions, func(expression string) bool {
		bare := text.ReplaceAllString(expression, "''")
		return own.MatchString(bare) || strings.Contains(bare, "dyn(object)") || strings.Contains(bare, "object.")
	})
}

// reviews returns the reviews of the first VMIs of the corpus, as the validating webhooks get them.
func reviews() ([]json.RawMessage, error) {
	pipeline, _, err := newPipeline()
	if err != nil {
		return nil, err
	}
	samples, err := corpus.Samples(func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
		verdict, err := pipeline.Complete(effective.Input{VM: vm, VMI: vmi, Facts: platform.Defaults(platform.Settings{})})
		if err != nil {
			return nil, nil, err
		}
		return verdict.VM, verdict.VMI, nil
	})
	if err != nil {
		return nil, err
	}
	var result []json.RawMessage
	for i := range samples {
		if samples[i].Kind != apikinds.VirtualMachineInstance || len(result) == requests {
			continue
		}
		review := json.RawMessage(samples[i].Review)
		if i%2 == 0 {
			if review, err = hardened(pipeline, review); err != nil {
				return nil, fmt.Errorf("hardening %s: %w", samples[i].Name, err)
			}
		}
		result = append(result, review)
	}
	return result, nil
}

// hardened returns the review of a VMI that the library's policies for security allow, if it is for amd64: with a TPM, Secure Boot and
// a pinned machine type. So these policies allow a part of the requests.
func hardened(pipeline *effective.Pipeline, review json.RawMessage) (json.RawMessage, error) {
	parsed, vmi := &admissionv1.AdmissionReview{}, &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(review, parsed); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(parsed.Request.Object.Raw, vmi); err != nil {
		return nil, err
	}
	if vmi.Spec.Architecture != architectures.AMD64 {
		return review, nil
	}
	vmi.Labels["owner"] = "team"
	domain := &vmi.Spec.Domain
	domain.Machine = &v1.Machine{Type: "pc-q35-rhel9.6.0"}
	domain.Devices.TPM = &v1.TPMDevice{}
	domain.Features = &v1.Features{SMM: &v1.FeatureState{Enabled: new(true)}}
	domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{EFI: &v1.EFI{SecureBoot: new(true)}}}
	for i := range domain.Devices.Interfaces {
		domain.Devices.Interfaces[i].Ports = []v1.Port{{Port: 22}}
	}
	for i := range domain.Devices.Disks {
		if disk := domain.Devices.Disks[i].Disk; disk != nil {
			disk.Bus = v1.DiskBusVirtio
		}
	}
	verdict, err := pipeline.Complete(effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{})})
	if err != nil {
		return nil, err
	}
	if parsed.Request.Object.Raw, err = json.Marshal(verdict.VMI); err != nil {
		return nil, err
	}
	return json.Marshal(parsed)
}
