package library

//go:generate go run ./gen ../../docs/policy-library.md ../../charts/virtward

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// Names of the files of a policy, in its folder. Its suite may need more.
const (
	PolicyFile = "policy.yaml"
	SuiteFile  = "suite.yaml"
)

//go:embed */*.yaml
var files embed.FS

// Files are the folders of all policies.
func Files() fs.FS { return files }

// Language is what a policy is written in.
type Language string

// The languages.
const (
	CEL  Language = "CEL"
	Rego Language = "Rego"
)

// Entry is a policy of the library.
type Entry struct {
	// Name is that of the policy and of its folder.
	Name     string
	Title    string
	Category string
	Severity policyv1alpha1.PolicySeverity
	Language Language
	// Effective says what only the effective VM tells, if the policy would be wrong about VMs as they are written.
	Effective string
	// Parameters are sorted by name.
	Parameters []Parameter
	// Policy is the caller's own.
	Policy *policyv1alpha1.VirtualMachinePolicy
	// YAML is the policy as it is written, with its comments.
	YAML []byte
}

// Parameter is one that a policy has.
type Parameter struct {
	Name string
	// Default is in JSON.
	Default string
	Schema  apiextensionsv1.JSONSchemaProps
}

// effective says of the policies that judge more than what is written what that is. A test holds it to their suites.
func effective() map[string]string {
	return map[string]string{
		"dedicated-cpu-namespaces":  "dedicated CPUs and huge pages of an instancetype",
		"disk-bus-virtio":           "the bus of a disk that names none, which is that of a preference or of the architecture",
		"eviction-strategy-storage": "the eviction strategy of the cluster",
		"exposed-ports":             "the interface that a VM gets that names none",
		"host-devices-namespaces":   "the devices of an instancetype",
		"machine-type-pinned":       "the machine type of a preference or of the cluster",
		"memory-cap":                "the memory of an instancetype, of the site's defaults or of the pod's requests",
		"network-bindings-allowed":  "the binding of a preference, and that of the interface that a VM gets that names none",
		"networks-allowed":          "the pod network, to which a VM is attached that names no network",
		"tpm-required":              "the TPM of a preference",
		"uefi-secure-boot":          "the firmware of a preference",
		"vcpu-cap":                  "the CPUs of an instancetype or of the pod's limits",
	}
}

// All are the policies of the library, by name.
func All() []Entry {
	folders, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("the library is not embedded: %v", err)) // a mistake in the program, which its tests find
	}
	all := make([]Entry, 0, len(folders))
	for _, folder := range folders {
		entry, err := read(folder.Name())
		if err != nil {
			panic(fmt.Sprintf("the policy %s of the library: %v", folder.Name(), err)) // as above
		}
		all = append(all, entry)
	}
	return all
}

// Find is the policy with a name; ok is false if there is none.
func Find(name string) (entry Entry, ok bool) {
	for _, entry := range All() {
		if entry.Name == name {
			return entry, true
		}
	}
	return Entry{}, false
}

func read(name string) (Entry, error) {
	text, err := files.ReadFile(name + "/" + PolicyFile)
	if err != nil {
		return Entry{}, err
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if err := yaml.UnmarshalStrict(text, policy); err != nil {
		return Entry{}, err
	}
	parameters, err := parametersOf(policy.Spec.Params)
	if err != nil {
		return Entry{}, err
	}
	spec := &policy.Spec
	entry := Entry{
		Name: name, Title: spec.Title, Category: spec.Category, Severity: spec.Severity, Language: CEL,
		Effective: effective()[name], Parameters: parameters, Policy: policy, YAML: text,
	}
	if spec.Rego != nil {
		entry.Language = Rego
	}
	return entry, nil
}

func parametersOf(params *policyv1alpha1.PolicyParams) ([]Parameter, error) {
	if params == nil || params.Schema == nil {
		return nil, nil
	}
	schema := apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(params.Schema.Raw, &schema); err != nil {
		return nil, fmt.Errorf("spec.params.schema: %w", err)
	}
	var parameters []Parameter
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := Parameter{Name: name, Schema: schema.Properties[name]}
		if p.Schema.Default != nil {
			p.Default = string(p.Schema.Default.Raw)
		}
		parameters = append(parameters, p)
	}
	return parameters, nil
}
