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

// Files returns the folders of all policies.
func Files() fs.FS { return files }

// Language of a policy.
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
	// Effective names the fields that only the effective VM has, if the policy would be wrong on manifests.
	Effective string
	// Parameters are sorted by name.
	Parameters []Parameter
	// Policy is a copy for the caller.
	Policy *policyv1alpha1.VirtualMachinePolicy
	// YAML is the text of the policy, with its comments.
	YAML []byte
}

// Parameter is one that a policy has.
type Parameter struct {
	Name string
	// Default is in JSON.
	Default string
	Schema  apiextensionsv1.JSONSchemaProps
}

// effective names the fields that policies evaluate in addition to the manifest. A test compares it with their suites.
func effective() map[string]string {
	return map[string]string{
		"container-disk-registries": "the sidecars of an instancetype or a preference",
		"dedicated-cpu-namespaces":  "dedicated CPUs and huge pages of an instancetype",
		"disk-bus-virtio":           "the bus of a disk without one, from a preference or the architecture",
		"disk-cache-allowed":        "the cache mode of a disk without one, in the libvirt domain",
		"eviction-strategy-storage": "the eviction strategy of the cluster",
		"exposed-ports":             "the default interface of a VM without interfaces",
		"host-devices-namespaces":   "the devices of an instancetype",
		"machine-type-pinned":       "the machine type of a preference or of the cluster",
		"memory-cap":                "the memory of an instancetype, the site's defaults or the pod's requests",
		"migration-targets-min":     "the pod and the CPU model of the VM, compared with the nodes",
		"network-bindings-allowed":  "the binding of a preference, and of the default interface of a VM without interfaces",
		"networks-allowed":          "the pod network, the default of a VM without networks",
		"no-qemu-arguments":         "the arguments for QEMU in the libvirt domain",
		"pod-memory-cap":            "the requests of the pod that KubeVirt makes of the VM",
		"tpm-required":              "the TPM of a preference",
		"uefi-secure-boot":          "the firmware of a preference",
		"vcpu-cap":                  "the CPUs of an instancetype or of the pod's limits",
	}
}

// Names returns the names of all policies, sorted. It reads no policy.
func Names() []string {
	folders, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("the library is not embedded: %v", err)) // a programming error that tests detect
	}
	names := make([]string, 0, len(folders))
	for _, folder := range folders {
		names = append(names, folder.Name())
	}
	return names
}

// All returns the policies of the library, sorted by name.
func All() []Entry {
	names := Names()
	all := make([]Entry, 0, len(names))
	for _, name := range names {
		all = append(all, must(name))
	}
	return all
}

// Find returns the policy with a name; ok is false if there is none.
func Find(name string) (entry Entry, ok bool) {
	if !slices.Contains(Names(), name) {
		return Entry{}, false
	}
	return must(name), true
}

func must(name string) Entry {
	entry, err := read(name)
	if err != nil {
		panic(fmt.Sprintf("the policy %s of the library: %v", name, err)) // as in Names
	}
	return entry
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
