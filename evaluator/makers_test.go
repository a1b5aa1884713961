package evaluator

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	backupv1alpha1 "kubevirt.io/api/backup/v1alpha1"
	clonev1beta1 "kubevirt.io/api/clone/v1beta1"
	v1 "kubevirt.io/api/core/v1"
	exportv1beta1 "kubevirt.io/api/export/v1beta1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	migrationsv1alpha1 "kubevirt.io/api/migrations/v1alpha1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/crds"
)

// notMakers are the other kinds of KubeVirt and of Virtward, with what they do instead.
var notMakers = map[string]string{
	"KubeVirt.kubevirt.io":                                       "configures the cluster; only admins write it",
	"VirtualMachineInstance.kubevirt.io":                         "runs; it is evaluated itself",
	"VirtualMachineInstancePreset.kubevirt.io":                   "changes instances, which are evaluated with it",
	"VirtualMachineInstancetype.instancetype.kubevirt.io":        "is a part of VMs, which are evaluated with it",
	"VirtualMachineClusterInstancetype.instancetype.kubevirt.io": "is a part of VMs, which are evaluated with it",
	"VirtualMachinePreference.instancetype.kubevirt.io":          "is a part of VMs, which are evaluated with it",
	"VirtualMachineClusterPreference.instancetype.kubevirt.io":   "is a part of VMs, which are evaluated with it",
	"VirtualMachineSnapshot.snapshot.kubevirt.io":                "copies a VM into a content; a restore or a clone makes a VM of it",
	"VirtualMachineSnapshotContent.snapshot.kubevirt.io":         "is the template of restores and clones; only KubeVirt writes its spec",
	"VirtualMachineExport.export.kubevirt.io":                    "sends disks and a manifest to a client, which sends a VM with its own request",
	"MigrationPolicy.migrations.kubevirt.io":                     "configures migrations",
	"VirtualMachineBackup.backup.kubevirt.io":                    "copies disks to a claim",
	"VirtualMachineBackupTracker.backup.kubevirt.io":             "remembers what was backed up",
	"Plugin.plugin.kubevirt.io":                                  "changes how instances run; only admins write it",
	"VirtualMachineTemplateRequest.template.kubevirt.io":         "makes a template of a VM",
	"VirtualMachineTemplateExport.template.kubevirt.io":          "serves a template",
	"VirtualMachineTemplateImport.template.kubevirt.io":          "makes a template of an appliance",
	"GoldenImageCatalog.image.virtward.io":                       "makes images",
	"VirtualImage.kupenstack.io":                                 "makes an image",
	"RuleSettings.policy.virtward.io":                            "configures rules",
	"VirtualMachineDefaults.policy.virtward.io":                  "fills fields of VMs, which are evaluated with it",
	"VirtualMachinePolicy.policy.virtward.io":                    "is evaluated on VMs",
	"VirtualMachinePolicyException.policy.virtward.io":           "exempts VMs from policies",
	"CDI.cdi.kubevirt.io":                                        "installs CDI",
	"CDIConfig.cdi.kubevirt.io":                                  "configures CDI",
	"DataImportCron.cdi.kubevirt.io":                             "makes disks",
	"DataSource.cdi.kubevirt.io":                                 "names a disk",
	"DataVolume.cdi.kubevirt.io":                                 "makes a disk",
	"StorageProfile.cdi.kubevirt.io":                             "configures disks",
	"VolumeCloneSource.cdi.kubevirt.io":                          "makes a disk",
	"VolumeImportSource.cdi.kubevirt.io":                         "makes a disk",
	"VolumeUploadSource.cdi.kubevirt.io":                         "makes a disk",
}

// allKinds returns the kinds of KubeVirt, CDI and Virtward, with their Go types as far as they are known.
func allKinds(t *testing.T) map[string]reflect.Type {
	t.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		v1.AddToScheme, poolv1beta1.AddToScheme, clonev1beta1.AddToScheme, snapshotv1beta1.AddToScheme, exportv1beta1.AddToScheme,
		instancetypev1beta1.AddToScheme, migrationsv1alpha1.AddToScheme, backupv1alpha1.AddToScheme, pluginv1alpha1.AddToScheme,
	)
	if err := builder.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]reflect.Type{}
	for gvk, typ := range scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Group, "kubevirt.io") && !strings.HasSuffix(gvk.Kind, "List") && gvk.Version != runtime.APIVersionInternal && reflect.PointerTo(typ).Implements(reflect.TypeFor[metav1.Object]()) {
			kinds[gvk.GroupKind().String()] = typ
		}
	}
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"definitions", "template-definitions"} {
		files, err := filepath.Glob(filepath.Join("..", "charts", "virtward", folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			definition := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(content, definition); err != nil {
				t.Fatal(err)
			}
			definitions = append(definitions, definition)
		}
	}
	for _, definition := range definitions {
		kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}.String()
		if _, known := kinds[kind]; !known {
			kinds[kind] = nil
		}
	}
	return kinds
}

// contains reports whether a type has a field of one of the types, at any depth.
func contains(typ reflect.Type, wanted map[reflect.Type]bool, seen map[reflect.Type]bool) bool {
	if wanted[typ] {
		return true
	}
	if seen[typ] {
		return false
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return contains(typ.Elem(), wanted, seen)
	case reflect.Struct:
		for i := range typ.NumField() {
			if contains(typ.Field(i).Type, wanted, seen) {
				return true
			}
		}
	}
	return false
}

// TestEveryMakerHasAnEntry: each kind is a maker, or is listed with what it does. A kind that has a virtual machine in it is a
// maker, an instance, or the content of a snapshot.
func TestEveryMakerHasAnEntry(t *testing.T) {
	kinds, entries := allKinds(t), map[string]bool{}
	for _, maker := range Makers() {
		kind := maker.GroupKind.String()
		entries[kind] = true
		if _, known := kinds[kind]; !known || notMakers[kind] != "" {
			t.Errorf("%s is no kind, or is listed as one that makes nothing", kind)
		}
		if maker.Template == "" || maker.Makes != VirtualMachine && maker.Makes != VirtualMachineInstance {
			t.Errorf("%s: %+v", kind, maker)
		}
		if named := maker.Author == Recorded || maker.Author == Carried; named != (maker.Annotation != "") || !slices.Contains([]Authorship{Sender, Recorded, Carried, OfVM}, maker.Author) {
			t.Errorf("%s: the author is %q, in the annotation %q", kind, maker.Author, maker.Annotation)
		}
	}
	templates := map[reflect.Type]bool{reflect.TypeFor[v1.VirtualMachineSpec](): true, reflect.TypeFor[v1.VirtualMachineInstanceSpec](): true}
	for kind, typ := range kinds {
		if !entries[kind] && notMakers[kind] == "" {
			t.Errorf("%s has no entry in the table of makers: does a virtual machine result from it, and who is its author?", kind)
		}
		if typ == nil || entries[kind] || kind == VirtualMachineInstance.String() || kind == "VirtualMachineSnapshotContent.snapshot.kubevirt.io" {
			continue
		}
		if contains(typ, templates, map[reflect.Type]bool{}) {
			t.Errorf("%s has a virtual machine in it, and no entry in the table of makers", kind)
		}
	}
	for kind := range notMakers {
		if _, known := kinds[kind]; !known {
			t.Errorf("%s does not exist", kind)
		}
	}
}

// TestSetsAreNotInstances: policies can distinguish the author of a replica set from a user who creates an instance, and see the
// instance as KubeVirt creates it.
func TestSetsAreNotInstances(t *testing.T) {
	f := newFixture(t)
	f.policy(t, "owned", `{enforcement: Deny, match: {kinds: [VirtualMachineInstance]}, validations: [
		{expression: "request.kind.kind == 'VirtualMachineInstanceReplicaSet' && request.resource.resource == 'virtualmachineinstancereplicasets'", message: not an instance},
		{expression: "object.kind == 'VirtualMachineInstance' && !has(object.metadata.name) && object.metadata.generateName == 'many'", message: named},
		{expression: "object.metadata.ownerReferences.all(o, o.controller && o.kind == 'VirtualMachineInstanceReplicaSet' && o.name == 'many' && o.uid == '7' && o.apiVersion == 'kubevirt.io/v1')", message: owned}]}`)
	set := &v1.VirtualMachineInstanceReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "many", UID: "7"}, Spec: v1.VirtualMachineInstanceReplicaSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: build.VMI("x").Label("a", "b").Obj().ObjectMeta, Spec: build.VMI("x").Obj().Spec},
	}}
	set.Spec.Template.ObjectMeta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Name: "forged"}}
	if result := f.evaluate(t, of(t, ReplicaSet, set, at(Admitted), by(admissionv1.Create))); !result.Allowed() {
		t.Errorf("findings %v", rules(result))
	}
	if result := f.evaluate(t, of(t, VirtualMachineInstance, build.VMI("x").Obj(), by(admissionv1.Create))); len(rules(result)) == 0 {
		t.Error("an instance is taken for one of a replica set")
	}
}

// TestMakersOfSenders: a kind whose author is the sender has a template where the table says, and is evaluated for its author.
func TestMakersOfSenders(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	set := func(memory string) *v1.VirtualMachineInstanceReplicaSet {
		vmi := build.VMI("x").Memory(memory).Label("a", "b").Obj()
		return &v1.VirtualMachineInstanceReplicaSet{Spec: v1.VirtualMachineInstanceReplicaSetSpec{
			Selector: selector, Template: &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: vmi.ObjectMeta, Spec: vmi.Spec},
		}}
	}
	pool := func(memory string) *poolv1beta1.VirtualMachinePool {
		p := &poolv1beta1.VirtualMachinePool{Spec: poolv1beta1.VirtualMachinePoolSpec{
			Selector: selector, VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{Spec: build.VMOf(build.VMI("x").Memory(memory).Label("a", "b")).Obj().Spec},
		}}
		p.Spec.VirtualMachineTemplate.ObjectMeta.Labels = selector.MatchLabels
		return p
	}
	objects := map[schema.GroupKind]func(memory string) any{
		ReplicaSet: func(memory string) any { return set(memory) },
		Pool:       func(memory string) any { return pool(memory) },
	}
	const onlyJane = `{enforcement: Deny, match: {kinds: [KINDS]}, validations: [{expression: "requester == 'jane' || quantity(vm.spec.domain.memory.guest).compareTo(quantity('1Gi')) <= 0", message: only jane, fieldPath: spec.domain.memory.guest}]}`
	user := func(name string) func(*Request) { return func(r *Request) { r.User.Username = name } }
	from := func(object any) func(*Request) {
		return func(r *Request) { r.Operation, r.OldObject = admissionv1.Update, encoded(t, object) }
	}
	for _, maker := range Makers() {
		if maker.Author != Sender {
			continue
		}
		object := objects[maker.GroupKind]
		if object == nil {
			t.Errorf("%s has no case", maker.GroupKind)
			continue
		}
		t.Run(maker.Kind, func(t *testing.T) {
			inner := ".spec.domain.memory.guest"
			if maker.Makes == VirtualMachine {
				inner = ".spec.template.spec.domain.memory.guest"
			}
			denied := []string{"Deny policy/only " + maker.Template + inner}
			for name, tc := range map[string]struct {
				kinds   string
				request Request
				want    []string
			}{
				"another user":             {maker.Makes.Kind, of(t, maker.GroupKind, object("2Gi"), at(Admitted), by(admissionv1.Create), user("mallory")), denied},
				"a user with the right":    {maker.Makes.Kind, of(t, maker.GroupKind, object("2Gi"), at(Admitted), by(admissionv1.Create), user("jane")), nil},
				"a small one":              {maker.Makes.Kind, of(t, maker.GroupKind, object("1Gi"), at(Admitted), by(admissionv1.Create), user("mallory")), nil},
				"one that grows":           {maker.Makes.Kind, of(t, maker.GroupKind, object("2Gi"), at(Admitted), from(object("1Gi")), user("mallory")), denied},
				"one whose template stays": {maker.Makes.Kind, of(t, maker.GroupKind, object("2Gi"), at(Admitted), from(object("2Gi")), user("mallory")), nil},
				"written by KubeVirt":      {maker.Makes.Kind, of(t, maker.GroupKind, object("2Gi"), at(Admitted), by(admissionv1.Create), user("system:serviceaccount:kubevirt:kubevirt-controller")), nil},
				"a policy for templates":   {"VirtualMachineTemplate", of(t, maker.GroupKind, object("2Gi"), at(Admitted), by(admissionv1.Create), user("mallory")), nil},
			} {
				t.Run(name, func(t *testing.T) {
					f := newFixture(t)
					f.policy(t, "only", strings.Replace(onlyJane, "KINDS", tc.kinds, 1))
					got := slices.DeleteFunc(rules(f.evaluate(t, tc.request)), func(rule string) bool { return !strings.Contains(rule, "policy/") })
					if len(got) == 0 {
						got = nil
					}
					if diff := cmp.Diff(tc.want, got); diff != "" {
						t.Errorf("findings (-want +got):\n%s", diff)
					}
				})
			}
		})
	}
}
