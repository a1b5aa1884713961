package catalog

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Presets are the instancetypes and the preferences.
func Presets() ([]client.Object, error) {
	preferences, err := preferences()
	return append(instancetypes(), preferences...), err
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: instancetypev1beta1.SchemeGroupVersion.String(), Kind: kind}
}

// instancetypes are the series for general use and for overcommitted memory, and the first sizes of the one for memory. That one has
// no huge pages here, so that the VMs of the examples can change to it while they run.
func instancetypes() (all []client.Object) {
	add := func(name string, cpus uint32, memory string, overcommit int) {
		all = append(all, &instancetypev1beta1.VirtualMachineClusterInstancetype{
			TypeMeta:   typeMeta("VirtualMachineClusterInstancetype"),
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU:    instancetypev1beta1.CPUInstancetype{Guest: cpus},
				Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse(memory), OvercommitPercent: overcommit},
			},
		})
	}
	for _, size := range []struct {
		name   string
		cpus   uint32
		memory string
	}{
		{"nano", 1, "512Mi"},
		{"micro", 1, "1Gi"},
		{"small", 1, "2Gi"},
		{"medium", 1, "4Gi"},
		{"2xmedium", 2, "4Gi"},
		{"large", 2, "8Gi"},
		{"xlarge", 4, "16Gi"},
		{"2xlarge", 8, "32Gi"},
		{"4xlarge", 16, "64Gi"},
		{"8xlarge", 32, "128Gi"},
	} {
		add("u1."+size.name, size.cpus, size.memory, 0)
		if size.name != "2xmedium" {
			add("o1."+size.name, size.cpus, size.memory, 50)
		}
	}
	for _, size := range []struct {
		name   string
		cpus   uint32
		memory string
	}{{"large", 2, "16Gi"}, {"xlarge", 4, "32Gi"}, {"2xlarge", 8, "64Gi"}} {
		add("m1."+size.name, size.cpus, size.memory, 0)
	}
	return all
}

//go:embed preferences.yaml
var preferencesFile []byte

// preference is what a preference requires, and the names of its traits.
type preference struct {
	VCPUs        int      `json:"vcpus"`
	Memory       string   `json:"memory"`
	Architecture string   `json:"architecture"`
	Traits       []string `json:"traits"`
}

// preferences are those that the common templates name.
func preferences() (all []client.Object, err error) {
	var file struct {
		Traits      map[string]map[string]any `json:"traits"`
		Preferences map[string]preference     `json:"preferences"`
	}
	if err := yaml.UnmarshalStrict(preferencesFile, &file); err != nil {
		return nil, fmt.Errorf("reading the preferences: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Preferences)) {
		p := file.Preferences[name]
		spec := map[string]any{}
		for _, trait := range p.Traits {
			if file.Traits[trait] == nil {
				return nil, fmt.Errorf("preference %s: there is no trait %s", name, trait)
			}
			merge(spec, file.Traits[trait])
		}
		requirements := map[string]any{"cpu": map[string]any{"guest": p.VCPUs}, "memory": map[string]any{"guest": p.Memory}}
		if p.Architecture != "" {
			requirements["architecture"], spec["preferredArchitecture"] = p.Architecture, p.Architecture
		}
		spec["requirements"] = requirements
		written, err := yaml.Marshal(map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
		if err != nil {
			return nil, fmt.Errorf("writing preference %s: %w", name, err)
		}
		object := &instancetypev1beta1.VirtualMachineClusterPreference{TypeMeta: typeMeta("VirtualMachineClusterPreference")}
		if err := yaml.UnmarshalStrict(written, object); err != nil {
			return nil, fmt.Errorf("reading preference %s: %w", name, err)
		}
		all = append(all, object)
	}
	return all, nil
}

// merge adds the members of another object, at every depth.
func merge(object, other map[string]any) {
	for key, value := range other {
		of, isObject := value.(map[string]any)
		if !isObject {
			object[key] = value
			continue
		}
		if object[key] == nil {
			object[key] = map[string]any{}
		}
		merge(object[key].(map[string]any), of)
	}
}
