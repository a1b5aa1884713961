package rollouts

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/rollouts"
)

// restart compares the condition RestartRequired: whether it is set, and its class. It returns a difference, or nothing.
func (c *Case) restart(result *rollouts.Result) string {
	var recorded rollouts.RestartReason
	if c.Expect.RestartRequired != nil {
		recorded = rollouts.ReasonOf(c.Expect.RestartRequired.Message)
	}
	if recorded == result.RestartRequired {
		return ""
	}
	return fmt.Sprintf("RestartRequired: KubeVirt %q, Virtward %q", recorded, result.RestartRequired)
}

// live compares the running instance as KubeVirt leaves it with the planned one.
func (c *Case) live(in *rollouts.Input, result *rollouts.Result) (string, error) {
	if c.VMI == nil {
		if len(c.Expect.VMIPatched) > 0 {
			return "KubeVirt changes an instance that does not exist", nil
		}
		return "", nil
	}
	recorded, err := c.Recorded()
	if err != nil {
		return "", err
	}
	planned, err := c.plannedInstance(in, result)
	if err != nil {
		return "", err
	}
	return strings.Join(conformance.Differences(Canonical(recorded), Canonical(planned)), "; "), nil
}

// Recorded is the instance with KubeVirt's patches.
func (c *Case) Recorded() (map[string]any, error) {
	instance, err := object(c.VMI)
	if err != nil {
		return nil, err
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.Expect.VMIPatched)) {
		set(instance, pointerSteps(pointer), c.Expect.VMIPatched[pointer])
	}
	return instance, nil
}

// plannedInstance is the instance with the changes that the plan says KubeVirt writes.
func (c *Case) plannedInstance(in *rollouts.Input, result *rollouts.Result) (map[string]any, error) {
	instance, err := object(c.VMI)
	if err != nil {
		return nil, err
	}
	written, err := object(c.VM)
	if err != nil {
		return nil, err
	}
	expanded, err := expand(c.VM, in.DesiredKinds)
	if err != nil {
		return nil, err
	}
	for i := range result.Changes {
		change := &result.Changes[i]
		if !change.Patched {
			continue
		}
		steps := fieldpath.Split(change.Field)
		value, ok := ValueAt(written, steps)
		if !ok {
			value, _ = ValueAt(expanded, steps)
		}
		if steps[0] == "spec" {
			steps = steps[2:] // spec.template.spec and spec.template.metadata
		}
		if change.New == "" {
			value = nil
		}
		if change.Reattached {
			value, steps = nil, item(steps)
		}
		set(instance, steps, value)
	}
	return instance, nil
}

// item cuts the path of a volume or a disk after its name.
func item(steps []string) []string {
	for i, step := range steps {
		if (step == "volumes" || step == "disks") && i+2 <= len(steps) {
			return steps[:i+2]
		}
	}
	return steps
}

// expand is the VM with its instancetype and preference.
func expand(vm *v1.VirtualMachine, kinds rollouts.Kinds) (map[string]any, error) {
	expanded := vm.DeepCopy()
	target := instancetypes.TemplateOf(expanded)
	target.SpecPath, target.MetadataPath = field.NewPath("spec"), field.NewPath("metadata")
	instancetypes.Expand(target, kinds.Instancetype, kinds.Preference, &provenance.Recorder{})
	return object(expanded)
}

func object(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var decoded map[string]any
	return decoded, json.Unmarshal(data, &decoded)
}

// Canonical is what is compared of an instance: its labels, annotations and spec, with lists as maps by name, without what
// KubeVirt derives from other fields.
func Canonical(instance map[string]any) any {
	metadata, _ := instance["metadata"].(map[string]any)
	spec, _ := instance["spec"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, v1.VirtualMachineGenerationAnnotation)
	if domain, ok := spec["domain"].(map[string]any); ok {
		delete(domain, "resources")
	}
	return conformance.Normalize(named(map[string]any{"labels": metadata["labels"], "annotations": annotations, "spec": spec}))
}

// named replaces lists of named items by maps, and removes empty values at the top of the spec.
func named(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			v[key] = named(below)
			if object, ok := v[key].(map[string]any); ok && len(object) == 0 && key == "nodeSelector" || v[key] == nil {
				delete(v, key)
			}
		}
	case []any:
		byName := map[string]any{}
		for _, below := range v {
			object, ok := below.(map[string]any)
			name, isText := object["name"].(string)
			if !ok || !isText {
				return value
			}
			byName[name] = named(below)
		}
		return byName
	}
	return value
}

func pointerSteps(pointer string) []string {
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i])
	}
	return steps
}

// ValueAt returns the value at a path, whose lists have named items.
func ValueAt(value any, steps []string) (any, bool) {
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			below, ok := v[step]
			if !ok {
				return nil, false
			}
			value = below
		case []any:
			i := position(v, step)
			if i < 0 {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// position of the item with a name, or with a number in a list without names.
func position(list []any, name string) int {
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
		return i
	}
	return slices.IndexFunc(list, func(below any) bool {
		object, ok := below.(map[string]any)
		return ok && object["name"] == name
	})
}

// set changes the value at a path; nil removes it.
func set(parent map[string]any, steps []string, value any) {
	if len(steps) == 1 {
		parent[steps[0]] = value
		if value == nil {
			delete(parent, steps[0])
		}
		return
	}
	switch below := parent[steps[0]].(type) {
	case map[string]any:
		set(below, steps[1:], value)
	case []any:
		parent[steps[0]] = setItem(below, steps[1:], value)
	default:
		if value != nil {
			created := map[string]any{}
			if strings.HasSuffix(steps[0], "s") && len(steps) == 2 { // a list without items
				if _, isItem := value.(map[string]any); isItem {
					parent[steps[0]] = []any{value}
					return
				}
			}
			parent[steps[0]] = created
			set(created, steps[1:], value)
		}
	}
}

func setItem(list []any, steps []string, value any) []any {
	i := position(list, steps[0])
	switch {
	case len(steps) > 1 && i >= 0:
		set(list[i].(map[string]any), steps[1:], value)
	case len(steps) > 1:
	case value == nil && i >= 0:
		return slices.Delete(list, i, i+1)
	case i >= 0:
		list[i] = value
	case value != nil:
		return append(list, value)
	}
	return list
}

// Silent is a path that is not on the instance, and that KubeVirt announces nowhere.
type Silent struct {
	Path string
	// Takes of the plan; empty if the plan has no such change.
	Takes rollouts.Takes
	// Awaits is set if KubeVirt has begun, and another controller ends it.
	Awaits bool
}

// silent lists the paths that KubeVirt leaves pending silently.
func (c *Case) silent(result *rollouts.Result) []Silent {
	if c.Expect.RestartRequired != nil || c.Expect.Error != nil {
		return nil
	}
	var found []Silent
	for _, pointer := range c.Expect.NotOnVMI {
		steps := pointerSteps(pointer)
		if c.announcedByCondition(steps) {
			continue
		}
		found = append(found, Silent{Path: pointer, Takes: takes(result, steps), Awaits: c.begun(steps)})
	}
	return append(found, c.stuck(result)...)
}

// stuck are sockets that the instance has, and that no migration plugs.
func (c *Case) stuck(result *rollouts.Result) []Silent {
	if c.VMI == nil || !hasCondition(c.Expect.VMIConditions, string(v1.VirtualMachineInstanceVCPUChange)) || migratable(c.VMI) {
		return nil
	}
	const path = "/spec/template/spec/domain/cpu/sockets"
	steps := pointerSteps(path)
	if takes(result, steps) == rollouts.Restart {
		return []Silent{{Path: path, Takes: rollouts.Restart}}
	}
	return []Silent{{Path: path}}
}

func migratable(vmi *v1.VirtualMachineInstance) bool {
	return slices.ContainsFunc(vmi.Status.Conditions, func(c v1.VirtualMachineInstanceCondition) bool {
		return c.Type == v1.VirtualMachineInstanceIsMigratable && c.Status == corev1.ConditionTrue
	})
}

func hasCondition(conditions []Condition, kind string) bool {
	return slices.ContainsFunc(conditions, func(c Condition) bool { return c.Type == kind })
}

// announcing are the conditions of an instance that announce a field.
var announcing = map[string][]string{
	"cpu":        {string(v1.VirtualMachineInstanceVCPUChange)},
	"memory":     {string(v1.VirtualMachineInstanceMemoryChange)},
	"interfaces": {string(v1.VirtualMachineInstanceMigrationRequired)},
	"networks":   {string(v1.VirtualMachineInstanceMigrationRequired)},
	"volumes":    {string(v1.VirtualMachineInstanceVolumesChange)},
}

func (c *Case) announcedByCondition(steps []string) bool {
	for _, step := range steps {
		for _, kind := range announcing[step] {
			if hasCondition(c.Expect.VMIConditions, kind) || hasCondition(c.Expect.VMIConditionsLater, kind) {
				return true
			}
		}
	}
	return false
}

// begun reports whether KubeVirt called a subresource, or has removed the volume of a path from the instance.
func (c *Case) begun(steps []string) bool {
	if len(c.Expect.Subresources) > 0 {
		return true
	}
	volumes, patched := c.Expect.VMIPatched["/spec/volumes"].([]any)
	for i, step := range steps {
		if step == "volumes" && patched && i+1 < len(steps) {
			return slices.ContainsFunc(c.VMI.Spec.Volumes, func(v v1.Volume) bool { return v.Name == steps[i+1] }) && position(volumes, steps[i+1]) < 0
		}
	}
	return false
}

// takes is when the change of a path takes effect.
func takes(result *rollouts.Result, steps []string) rollouts.Takes {
	for i := range result.Changes {
		planned := fieldpath.Split(result.Changes[i].Field)
		n := min(len(planned), len(steps))
		if slices.Equal(planned[:n], steps[:n]) {
			return result.Changes[i].Takes
		}
	}
	return ""
}
