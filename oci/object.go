package oci

import (
	"regexp"
	"strings"
)

// Object is the object of an artifact.
type Object struct {
	Kind Kind
	// Name is that of the object.
	Name string
	// Architecture is that of the virtual machine, as the platform of the manifest.
	Architecture string
	// Config is the object as JSON, without what belongs to its cluster. Its fields have the order of the object.
	Config []byte
	// Volumes are those with a PersistentVolumeClaim or a DataVolume, in the order of the virtual machine.
	Volumes []Volume
}

// Volume is a volume with a disk that an artifact can have as a layer.
type Volume struct {
	Name string
	// Claim is the PersistentVolumeClaim or DataVolume. It can have parameters of the template.
	Claim string
	// Source is the PersistentVolumeClaim that a DataVolumeTemplate clones; empty without one.
	Source string
	// Layered tells that KubeVirt exports the disk: of a template, only what clones a PersistentVolumeClaim, or is one.
	Layered bool
}

// foreign are the fields of metadata that only the cluster of the object knows.
var foreign = []string{"namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "finalizers", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"}

// NewObject reads a VirtualMachine or a VirtualMachineTemplate, and makes the configuration of it that KubeVirt's exporter writes.
func NewObject(data []byte) (*Object, error) {
	tree, f, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	o := &Object{Kind: f.kind}
	o.read(tree)
	tree.remove("status")
	tree.at("metadata").remove(foreign...)
	if f.kind == VirtualMachine {
		claimVolumes(tree.at("spec"))
	}
	o.Config = tree.append(nil)
	return o, validObject(o)
}

// ParseObject reads the configuration of an artifact.
func ParseObject(kind Kind, data []byte) (*Object, error) {
	tree, f, err := parseObject(data)
	switch {
	case err != nil:
		return nil, err
	case f.kind != kind:
		return nil, rejected(InvalidObject, "config", "the artifact type says %s, and the object is a %s", kind, f.kind)
	}
	o := &Object{Kind: kind, Config: data}
	o.read(tree)
	return o, validObject(o)
}

func parseObject(data []byte) (*node, *format, error) {
	if len(data) > MaxConfig {
		return nil, nil, rejected(LimitExceeded, "config", "the object has %d bytes: at most %d", len(data), MaxConfig)
	}
	tree, err := parseTree(data)
	if err != nil {
		return nil, nil, rejected(InvalidJSON, "config", "the object is not valid JSON: %v", err)
	}
	group, _, _ := strings.Cut(tree.at("apiVersion").text(), "/")
	kind := tree.at("kind").text()
	f := formatOf(func(f *format) bool { return string(f.kind) == kind && f.apiGroup == group })
	if f == nil {
		return nil, nil, rejected(InvalidObject, "config", "the object is neither a VirtualMachine of kubevirt.io nor a VirtualMachineTemplate of template.kubevirt.io")
	}
	return tree, f, nil
}

// namePattern is a name of an object: a DNS subdomain.
var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// architecturePattern is what an architecture or its variant can be.
var architecturePattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

func validObject(o *Object) error {
	switch {
	case !namePattern.MatchString(o.Name):
		return rejected(UnsafeName, "config.metadata.name", "the name of the object is not valid: use lower case letters, digits, hyphens and dots")
	case !architecturePattern.MatchString(o.Architecture):
		return rejected(InvalidObject, "config", "the architecture of the virtual machine is not valid: use a name such as amd64")
	}
	return nil
}

// read finds the name, the architecture and the volumes.
func (o *Object) read(tree *node) {
	o.Name = tree.at("metadata", "name").text()
	machine := tree
	resolve := func(text string) string { return text }
	if o.Kind == VirtualMachineTemplate {
		machine = tree.at("spec", "virtualMachine")
		resolve = defaultsOf(tree.at("spec", "parameters"))
	}
	if o.Architecture = resolve(machine.at("spec", "template", "spec", "architecture").text()); o.Architecture == "" {
		o.Architecture = DefaultArchitecture
	}
	sources := map[string]string{}
	for _, template := range machine.at("spec", "dataVolumeTemplates").elements() {
		sources[template.at("metadata", "name").text()] = template.at("spec", "source", "pvc", "name").text()
	}
	for _, volume := range machine.at("spec", "template", "spec", "volumes").elements() {
		v := Volume{Name: volume.at("name").text(), Claim: volume.at("persistentVolumeClaim", "claimName").text()}
		if v.Claim == "" {
			v.Claim = volume.at("dataVolume", "name").text()
		}
		if v.Claim == "" {
			continue
		}
		source, made := sources[v.Claim]
		v.Source, v.Layered = source, o.Kind == VirtualMachine || !made || source != ""
		o.Volumes = append(o.Volumes, v)
	}
}

// VolumeOf is the volume of a disk: that of the name or, as KubeVirt names claims, that of the claim; nil without one.
func (o *Object) VolumeOf(disk string) *Volume {
	for _, name := range []func(*Volume) string{
		func(v *Volume) string { return v.Name },
		func(v *Volume) string { return dashed(v.Claim) },
		func(v *Volume) string { return dashed(v.Source) },
	} {
		for i := range o.Volumes {
			if name(&o.Volumes[i]) == disk {
				return &o.Volumes[i]
			}
		}
	}
	return nil
}

// dashed is the name of a claim as part of the name of a volume of a pod.
func dashed(claim string) string { return strings.ReplaceAll(claim, ".", "-") }

// claimVolumes removes the DataVolumeTemplates of a virtual machine. Its volumes refer to the claims of the same name.
func claimVolumes(spec *node) {
	spec.remove("dataVolumeTemplates")
	for _, volume := range spec.at("template", "spec", "volumes").elements() {
		source := volume.at("dataVolume")
		if source == nil {
			continue
		}
		name, claim := volume.at("name").text(), source.at("name").text()
		reference := &node{object: &[]member{{"claimName", &node{scalar: claim}}}}
		*volume.object = []member{{"name", &node{scalar: name}}, {"persistentVolumeClaim", reference}}
	}
}

// parameterPattern is a reference to a parameter of a template.
var parameterPattern = regexp.MustCompile(`\$\{\{?([A-Za-z0-9_]+)\}?\}`)

// maxArchitecture bounds the architecture of a template with parameters, and the value of each, in bytes: their product would be large otherwise.
const maxArchitecture = 256

// defaultsOf returns a function that replaces parameters by their values. The result is empty if one has none, and the text itself, which is
// not valid then, if it or a value is too long.
func defaultsOf(parameters *node) func(string) string {
	values := map[string]string{}
	for _, p := range parameters.elements() {
		values[p.at("name").text()] = p.at("value").text()
	}
	return func(text string) string {
		if len(text) > maxArchitecture {
			return text
		}
		known, long := true, false
		replaced := parameterPattern.ReplaceAllStringFunc(text, func(reference string) string {
			value := values[parameterPattern.FindStringSubmatch(reference)[1]]
			known, long = known && value != "", long || len(value) > maxArchitecture
			return value[:min(len(value), maxArchitecture)]
		})
		switch {
		case long:
			return text
		case !known:
			return ""
		}
		return replaced
	}
}
