package references

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cel"
)

const gatheredObjects = `
apiVersion: v1
kind: List
items:
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: blue, namespace: lab, labels: {tier: lab}, annotations: {note: a, kubectl.kubernetes.io/last-applied-configuration: "{}"}}
  spec: {config: '{"type":"bridge","vlan":100}'}
- apiVersion: k8s.cni.cncf.io/v1
  kind: NetworkAttachmentDefinition
  metadata: {name: green, namespace: infra}
  spec: {config: '{"type":"ovs"}'}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: data, namespace: lab}
  spec: {storageClassName: fast, accessModes: [ReadWriteMany], volumeMode: Block, resources: {requests: {storage: 1024Mi}}}
- apiVersion: cdi.kubevirt.io/v1beta1
  kind: DataVolume
  metadata: {name: disk, namespace: lab}
  spec: {source: {http: {url: "https://a"}}, pvc: {storageClassName: slow, accessModes: [ReadWriteOnce]}}
- apiVersion: cdi.kubevirt.io/v1beta1
  kind: DataSource
  metadata: {name: fedora, namespace: images}
  spec: {source: {snapshot: {name: a, namespace: images}}}
- apiVersion: storage.k8s.io/v1
  kind: StorageClass
  metadata: {name: fast, labels: {tier: gold}}
  provisioner: csi
  parameters: {pool: ssd}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: init, namespace: lab, labels: {app: a}}
  data: {key: hidden}
`

// pointing is a machine that points at all kinds.
func pointing() (*v1.VirtualMachineInstanceSpec, []v1.DataVolumeTemplateSpec) {
	network := func(name, of string) v1.Network {
		return v1.Network{Name: name, NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: of}}}
	}
	volume := func(name string, of v1.VolumeSource) v1.Volume { return v1.Volume{Name: name, VolumeSource: of} }
	spec := &v1.VirtualMachineInstanceSpec{
		Networks: []v1.Network{*v1.DefaultPodNetwork(), network("a", "blue"), network("b", "infra/green"), network("c", "gone")},
		Volumes: []v1.Volume{
			volume("data", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}),
			volume("root", v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}),
			volume("disk", v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "disk"}}),
			volume("init", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "init"}}}),
		},
	}
	root := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{
		SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Namespace: new("images"), Name: "fedora"},
		Storage:   &cdiv1beta1.StorageSpec{StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
	}}
	root.Name = "root"
	unnamed := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{}}}
	unnamed.Name = "other"
	return spec, []v1.DataVolumeTemplateSpec{root, unnamed}
}

func memoryOf(t *testing.T, text string) *Memory {
	t.Helper()
	list := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &list.Object); err != nil {
		t.Fatal(err)
	}
	memory, err := NewMemory("lab", list)
	if err != nil {
		t.Fatal(err)
	}
	return memory
}

func TestGather(t *testing.T) {
	spec, templates := pointing()
	got := gather(t, memoryOf(t, gatheredObjects), cel.ReferenceKinds(), "lab", spec, templates)
	none := map[string]string{}
	at := func(namespace, name, path string, found bool) cel.Reference {
		return cel.Reference{Name: name, Namespace: namespace, Path: path, Found: found, Labels: none, Annotations: none}
	}
	labelled := func(r cel.Reference, key, value string) cel.Reference {
		r.Labels = map[string]string{key: value}
		return r
	}
	blue := labelled(at("lab", "blue", "spec.networks[1].multus.networkName", true), "tier", "lab")
	blue.Annotations = map[string]string{"note": "a"}
	root := at("lab", "root", "spec.volumes[1].dataVolume.name", true)
	fast := func(path string) cel.StorageClassReference {
		return cel.StorageClassReference{Reference: labelled(at("", "fast", path, true), "tier", "gold"), Provisioner: "csi", Parameters: map[string]string{"pool": "ssd"}}
	}
	want := &cel.References{
		Unknown: map[string]error{},
		NetworkAttachmentDefinitions: []cel.NetworkReference{
			{Reference: blue, Config: `{"type":"bridge","vlan":100}`, Types: []string{"bridge"}, VLANs: []int64{100}},
			{Reference: at("infra", "green", "spec.networks[2].multus.networkName", true), Config: `{"type":"ovs"}`, Types: []string{"ovs"}, VLANs: []int64{}},
			{Reference: at("lab", "gone", "spec.networks[3].multus.networkName", false), Types: []string{}, VLANs: []int64{}},
		},
		PersistentVolumeClaims: []cel.VolumeReference{
			{Reference: at("lab", "data", "spec.volumes[0].persistentVolumeClaim.claimName", true), StorageClassName: "fast", AccessModes: []string{"ReadWriteMany"}, VolumeMode: "Block", Size: "1Gi"},
			{Reference: at("lab", "root", "spec.volumes[1].dataVolume.name", false), AccessModes: []string{}},
			{Reference: at("lab", "disk", "spec.volumes[2].dataVolume.name", false), AccessModes: []string{}},
		},
		DataVolumes: []cel.VolumeReference{
			{Reference: root, StorageClassName: "fast", AccessModes: []string{"ReadWriteMany"}, Source: "DataSource"},
			{Reference: at("lab", "disk", "spec.volumes[2].dataVolume.name", true), StorageClassName: "slow", AccessModes: []string{"ReadWriteOnce"}, Source: "http"},
		},
		DataSources: []cel.SourceReference{{Reference: at("images", "fedora", "spec.dataVolumeTemplates[0].spec.sourceRef", true), Source: "snapshot"}},
		StorageClasses: []cel.StorageClassReference{
			fast("spec.dataVolumeTemplates[0].spec.storage.storageClassName"),
			{Reference: at("", "", "spec.dataVolumeTemplates[1].spec.storage.storageClassName", false), ClusterDefault: true, Parameters: none},
			fast("spec.volumes[0].persistentVolumeClaim.claimName"),
			{Reference: at("", "slow", "spec.volumes[2].dataVolume.name", false), Parameters: none},
		},
		ConfigMaps: []cel.Reference{labelled(at("lab", "init", "spec.volumes[3].configMap.name", true), "app", "a")},
	}
	if diff := cmp.Diff(want, got.References); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

// lists are what was gathered, and the fields that point at objects which are not in the files.
type lists struct {
	*cel.References

	notGiven []string
}

// gather reads some lists, with time for all of them.
func gather(t *testing.T, objects Objects, kinds []string, namespace string, spec *v1.VirtualMachineInstanceSpec, templates []v1.DataVolumeTemplateSpec) lists {
	t.Helper()
	g := NewGathering(objects, namespace, spec, templates)
	return lists{g.Gather(t.Context(), kinds, time.Minute), g.NotGiven}
}

// Each field that names a claim points at it.
func TestGatherClaims(t *testing.T) {
	named := corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
	spec := &v1.VirtualMachineInstanceSpec{
		Volumes: []v1.Volume{
			{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: named}}},
			{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "data"}}},
			{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{PersistentVolumeClaim: &named}}},
			{VolumeSource: v1.VolumeSource{MemoryDump: &v1.MemoryDumpVolumeSource{PersistentVolumeClaimVolumeSource: v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: named}}}},
			{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}},
		},
		UtilityVolumes: []v1.UtilityVolume{{PersistentVolumeClaimVolumeSource: named}},
	}
	objects := &counting{Objects: memoryOf(t, gatheredObjects)}
	got := gather(t, objects, []string{listClaims, listStorageClasses}, "lab", spec, nil)
	want := []string{
		"spec.volumes[0].persistentVolumeClaim.claimName", "spec.volumes[1].dataVolume.name", "spec.volumes[2].ephemeral.persistentVolumeClaim.claimName",
		"spec.volumes[3].memoryDump.claimName", "spec.utilityVolumes[0].claimName",
	}
	var claims, classes []string
	for _, c := range got.PersistentVolumeClaims {
		claims = append(claims, c.Path)
		if !c.Found || c.Name != "data" {
			t.Errorf("%s: found %v, name %q", c.Path, c.Found, c.Name)
		}
	}
	for _, c := range got.StorageClasses {
		classes = append(classes, c.Path)
	}
	if diff := cmp.Diff([][]string{want, want}, [][]string{claims, classes}); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if objects.reads != 2 {
		t.Errorf("%d reads of one claim and one class, not 2", objects.reads)
	}
}

// No object can have these names, so it is known that there is none, also without a cluster.
func TestGatherImpossibleNames(t *testing.T) {
	spec := &v1.VirtualMachineInstanceSpec{}
	for _, name := range []string{"/blue", "blue/", "a/b/c", "Blue", "../blue", strings.Repeat("a", 300)} {
		spec.Networks = append(spec.Networks, v1.Network{NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
	}
	got := gather(t, Given{memoryOf(t, gatheredObjects)}, []string{listNetworks}, "lab", spec, nil)
	if err := got.Of([]string{listNetworks}); err != nil || len(got.NetworkAttachmentDefinitions) != len(spec.Networks) {
		t.Fatalf("%d networks, %v", len(got.NetworkAttachmentDefinitions), err)
	}
	for _, n := range got.NetworkAttachmentDefinitions {
		if n.Found {
			t.Errorf("%s is found", n.Path)
		}
	}
}

// The class of a volume that does not exist is not known: it is not the default of the cluster.
func TestGatherClassesOfMissingVolumes(t *testing.T) {
	spec := &v1.VirtualMachineInstanceSpec{Volumes: []v1.Volume{
		{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "gone"}}},
		{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "unnamed"}}},
	}}
	const unnamed = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: unnamed, namespace: lab}, spec: {accessModes: [ReadWriteOnce]}}"
	got := gather(t, memoryOf(t, unnamed), []string{listStorageClasses}, "lab", spec, nil)
	var isDefault []bool
	for _, c := range got.StorageClasses {
		isDefault = append(isDefault, c.ClusterDefault)
		if c.Found || c.Name != "" {
			t.Errorf("%s: found %v, name %q", c.Path, c.Found, c.Name)
		}
	}
	if diff := cmp.Diff([]bool{false, true}, isDefault); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// counting counts reads, and fails those of some kinds.
type counting struct {
	Objects

	reads  int
	failed map[string]error
}

func (c *counting) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.reads++
	if err := c.failed[kind.Kind]; err != nil {
		return nil, err
	}
	return c.Objects.Get(ctx, kind, namespace, name)
}

// Only the kinds that policies read are gathered, and what cannot be read makes its kind unknown, and no other.
func TestGatherUnknown(t *testing.T) {
	spec, templates := pointing()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data", errors.New("no"))
	objects := &counting{Objects: memoryOf(t, gatheredObjects), failed: map[string]error{"PersistentVolumeClaim": forbidden, "DataSource": ErrNotGiven}}
	got := gather(t, objects, []string{listClaims, listDataSources, listConfigMaps}, "lab", spec, templates)
	if objects.reads != 3 {
		t.Errorf("%d reads, not 3", objects.reads)
	}
	for list, want := range map[string]string{
		listConfigMaps:  "",
		listClaims:      "references.persistentVolumeClaims: unknown: spec.volumes[0].persistentVolumeClaim.claimName: the object cannot be read now",
		listDataSources: "references.dataSources: unknown: not in the files: spec.dataVolumeTemplates[0].spec.sourceRef",
		listNetworks:    "references.networkAttachmentDefinitions: unknown: no policy reads them",
	} {
		err := got.Of([]string{list})
		if err != nil {
			if err.Error() != want {
				t.Errorf("%s: %q, not %q", list, err, want)
			}
		} else if want != "" {
			t.Errorf("%s is known", list)
		}
	}
	if !errors.Is(got.Of([]string{listDataSources}), cel.ErrReferenceNotGiven) || errors.Is(got.Of([]string{listClaims}), cel.ErrReferenceNotGiven) {
		t.Error("only the DataSource is not in the files")
	}
	if diff := cmp.Diff([]string{"spec.dataVolumeTemplates[0].spec.sourceRef"}, got.notGiven); diff != "" {
		t.Errorf("not given (-want +got):\n%s", diff)
	}
}

// A VM can point at very many objects, and each can be large.
func TestGatherBounds(t *testing.T) {
	many := &v1.VirtualMachineInstanceSpec{}
	for i := range 200 {
		many.Volumes = append(many.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("c-%d", i)}}}})
	}
	network := func(size int) string {
		return `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: blue, namespace: lab}
spec: {config: '{"type":"` + strings.Repeat("a", size) + `"}'}`
	}
	networks := func(number int) *v1.VirtualMachineInstanceSpec {
		spec := &v1.VirtualMachineInstanceSpec{}
		for range number {
			spec.Networks = append(spec.Networks, v1.Network{NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "blue"}}})
		}
		return spec
	}
	template := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{Storage: &cdiv1beta1.StorageSpec{}}}
	template.Name = "root"
	described := *template.DeepCopy()
	described.Annotations = map[string]string{"a": strings.Repeat("a", maxMetadata)}
	volumes := &v1.VirtualMachineInstanceSpec{}
	for range 2000 {
		volumes.Volumes = append(volumes.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}})
	}
	for name, c := range map[string]struct {
		spec      *v1.VirtualMachineInstanceSpec
		objects   string
		list      string
		want      string
		templates []v1.DataVolumeTemplateSpec
	}{
		"many volumes of one template": {volumes, "{apiVersion: v1, kind: List, items: []}", listDataVolumes, "the list is larger than 98304 bytes", []v1.DataVolumeTemplateSpec{template}},
		"a template with large metadata": {
			volumes, "{apiVersion: v1, kind: List, items: []}", listDataVolumes, "labels and annotations of the object are larger than 8192 bytes", []v1.DataVolumeTemplateSpec{described},
		},
		"many objects": {many, "{apiVersion: v1, kind: List, items: []}", listConfigMaps, "the virtual machine points at more than 64 objects for this list", nil},
		"large metadata": {
			many, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c-0, namespace: lab, annotations: {a: "` + strings.Repeat("a", maxMetadata) + `"}}}`, listConfigMaps,
			"labels and annotations of the object are larger than 8192 bytes", nil,
		},
		"a large configuration": {networks(1), network(maxConfig), listNetworks, "the configuration of the network is larger than 16384 bytes", nil},
		"large configurations":  {networks(20), network(maxConfig - 100), listNetworks, "the list is larger than 98304 bytes", nil},
		"no configuration":      {networks(1), strings.Replace(network(1), `{"type`, `{"vlan":"a","type`, 1), listNetworks, "the configuration of the network cannot be read: a VLAN is not a number from 0 to 4094", nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := &counting{Objects: memoryOf(t, c.objects)}
			err := gather(t, objects, []string{c.list}, "lab", c.spec, c.templates).Of([]string{c.list})
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("the error is %v, not %s", err, c.want)
			}
			if objects.reads > MaxGathered {
				t.Errorf("%d reads", objects.reads)
			}
		})
	}
}

// fullSpec points at 64 objects of each kind that it names.
func fullSpec(number int) (*v1.VirtualMachineInstanceSpec, []v1.DataVolumeTemplateSpec) {
	spec, templates := &v1.VirtualMachineInstanceSpec{}, []v1.DataVolumeTemplateSpec(nil)
	for i := range number {
		name := fmt.Sprintf("o-%d", i)
		spec.Networks = append(spec.Networks, v1.Network{NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: name}}})
		spec.Volumes = append(spec.Volumes, v1.Volume{VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: name}}},
			v1.Volume{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}})
		template := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: name}, Storage: &cdiv1beta1.StorageSpec{}}}
		template.Name = "t-" + name
		templates = append(templates, template)
	}
	return spec, templates
}

// What is known of a list does not depend on the other lists that are read, and on their order.
func TestGatherIndependentLists(t *testing.T) {
	spec, templates := fullSpec(MaxGathered)
	broken, _ := fullSpec(MaxGathered + 1)
	spec.Networks = broken.Networks
	pointed, more := pointing()
	for name, c := range map[string]struct {
		spec      *v1.VirtualMachineInstanceSpec
		templates []v1.DataVolumeTemplateSpec
	}{"a full machine with too many networks": {spec, templates}, "all kinds": {pointed, more}} {
		memory := memoryOf(t, gatheredObjects)
		together := gather(t, memory, cel.ReferenceKinds(), "lab", c.spec, c.templates)
		for _, list := range cel.ReferenceKinds() {
			t.Run(name+"/"+list, func(t *testing.T) {
				first := gather(t, memory, []string{list}, "lab", c.spec, c.templates)
				steps := NewGathering(memory, "lab", c.spec, c.templates)
				others := slices.DeleteFunc(slices.Clone(cel.ReferenceKinds()), func(k string) bool { return k == list })
				before := steps.Gather(t.Context(), others, time.Minute)
				after := steps.Gather(t.Context(), []string{list}, time.Minute)
				if err := before.Of([]string{list}); err == nil || !strings.HasSuffix(err.Error(), "no policy reads them") {
					t.Errorf("the references of before have the list: %v", err)
				}
				for what, got := range map[string]*cel.References{"first": first.References, "last": after} {
					if diff := cmp.Diff(elementsOf(together.References, list), elementsOf(got, list)); diff != "" {
						t.Errorf("%s (-together +%s):\n%s", what, what, diff)
					}
				}
			})
		}
	}
}

// elementsOf returns what an expression sees of a list.
func elementsOf(r *cel.References, list string) any {
	if err := r.Of([]string{list}); err != nil {
		return err.Error()
	}
	return map[string]any{
		listNetworks: r.NetworkAttachmentDefinitions, listClaims: r.PersistentVolumeClaims, listDataVolumes: r.DataVolumes,
		listDataSources: r.DataSources, listStorageClasses: r.StorageClasses, listConfigMaps: r.ConfigMaps,
	}[list]
}

// stuck are objects of which those of one kind are never answered.
type stuck struct {
	Objects

	kind  string
	reads map[string]int
}

func (s *stuck) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	s.reads[kind.Kind]++
	if kind.Kind == s.kind {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Objects.Get(ctx, kind, namespace, name)
}

// Reads that are never answered take the part of their own list, and the time of all together is bounded.
func TestGatherTime(t *testing.T) {
	for kind, list := range map[string]string{
		"NetworkAttachmentDefinition": listNetworks, "PersistentVolumeClaim": listClaims, "DataVolume": listDataVolumes, "DataSource": listDataSources,
		"StorageClass": listStorageClasses, "ConfigMap": listConfigMaps,
	} {
		t.Run(list, func(t *testing.T) {
			memory := memoryOf(t, gatheredObjects)
			spec, templates := pointing()
			synctest.Test(t, func(t *testing.T) {
				objects := &stuck{Objects: memory, kind: kind, reads: map[string]int{}}
				began := time.Now()
				got := NewGathering(objects, "lab", spec, templates).Gather(t.Context(), cel.ReferenceKinds(), GatherTimeout)
				if took := time.Since(began); took > GatherTimeout {
					t.Errorf("it took %v", took)
				}
				for _, other := range cel.ReferenceKinds() {
					needed := other == list || other == listStorageClasses && (list == listClaims || list == listDataVolumes)
					if err := got.Of([]string{other}); (err != nil) != needed {
						t.Errorf("%s: %v", other, err)
					}
				}
			})
		})
	}
}

// An object is read once for all lists, also if they are read later.
func TestGatherMore(t *testing.T) {
	spec, templates := pointing()
	objects := &counting{Objects: memoryOf(t, gatheredObjects)}
	g := NewGathering(objects, "lab", spec, templates)
	g.Gather(t.Context(), []string{listClaims, listDataVolumes}, time.Minute)
	before := objects.reads
	got := g.Gather(t.Context(), []string{listStorageClasses, listClaims}, time.Minute)
	if more := objects.reads - before; more != 2 {
		t.Errorf("%d reads of two StorageClasses", more)
	}
	if err := got.Of([]string{listClaims, listDataVolumes, listStorageClasses}); err != nil || len(got.PersistentVolumeClaims) != 3 {
		t.Errorf("%d claims, %v", len(got.PersistentVolumeClaims), err)
	}
}
