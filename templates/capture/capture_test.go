package capture

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

func request() *v1beta1.VirtualMachineTemplateRequest {
	return &v1beta1.VirtualMachineTemplateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "catalogue", Name: "golden", UID: "1-2-3"},
		Spec:       v1beta1.VirtualMachineTemplateRequestSpec{VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: "shop", Name: "web"}},
	}
}

// contentOf is a snapshot of a VM with a spec in YAML, and copies of some volumes of 10Gi.
func contentOf(t *testing.T, spec string, copied ...string) *snapshotv1beta1.VirtualMachineSnapshotContent {
	t.Helper()
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{}
	content.Spec.Source.VirtualMachine = &snapshotv1beta1.VirtualMachine{}
	if err := yaml.UnmarshalStrict([]byte(spec), &content.Spec.Source.VirtualMachine.Spec); err != nil {
		t.Fatal(err)
	}
	for _, name := range copied {
		snapshot := "snapshot-of-" + name
		content.Spec.VolumeBackups = append(content.Spec.VolumeBackups, snapshotv1beta1.VolumeBackup{
			VolumeName: name, VolumeSnapshotName: &snapshot,
			PersistentVolumeClaim: snapshotv1beta1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
			}},
		})
	}
	return content
}

// render captures, and makes a VM of the template with a name.
func render(t *testing.T, name, spec string, copied ...string) *kubevirtv1.VirtualMachine {
	t.Helper()
	content := contentOf(t, spec, copied...)
	volumes, err := Volumes(content)
	if err != nil {
		t.Fatal(err)
	}
	template, err := Template(request(), &content.Spec.Source.VirtualMachine.Spec, volumes)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	if findings := templates.Check(template, random); len(findings) > 0 {
		t.Fatalf("the template has findings: %v", findings)
	}
	rendered, findings := templates.Render(template, map[string]string{"NAME": name}, templates.Options{Random: random, Approved: true})
	if rendered == nil || len(findings) > 0 {
		t.Fatalf("findings: %v\n%s", findings, template.VirtualMachine.Raw)
	}
	return rendered.VirtualMachine
}

const guest = `
runStrategy: Halted
template:
  metadata:
    annotations: {"a/${B}": "$${NAME} ${HOME} ${{X}}"}
  spec:
    domain:
      devices: {disks: [{name: root, disk: {bus: virtio}}]}
    volumes:
    - name: root
      persistentVolumeClaim: {claimName: root-claim}
    - name: cloudinit
      cloudInitNoCloud: {userData: "echo ${NAME} ${HOME} ${{NAME}} $${X} ${"}
`

// The text of the guest is what it was, also where it looks like a reference to a parameter.
func TestTextStays(t *testing.T) {
	vm := render(t, "web-2", guest, "root")
	if got, want := vm.Spec.Template.Spec.Volumes[1].CloudInitNoCloud.UserData, "echo ${NAME} ${HOME} ${{NAME}} $${X} ${"; got != want {
		t.Errorf("user data %q, want %q", got, want)
	}
	if diff := cmp.Diff(map[string]string{"a/${B}": "$${NAME} ${HOME} ${{X}}"}, vm.Spec.Template.ObjectMeta.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if vm.Name != "web-2" || vm.Spec.DataVolumeTemplates[0].Name != "root-web-2" || vm.Spec.Template.Spec.Volumes[0].DataVolume.Name != "root-web-2" {
		t.Errorf("names: %s, %s, %s", vm.Name, vm.Spec.DataVolumeTemplates[0].Name, vm.Spec.Template.Spec.Volumes[0].DataVolume.Name)
	}
}

// An identity of the source is in no VM of the template.
func TestIdentitiesGo(t *testing.T) {
	vm := render(t, "web-2", `
template:
  spec:
    hostname: identity
    domain:
      chassis: {serial: identity, sku: kept}
      firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, serial: identity, bootloader: {efi: {}}}
      devices:
        disks: [{name: root, serial: identity, bootOrder: 1, disk: {bus: virtio, pciAddress: "0000:81:01.0"}}]
        interfaces: [{name: default, macAddress: "02:00:00:00:00:01", pciAddress: "0000:81:02.0", masquerade: {}, model: virtio}]
    networks: [{name: default, pod: {}}]
    volumes: [{name: root, containerDisk: {image: "example.com/linux:1"}}]
`)
	written, err := yaml.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"identity", "5d307ca9", "02:00", "0000:81"} {
		if strings.Contains(string(written), text) {
			t.Errorf("%s is kept:\n%s", text, written)
		}
	}
	for _, text := range []string{"sku: kept", "efi: {}", "bootOrder: 1", "model: virtio", "linux:1"} {
		if !strings.Contains(string(written), text) {
			t.Errorf("%s is lost:\n%s", text, written)
		}
	}
}

// Settings stay, sizes are not smaller than the claims, and names are unique and short.
func TestVolumes(t *testing.T) {
	long := strings.Repeat("long-", 40) + "x"
	vm := render(t, strings.Repeat("n", 31), `
dataVolumeTemplates:
- metadata: {name: disk0, labels: {kept: label}}
  spec: {sourceRef: {kind: DataSource, name: linux}, storage: {storageClassName: fast, resources: {requests: {storage: 5Gi}}}}
- metadata: {name: `+long+`}
  spec: {source: {http: {url: "https://example.com"}}, pvc: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 20Gi}}}}
template:
  spec:
    domain: {devices: {disks: [{name: disk0, disk: {}}, {name: root, disk: {}}, {name: again, disk: {}}, {name: scratch, disk: {}}]}}
    volumes:
    - {name: disk0, persistentVolumeClaim: {claimName: claim0}}
    - {name: root, dataVolume: {name: disk0, hotpluggable: true}}
    - {name: again, dataVolume: {name: disk0}}
    - {name: large, dataVolume: {name: `+long+`}}
    - {name: dump, memoryDump: {claimName: dump}}
    - {name: scratch, ephemeral: {persistentVolumeClaim: {claimName: base}}}
`, "disk0", "root", "again", "large", "dump", "scratch", "persistent-state-for-web")
	names := map[string]bool{}
	for _, d := range vm.Spec.DataVolumeTemplates {
		if errs := validation.IsDNS1123Label(d.Name); len(errs) > 0 || names[d.Name] {
			t.Errorf("%s: %v", d.Name, errs)
		}
		names[d.Name] = true
	}
	if len(names) != 3 {
		t.Errorf("names: %v", names)
	}
	first, second := vm.Spec.DataVolumeTemplates[0], vm.Spec.DataVolumeTemplates[1]
	if size := first.Spec.Storage.Resources.Requests[corev1.ResourceStorage]; size.String() != "10Gi" || *first.Spec.Storage.StorageClassName != "fast" || first.Labels["kept"] != "label" || first.Spec.SourceRef != nil {
		t.Errorf("the first is %+v", first)
	}
	if size := second.Spec.PVC.Resources.Requests[corev1.ResourceStorage]; size.String() != "20Gi" || second.Spec.Storage != nil || second.Spec.Source.HTTP != nil {
		t.Errorf("the second is %+v", second)
	}
	volumes := vm.Spec.Template.Spec.Volumes
	if len(volumes) != 4 || volumes[1].DataVolume.Name != volumes[2].DataVolume.Name || volumes[0].DataVolume.Name == volumes[1].DataVolume.Name {
		t.Errorf("volumes: %+v", volumes)
	}
	if disks := vm.Spec.Template.Spec.Domain.Devices.Disks; len(disks) != 3 {
		t.Errorf("disks: %+v", disks)
	}
}

// Names outside of the parameter's bound are denied when the template is used.
func TestNameIsBounded(t *testing.T) {
	content := contentOf(t, guest, "root")
	volumes, err := Volumes(content)
	if err != nil {
		t.Fatal(err)
	}
	template, err := Template(request(), &content.Spec.Source.VirtualMachine.Spec, volumes)
	if err != nil {
		t.Fatal(err)
	}
	for name, valid := range map[string]bool{strings.Repeat("n", 58): true, strings.Repeat("n", 59): false, "Upper": false, "-": false, "a": true} {
		rendered, findings := templates.Render(template, map[string]string{"NAME": name}, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
		if (rendered != nil) != valid {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

func TestVolumesFail(t *testing.T) {
	for name, s := range map[string]struct {
		content *snapshotv1beta1.VirtualMachineSnapshotContent
		reason  string
		text    string
	}{
		"no VM":       {&snapshotv1beta1.VirtualMachineSnapshotContent{}, v1beta1.ReasonSnapshotFailed, "no VirtualMachine"},
		"no template": {contentOf(t, "runStrategy: Halted"), v1beta1.ReasonInvalidConfiguration, "spec.template"},
		"no copy":     {contentOf(t, guest), v1beta1.ReasonVolumesNotCaptured, "root"},
	} {
		_, err := Volumes(s.content)
		fault := &Error{}
		if !errors.As(err, &fault) || fault.Reason != s.reason || !strings.Contains(fault.Message, s.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Secrets are named, and never copied.
func TestWarning(t *testing.T) {
	content := contentOf(t, `
template:
  spec:
    domain: {devices: {}}
    accessCredentials: [{sshPublicKey: {source: {secret: {secretName: keys}}, propagationMethod: {noCloud: {}}}}]
    volumes:
    - {name: a, cloudInitNoCloud: {secretRef: {name: user-data}, networkDataSecretRef: {name: network-data}}}
    - {name: b, configMap: {name: settings}}
    - {name: c, serviceAccount: {serviceAccountName: robot}}
    - {name: d, sysprep: {secret: {name: answers}}}
    - {name: e, containerDisk: {image: "example.com/linux:1", imagePullSecret: pull}}
`)
	spec, err := Template(request(), &content.Spec.Source.VirtualMachine.Spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "not copied: ConfigMap settings, Secret answers, Secret keys, Secret network-data, Secret pull, Secret user-data, ServiceAccount robot. Create them where you use the template"
	if diff := cmp.Diff(want, Warning(spec)); diff != "" {
		t.Errorf("warning (-want +got):\n%s", diff)
	}
}

func TestKeepReferences(t *testing.T) {
	spec := func() *kubevirtv1.VirtualMachineSpec {
		return &kubevirtv1.VirtualMachineSpec{
			Instancetype: &kubevirtv1.InstancetypeMatcher{Name: "small", RevisionName: "small-1"},
			Preference:   &kubevirtv1.PreferenceMatcher{Name: "linux", Kind: "virtualmachinepreferences"},
		}
	}
	if err := KeepReferences(request(), spec()); err == nil || !strings.Contains(err.Error(), "preference linux is in the namespace") {
		t.Errorf("got %v", err)
	}
	same, kept := request(), spec()
	same.Namespace = "shop"
	if err := KeepReferences(same, kept); err != nil || kept.Instancetype.RevisionName != "" || kept.Instancetype.Name != "small" {
		t.Errorf("got %v, %+v", err, kept.Instancetype)
	}
}

func TestNames(t *testing.T) {
	r := request()
	for _, name := range []string{"golden", "my.request.v1", "1st", strings.Repeat("a.", 126), "-", "Bad_Name"} {
		r.Name = name
		seen := map[string]bool{}
		for _, child := range []string{SnapshotName(r), CloneName(r, "a"), CloneName(r, "b")} {
			if errs := validation.IsDNS1123Label(child); len(errs) > 0 || seen[child] {
				t.Errorf("%s: %s: %v", name, child, errs)
			}
			seen[child] = true
		}
	}
	before := SnapshotName(r)
	if r.UID = "4-5-6"; SnapshotName(r) == before {
		t.Error("another request has the same snapshot")
	}
}
