package controlplane

import (
	"errors"
	"slices"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/schemas"
)

// outOfRange are changes to a number that its type can hold and its format cannot.
var outOfRange = []string{
	"add /spec/template/spec/domain/cpu/cores 4294967296",
	"add /spec/template/spec/domain/cpu/cores 2147483648",
}

// bases are valid objects, which the cases change.
var bases = map[apikinds.Resource]string{
	apikinds.VirtualMachines: `
metadata: {name: corpus, namespace: default, labels: {app: corpus}}
spec:
  runStrategy: Halted
  dataVolumeTemplates:
  - metadata: {name: data}
    spec: {storage: {resources: {requests: {storage: 1Gi}}}, source: {blank: {}}}
  template:
    metadata: {labels: {app: corpus}}
    spec:
      domain:
        cpu: {cores: 2}
        memory: {guest: 1Gi}
        devices:
          disks: [{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: virtio}}]
          interfaces: [{name: default, masquerade: {}}]
      networks: [{name: default, pod: {}}]
      nodeSelector: {zone: a}
      tolerations: [{key: a, operator: Exists}]
      volumes: [{name: root, containerDisk: {image: registry.example/fedora}}, {name: data, dataVolume: {name: data}}]
`,
	apikinds.VirtualMachineInstances: `
metadata: {name: corpus, namespace: default}
spec: {domain: {memory: {guest: 1Gi}, devices: {}}}
`,
	apikinds.ReplicaSets: `
metadata: {name: corpus, namespace: default}
spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {domain: {devices: {}}}}}
`,
	apikinds.Instancetypes: `
metadata: {name: corpus, namespace: default}
spec: {cpu: {guest: 1}, memory: {guest: 1Gi}}
`,
	apikinds.ClusterPreferences: `
metadata: {name: corpus}
spec: {devices: {preferredDiskBus: virtio}}
`,
}

// change is a change of an object: an operation of JSON Patch, a path and a value.
type change struct {
	of     apikinds.Resource
	change string
}

// corpus has valid and invalid changes. Which are valid is not written here: the API server decides.
func corpus() []change {
	changes := map[apikinds.Resource][]string{
		apikinds.VirtualMachines: {
			"add /metadata/annotations {}",
			"add /extra 1",
			"add /spec/runing true",
			"add /spec/domain {}",
			"add /spec/template/spec/running true",
			"add /spec/template/spec/domain/cpu/coers 2",
			"add /spec/template/spec/domain/cpu/cores 1.5",
			`add /spec/template/spec/domain/cpu/cores "2"`,
			"add /spec/template/spec/domain/cpu/cores -1",
			outOfRange[0],
			outOfRange[1],
			"add /spec/template/spec/domain/cpu null",
			"add /spec/template/spec/domain/memory/guest 1073741824",
			`add /spec/template/spec/domain/memory/guest "lots"`,
			"add /spec/template/spec/domain/memory/guest true",
			`add /spec/template/spec/domain/memory/hugepages {"pageSize":2}`,
			`add /spec/template/spec/domain/resources {"requests":{"cpu":1,"memory":"1Gi"}}`,
			`add /spec/template/spec/domain/resources {"requests":{"cpu":"1 GB"}}`,
			`add /spec/template/spec/domain/resources {"request":{"cpu":"1"}}`,
			"remove /spec/template/spec/domain/devices",
			"remove /spec/template/spec/domain",
			"remove /spec/template",
			"add /spec/template {}",
			"add /spec []",
			"add /spec/template/spec/domain/devices/disks {}",
			"add /spec/template/spec/domain/devices/disks []",
			"remove /spec/template/spec/domain/devices/disks/0/name",
			"add /spec/template/spec/domain/devices/disks/0/bus \"sata\"",
			"add /spec/template/spec/domain/devices/disks/0/bootOrder 0",
			"add /spec/template/spec/domain/devices/disks/0/disk/bus 3",
			`add /spec/template/spec/domain/devices/autoattachPodInterface "false"`,
			"remove /spec/template/spec/domain/devices/interfaces/0/name",
			`add /spec/template/spec/domain/devices/interfaces/0/ports [{"name":"a"}]`,
			`add /spec/template/spec/domain/devices/interfaces/0/ports [{"port":80.5}]`,
			`add /spec/template/spec/domain/devices/watchdog {"i6300esb":{}}`,
			`add /spec/template/spec/domain/devices/gpus [{"deviceName":"a/b"}]`,
			`add /spec/template/spec/domain/firmware {"bootloader":{"efi":{"secureboot":true}}}`,
			`add /spec/template/spec/domain/clock {"timezone":"UTC"}`,
			"add /spec/template/spec/hostname 12",
			`add /spec/template/spec/terminationGracePeriodSeconds "30"`,
			`add /spec/template/spec/nodeSelector ["a"]`,
			`add /spec/template/spec/nodeSelector {"a":1}`,
			`add /spec/template/spec/nodeSelector {"a.b/c":"d"}`,
			`add /spec/template/spec/tolerations [{"operator":"Never"}]`,
			`add /spec/template/spec/tolerations [{"tolerationSeconds":"1"}]`,
			`add /spec/template/spec/affinity {"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}`,
			`add /spec/template/spec/topologySpreadConstraints [{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"},{"maxSkew":1,"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}]`,
			`add /spec/template/spec/readinessProbe {"httpGet":{"port":"web"}}`,
			`add /spec/template/spec/readinessProbe {"httpGet":{}}`,
			"add /spec/template/spec/volumes null",
			`add /spec/template/spec/volumes/- {"containerDisk":{"image":"a"}}`,
			`add /spec/template/spec/volumes/- {"name":"h","emptyDisk":{}}`,
			`add /spec/template/spec/volumes/- {"name":"h","hostDisk":{"type":"Disk"}}`,
			`add /spec/template/spec/volumes/- {"name":"h","containerPath":{"path":"etc"}}`,
			`add /spec/template/spec/volumes/- {"name":"h","containerPath":{"path":"/etc","readOnly":true}}`,
			`add /spec/template/spec/volumes/- {"name":"h","cloudInitNoCloud":{"userdata":"x"}}`,
			`add /spec/template/spec/volumes/- {"name":"root","emptyDisk":{"capacity":"1Gi"}}`,
			`add /spec/template/spec/networks [{"name":"a","multus":{}}]`,
			`add /spec/template/metadata {"lables":{"a":"b"}}`,
			`add /spec/template/metadata {"labels":{"a":1}}`,
			"add /spec/template/metadata null",
			`add /spec/dataVolumeTemplates [{"metadata":{"name":"a"}}]`,
			`add /spec/dataVolumeTemplates/0/spec/storage/accessMode "ReadWriteOnce"`,
			`add /spec/dataVolumeTemplates/0/spec/source {"blank":{},"http":{}}`,
			`add /spec/instancetype {"name":"a","kind":"b","revision":"c"}`,
			`add /spec/runStrategy "Sometimes"`,
			`add /spec/runStrategy 1`,
			`add /metadata/name "My_VM"`,
			`add /metadata/labels {"a b":"c"}`,
			`add /metadata/labels {"a":"b c"}`,
			`add /metadata/labels {"a":1}`,
			`add /metadata/annotations {"a b":"c"}`,
			`add /metadata/lables {"a":"b"}`,
			`add /metadata/finalizers ["a b"]`,
			`add /metadata/ownerReferences [{"name":"a"}]`,
			`add /status {"printableStatus":3}`,
			`add /status {"unknown":3}`,
		},
		apikinds.VirtualMachineInstances: {
			`add /status {"phase":"Running"}`,
			`add /status {"phase":3}`,
			"remove /spec/domain/devices",
			"remove /spec",
		},
		apikinds.ReplicaSets: {
			"add /spec/replicas -1",
			"add /spec/replicas 3",
			"remove /spec/selector",
			"add /spec/template/spec/domain/cpuu {}",
		},
		apikinds.Instancetypes: {
			"remove /spec/cpu/guest",
			"remove /spec/memory",
			"add /spec/memory/overcommitPercent 150",
			"add /spec/memory/overcommitPercent 50",
			"add /spec/cpu/cores 1",
		},
		apikinds.ClusterPreferences: {
			"add /metadata/namespace \"default\"",
			"add /spec/devices/preferredDiskBuss \"sata\"",
			"add /spec/devices/preferredDiskBus 1",
		},
	}
	var all []change
	for kind := range bases {
		all = append(all, change{of: kind, change: ""})
		for _, text := range changes[kind] {
			all = append(all, change{of: kind, change: text})
		}
	}
	slices.SortFunc(all, func(a, b change) int { return strings.Compare(a.of.Kind+a.change, b.of.Kind+b.change) })
	return all
}

// object returns the changed object.
func (c change) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte("apiVersion: " + c.of.GroupVersion().String() + "\nkind: " + c.of.Kind + bases[c.of]))
	if err != nil {
		t.Fatal(err)
	}
	if c.change != "" {
		operation, rest, _ := strings.Cut(c.change, " ")
		path, value, _ := strings.Cut(rest, " ")
		if value == "" {
			value = "null"
		}
		patch, err := jsonpatch.DecodePatch([]byte(`[{"op":"` + operation + `","path":"` + path + `","value":` + value + `}]`))
		if err != nil {
			t.Fatalf("%s: %v", c.change, err)
		}
		if data, err = patch.Apply(data); err != nil {
			t.Fatalf("%s: %v", c.change, err)
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

// offline returns the fields of the errors of package schemas.
func (c change) offline(t *testing.T, embedded *schemas.Embedded, object *unstructured.Unstructured) (fields []string) {
	t.Helper()
	schema, err := embedded.For(c.of.GroupVersionKind)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range schema.Unknown(object.Object) {
		fields = append(fields, u.Path)
	}
	errs, err := schema.Validate(t.Context(), object.Object, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range append(schema.ValidateMetadata(object.Object, "default"), errs...) {
		fields = append(fields, err.Field)
	}
	return fields
}

// testSchemas compares the offline validation with that of the API server, in both directions.
func testSchemas(t *testing.T, c *ControlPlane) {
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	embedded := schemas.Of(schemas.Newest())
	discovered, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	server, err := discovered.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	accepted, rejected := 0, 0
	for _, change := range corpus() {
		if server.Minor == "32" && slices.Contains(outOfRange, change.change) {
			continue // this version does not verify that a number is in the range of its format
		}
		object := change.object(t)
		var resource dynamic.ResourceInterface = objects.Resource(change.of.GroupVersionResource())
		if change.of != apikinds.ClusterPreferences {
			resource = objects.Resource(change.of.GroupVersionResource()).Namespace("default")
		}
		_, err := resource.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			t.Fatalf("%s %q: %v", change.of.Kind, change.change, err)
		}
		fields := change.offline(t, embedded, object)
		if (err != nil) != (len(fields) > 0) {
			t.Errorf("%s %q: offline %q, the API server: %v", change.of.Kind, change.change, fields, err)
		}
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Details != nil && apierrors.IsInvalid(err) {
			for _, cause := range status.Status().Details.Causes {
				if cause.Field != "<nil>" && !slices.ContainsFunc(fields, func(name string) bool { return sameField(name, cause.Field) }) {
					t.Errorf("%s %q: offline %q lacks %s: %s", change.of.Kind, change.change, fields, cause.Field, cause.Message)
				}
			}
		}
		if err != nil {
			rejected++
		} else {
			accepted++
		}
	}
	t.Logf("%d accepted, %d rejected", accepted, rejected)
	if accepted < 20 || rejected < 40 {
		t.Errorf("the API server accepts %d and rejects %d: too few", accepted, rejected)
	}
}

// sameField compares fields without indexes: versions of the API server differ in those of owner references.
func sameField(offline, server string) bool {
	return fieldpath.Fields(offline) == fieldpath.Fields(strings.TrimPrefix(server, "."))
}
