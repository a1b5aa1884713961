package validators

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
)

// signed is a quantity or a signed integer in a Go type: its path in JSON, and what sets it, in a value of the type
// that holds nothing else.
type signed struct {
	path string
	set  func(root reflect.Value)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	intstrType   = reflect.TypeFor[intstr.IntOrString]()
	timeTypes    = []reflect.Type{reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.FieldsV1]()}
)

// signedFields walks every field of a type, through pointers, lists and maps of one element.
func signedFields(t reflect.Type, path string, get func(root reflect.Value) reflect.Value, above []reflect.Type) []signed {
	set := func(value any) []signed {
		return []signed{{path, func(root reflect.Value) { get(root).Set(reflect.ValueOf(value).Convert(t)) }}}
	}
	switch {
	case t == quantityType:
		return set(resource.MustParse("-1"))
	case t == intstrType:
		return set(intstr.FromInt32(-1))
	case slices.Contains(timeTypes, t) || slices.Contains(above, t):
		return nil
	}
	switch t.Kind() {
	case reflect.Map:
		return mapFields(t, path, get)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return set(-1)
	case reflect.Pointer:
		return signedFields(t.Elem(), path, func(root reflect.Value) reflect.Value {
			v := get(root)
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			return v.Elem()
		}, above)
	case reflect.Slice:
		return signedFields(t.Elem(), path+"[0]", func(root reflect.Value) reflect.Value {
			v := get(root)
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(t, 1, 1))
			}
			return v.Index(0)
		}, above)
	case reflect.Struct:
		var all []signed
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			below := path + "." + name
			if name == "" && (options == "inline" || t.Field(i).Anonymous) {
				below = path
			} else if name == "" || name == "-" || !t.Field(i).IsExported() {
				continue
			}
			all = append(all, signedFields(t.Field(i).Type, below, func(root reflect.Value) reflect.Value { return get(root).Field(i) }, append(above, t))...)
		}
		return all
	}
	return nil
}

// mapFields are the entries of a map whose values are quantities or integers.
func mapFields(t reflect.Type, path string, get func(root reflect.Value) reflect.Value) (all []signed) {
	value := reflect.ValueOf(-1)
	switch {
	case t.Elem() == quantityType:
		value = reflect.ValueOf(resource.MustParse("-1"))
	case !value.CanConvert(t.Elem()) || t.Elem().Kind() == reflect.String:
		return nil
	}
	for _, key := range []string{"cpu", "memory", "storage", "ephemeral-storage", "hugepages-2Mi", "example.com/device"} {
		all = append(all, signed{path + "[" + key + "]", func(root reflect.Value) {
			entries := reflect.MakeMap(t)
			entries.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value.Convert(t.Elem()))
			get(root).Set(entries)
		}})
	}
	return all
}

// harmless are the fields whose sign no rule denies, as patterns of their paths, and why.
var harmless = map[string]string{
	`clock.*\.utc\.offsetSeconds$`:                       "a clock west of UTC has a negative offset",
	`\.tolerationSeconds$`:                               "Kubernetes reads what is below zero as zero",
	`[tT]erminationGracePeriodSeconds$`:                  "Kubernetes reads what is below zero as one second",
	`Probe\.(timeout|period)Seconds$`:                    "KubeVirt sets its default where the value is below 1",
	`Probe\.(success|failure)Threshold$`:                 "KubeVirt sets its default where the value is below 1",
	`Probe\.initialDelaySeconds$`:                        "probes-pod-timing warns: no pod is created",
	`Probe\.(httpGet|tcpSocket)\.port$`:                  "probes-pod-port warns: no pod is created",
	`\.topologySpreadConstraints\[0\]\.minDomains$`:      "scheduling-spread-min-domains warns: no pod is created",
	`\.downwardAPI\.fields\[0\]\.`:                       "the API server rejects the pod, and no policy reads the field",
	`\.interfaces\[0\]\.(ports|portRanges)\[0\]\.`:       "interface-port-number and interface-port-range-bounds need a binding and a feature gate, and deny it then",
	`metadata\.(generation|deletionGracePeriodSeconds)$`: "no component reads it in a template",
	`^spec\.requirements\.memory\.guest$`:                "it requires less than nothing of a VM",
}

// Every quantity and every signed integer of what a user writes is denied below zero, or there is a reason not to.
func TestSigns(t *testing.T) {
	table, err := Base()
	if err != nil {
		t.Fatal(err)
	}
	facts := configuredFacts(t, "")
	used := map[string]bool{}
	for _, kind := range []struct {
		name    string
		of      reflect.Type
		scope   Scope
		subject func(reflect.Value) *Subject
	}{
		{"a VirtualMachineInstance", reflect.TypeFor[v1.VirtualMachineInstanceSpec](), OnSpec | OnVMI, func(spec reflect.Value) *Subject {
			vmi := &v1.VirtualMachineInstance{Spec: spec.Interface().(v1.VirtualMachineInstanceSpec)}
			return &Subject{
				Facts: facts, VMI: vmi, Spec: &vmi.Spec, Meta: &vmi.ObjectMeta,
				Path: field.NewPath("spec"), MetaPath: field.NewPath("metadata"),
			}
		}},
		{"a VirtualMachine", reflect.TypeFor[v1.VirtualMachineSpec](), OnSpec | OnVM, func(spec reflect.Value) *Subject {
			vm := &v1.VirtualMachine{Spec: spec.Interface().(v1.VirtualMachineSpec)}
			if vm.Spec.Template == nil {
				vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
			}
			return &Subject{
				Facts: facts, VM: vm, Spec: &vm.Spec.Template.Spec, Meta: &vm.Spec.Template.ObjectMeta,
				Path: field.NewPath("spec", "template", "spec"), MetaPath: field.NewPath("spec", "template", "metadata"),
			}
		}},
		{"an instancetype", reflect.TypeFor[instancetypev1beta1.VirtualMachineInstancetypeSpec](), OnInstancetype, func(spec reflect.Value) *Subject {
			in := spec.Interface().(instancetypev1beta1.VirtualMachineInstancetypeSpec)
			return &Subject{Facts: facts, Instancetype: &in, Path: field.NewPath("spec")}
		}},
		{"a preference", reflect.TypeFor[instancetypev1beta1.VirtualMachinePreferenceSpec](), OnPreference, func(spec reflect.Value) *Subject {
			in := spec.Interface().(instancetypev1beta1.VirtualMachinePreferenceSpec)
			return &Subject{Facts: facts, Preference: &in, Path: field.NewPath("spec")}
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			fields := signedFields(kind.of, "spec", func(root reflect.Value) reflect.Value { return root }, nil)
			if len(fields) == 0 {
				t.Fatal("it has no signed field: the walk is wrong")
			}
			for _, f := range fields {
				root := reflect.New(kind.of).Elem()
				f.set(root)
				denied := slices.ContainsFunc(table.Check(kind.subject(root), kind.scope), func(found Finding) bool {
					return found.Severity == Deny && (found.Error.Field == f.path || found.Error.Field == dotted.Replace(f.path))
				})
				reason := reasonFor(f.path)
				switch {
				case denied && reason == "", !denied && reason != "":
					used[reason] = true
				case !denied:
					t.Errorf("%s can be -1: write a rule, or the reason why it is harmless", f.path)
				}
			}
			t.Logf("%d fields", len(fields))
		})
	}
	for _, pattern := range slices.Sorted(maps.Keys(harmless)) {
		if !used[harmless[pattern]] {
			t.Errorf("no field needs the reason of %s", pattern)
		}
	}
}

// dotted is how the rules of CPU and memory name an entry, as KubeVirt does.
var dotted = strings.NewReplacer("[cpu]", ".cpu", "[memory]", ".memory")

func reasonFor(path string) string {
	for _, pattern := range slices.Sorted(maps.Keys(harmless)) {
		if regexp.MustCompile(pattern).MatchString(path) {
			return harmless[pattern]
		}
	}
	return ""
}

func TestSignRules(t *testing.T) {
	runCases(t, signRules(), OnSpec, []ruleCase{
		{name: "memory", spec: "{domain: {memory: {guest: -1Gi, maxGuest: -2Gi, reservedOverhead: {addedOverhead: -1Mi}}}}", want: []string{
			`memory-not-negative: spec.domain.memory.guest: Invalid value: "-1Gi": must not be negative`,
			`memory-not-negative: spec.domain.memory.maxGuest: Invalid value: "-2Gi": must not be negative`,
			`memory-not-negative: spec.domain.memory.reservedOverhead.addedOverhead: Invalid value: "-1Mi": must not be negative`,
		}},
		{name: "a small negative amount", spec: "{domain: {memory: {guest: -1n}}}", want: []string{
			`memory-not-negative: spec.domain.memory.guest: Invalid value: "-1n": must not be negative`,
		}},
		{name: "no memory", spec: "{domain: {memory: {guest: 0, maxGuest: 0}}}"},
		{name: "devices", spec: "{domain: {resources: {requests: {example.com/gpu: -1, cpu: -1}, limits: {example.com/gpu: -2}}}}", want: []string{
			`scheduling-resources-not-negative: spec.domain.resources.limits[example.com/gpu]: Invalid value: "-2": must not be negative`,
			`scheduling-resources-not-negative: spec.domain.resources.requests[example.com/gpu]: Invalid value: "-1": must not be negative`,
		}},
		{name: "some resources", spec: "{domain: {resources: {requests: {example.com/gpu: 1, memory: 1Gi}}}}"},
		{name: "capacities", spec: "{domain: {}, volumes: [{name: a, emptyDisk: {capacity: -1Gi}}, {name: b, hostDisk: {path: /a, type: DiskOrCreate, capacity: -1}}, {name: c, emptyDisk: {capacity: 1Gi}}]}", want: []string{
			`volume-capacity-not-negative: spec.volumes[0].emptyDisk.capacity: Invalid value: "-1Gi": must not be negative`,
			`volume-capacity-not-negative: spec.volumes[1].hostDisk.capacity: Invalid value: "-1": must not be negative`,
		}},
		{name: "ACPI indexes", spec: "{domain: {devices: {interfaces: [{name: a, acpiIndex: 1}, {name: b, acpiIndex: -1}]}}}", want: []string{
			`interface-acpi-index-not-negative: spec.domain.devices.interfaces[1].acpiIndex: Invalid value: -1: must not be negative`,
		}},
	})
	runCases(t, signRules(), OnVM, []ruleCase{
		{name: "sizes", vm: "{spec: {dataVolumeTemplates: [{spec: {storage: {resources: {requests: {storage: -1Gi}}}}}, {spec: {pvc: {resources: {requests: {storage: 1Gi}, limits: {storage: -1}}}}}]}}", want: []string{
			`dvt-size-not-negative: spec.dataVolumeTemplates[0].spec.storage.resources.requests[storage]: Invalid value: "-1Gi": must not be negative`,
			`dvt-size-not-negative: spec.dataVolumeTemplates[1].spec.pvc.resources.limits[storage]: Invalid value: "-1": must not be negative`,
		}},
		{name: "a size", vm: "{spec: {dataVolumeTemplates: [{spec: {storage: {resources: {requests: {storage: 1Gi}}}}}]}}"},
	})
	runCases(t, signRules(), OnInstancetype, []ruleCase{
		{name: "memory of an instancetype", instancetype: "{memory: {guest: -1Gi, maxGuest: -1}}", want: []string{
			`instancetype-memory-not-negative: spec.memory.guest: Invalid value: "-1Gi": must not be negative`,
			`instancetype-memory-not-negative: spec.memory.maxGuest: Invalid value: "-1": must not be negative`,
		}},
		{name: "a good instancetype", instancetype: "{memory: {guest: 1Gi}}"},
	})
}
