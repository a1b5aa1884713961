package imports

import (
	"cmp"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
)

func sample(change ...func(*v1beta1.VirtualMachineTemplateImportSpec)) *v1beta1.VirtualMachineTemplateImport {
	of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "templates", Name: "quay", UID: "1"}}
	of.Spec.Source.HTTP = &v1beta1.ImportHTTP{URL: "https://example.com/quay.ova"}
	for _, c := range change {
		c(&of.Spec)
	}
	return of
}

// TestAdapt holds what the import replaces in a template, and that everything else stays.
func TestAdapt(t *testing.T) {
	const machine = `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"blank":{}},"storage":{}}}],"preference":{"kind":"a","name":"b"},"template":{"spec":{"domain":{"cpu":{"cores":1},"memory":{"guest":"1Gi"}}}}}}`
	for name, c := range map[string]struct {
		spec          v1beta1.VirtualMachineTemplateImportSpec
		machine, want string
	}{
		"nothing": {want: machine},
		"an instancetype": {
			spec: v1beta1.VirtualMachineTemplateImportSpec{Instancetype: &v1beta1.ImportInstancetype{Name: "small"}},
			want: `{"spec":{"dataVolumeTemplates":[{"spec":{"source":{"blank":{}},"storage":{}}}],"instancetype":{"kind":"VirtualMachineClusterInstancetype","name":"small"},"preference":{"kind":"a","name":"b"},"template":{"spec":{"domain":{}}}}}`,
		},
		"an instancetype beside requests": {
			spec:    v1beta1.VirtualMachineTemplateImportSpec{Instancetype: &v1beta1.ImportInstancetype{Name: "small"}},
			machine: `{"spec":{"template":{"spec":{"domain":{"resources":{"limits":{"cpu":"2"},"requests":{"ephemeral-storage":"1Gi","memory":"2Gi"}}}}}}}`,
			want:    `{"spec":{"instancetype":{"kind":"VirtualMachineClusterInstancetype","name":"small"},"template":{"spec":{"domain":{"resources":{"limits":{},"requests":{"ephemeral-storage":"1Gi"}}}}}}}`,
		},
		"a preference": {
			spec: v1beta1.VirtualMachineTemplateImportSpec{Preference: &v1beta1.ImportPreference{Kind: "VirtualMachinePreference", Name: "mine"}},
			want: strings.Replace(machine, `{"kind":"a","name":"b"}`, `{"kind":"VirtualMachinePreference","name":"mine"}`, 1),
		},
		"storage": {
			spec: v1beta1.VirtualMachineTemplateImportSpec{Storage: &v1beta1.ImportStorage{Class: "fast", AccessMode: "ReadWriteMany"}},
			want: strings.Replace(machine, `"storage":{}`, `"storage":{"accessModes":["ReadWriteMany"],"storageClassName":"fast"}`, 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := &v1beta1.VirtualMachineTemplate{Spec: v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &runtime.RawExtension{Raw: []byte(cmp.Or(c.machine, machine))}}}
			if err := adapt(template, &c.spec); err != nil || string(template.Spec.VirtualMachine.Raw) != c.want {
				t.Errorf("%v\ngot  %s\nwant %s", err, template.Spec.VirtualMachine.Raw, c.want)
			}
		})
	}
}

// TestPlanOf holds that a plan is valid, names no file outside of the pod, and has digests unless the manifest is skipped.
func TestPlanOf(t *testing.T) {
	disks := []Disk{{Name: "quay-disk-1", Size: 1 << 20, File: appliance.File{Href: "a.vmdk", Format: "vmdk", Parts: []appliance.Part{{Name: "a.vmdk", Offset: 1024, Size: 4096, Digest: "sha256:" + strings.Repeat("0a", 32)}}}}}
	from := &Origin{URL: "https://example.com/quay.ova", Size: 1 << 20, Validator: `"v1"`, Authorities: []byte("pem"), Sources: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}}
	for verify, digests := range map[v1beta1.ImportVerify]bool{"": true, v1beta1.ImportVerifySkip: false} {
		of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify, s.Source.HTTP.SecretRef = verify, "login" })
		plan, err := PlanOf(of, from, disks, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (plan.Disks[0].Parts[0].Digest != "") != digests || plan.AuthoritiesFile != "/import/serving/authorities.pem" || plan.Credentials.UserFile != "/import/credentials/accessKeyId" ||
			plan.Sources.Networks[0] != "10.1.0.0/16" || len(plan.Validate()) > 0 {
			t.Errorf("%q: got %+v", verify, plan)
		}
		pod := Pod(of, &servers.Program{Image: "a"}, "0123", nil)
		pod.UID = "2"
		objects, err := Objects(pod, plan, from.Authorities, &servers.Material{Suffix: "0123", Certificate: []byte("certificate"), Key: []byte("key"), Token: "token"}, "virtward-system")
		if err != nil || len(objects) != 5 {
			t.Fatal(objects, err)
		}
		for _, o := range objects {
			if owner := metav1.GetControllerOf(o); owner == nil || owner.UID != "2" || len(validation.IsDNS1123Label(o.GetName())) > 0 || o.GetLabels()[v1beta1.LabelImportUID] != "1" {
				t.Errorf("got %+v", o)
			}
		}
		if _, last := objects[4].(*corev1.Service); !last {
			t.Errorf("the last object is %T", objects[4])
		}
		if header := string(objects[1].(*corev1.Secret).Data["header"]); header != transfer.TokenHeader+": token" {
			t.Errorf("got the header %s", header)
		}
	}
	if _, err := PlanOf(sample(), from, nil, nil); err == nil || !strings.Contains(err.Error(), "the disks cannot be served: disks: Required value") {
		t.Errorf("got %v", err)
	}
}

// TestStagerOfLayer holds what the pod copies of an artifact.
func TestStagerOfLayer(t *testing.T) {
	of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://quay.io/a/b:v1", SecretRef: "login"}}
		s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("3Mi")}
	})
	of.Status.Staging = &v1beta1.ImportStaged{Name: CopyName(of)}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: CopyName(of)}}
	layer := "sha256:" + strings.Repeat("0", 64)
	plan, err := StagerPlan(of, &Origin{Repository: "quay.io/a/b", Blob: layer, Size: 7, Sources: &sources.Sources{Hosts: []string{"quay.io"}}}, claim)
	if err != nil {
		t.Fatal(err)
	}
	if s := plan.Stage; s.URL != "" || s.Blob != "quay.io/a/b@"+layer || s.Size != 7 || s.MaxBytes != 3<<20 || plan.Credentials == nil || len(plan.Files) > 0 {
		t.Errorf("got the plan %+v", plan)
	}
}

// TestStager holds that the pod that copies a file writes its own volume only, has the credentials, and connects to others.
func TestStager(t *testing.T) {
	of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source.HTTP.SecretRef = "login"
		s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("3Mi")}
	})
	of.Status.Staging = &v1beta1.ImportStaged{Name: CopyName(of), Compression: "gzip"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: CopyName(of)}}
	plan, err := StagerPlan(of, &Origin{URL: "https://example.com/a.ova", Sources: &sources.Sources{Hosts: []string{"example.com"}}, Authorities: []byte("a")}, claim)
	if err != nil {
		t.Fatal(err)
	}
	if s := plan.Stage; s.URL != "https://example.com/a.ova" || s.Compression != "gzip" || s.MaxBytes != 3<<20 || plan.Credentials == nil || plan.AuthoritiesFile == "" || plan.Sources.Hosts[0] != "example.com" {
		t.Errorf("got the plan %+v", plan)
	}
	suffix := StagerSuffix("0123")
	pod := Pod(of, &servers.Program{Image: "a"}, suffix, claim)
	if v := pod.Spec.Volumes; len(v) != 3 || v[2].PersistentVolumeClaim.ReadOnly || v[2].PersistentVolumeClaim.ClaimName != pod.Name || pod.Spec.Containers[0].VolumeMounts[2].ReadOnly {
		t.Errorf("got the volumes %+v", pod.Spec.Volumes)
	}
	objects, err := Objects(pod, plan, []byte("a"), &servers.Material{Suffix: suffix}, "virtward-system")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if p, is := o.(*networkingv1.NetworkPolicy); is && (len(p.Spec.PolicyTypes) != 1 || len(p.Spec.Ingress[0].From) != 2) {
			t.Errorf("got the policy %+v", p.Spec)
		}
	}
	if v := Pod(of, &servers.Program{Image: "a"}, "0123", claim).Spec.Volumes; len(v) != 2 || !v[1].PersistentVolumeClaim.ReadOnly {
		t.Errorf("the pod of the disks has the volumes %+v", v)
	}
}

// TestClaim holds that a claim is mounted without writing to it, that the plan names it, and who connects to the pod: for another source, the
// controller does not.
func TestClaim(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	disks := []Disk{{Name: "quay-disk-1", Size: 1 << 20, File: appliance.File{Href: "a.vmdk", Parts: []appliance.Part{{Name: "a.vmdk", Offset: 1024, Size: 4096}}}}}
	of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "upload", Path: "a/b.ova"}}
	})
	for name, c := range map[string]struct {
		mode *corev1.PersistentVolumeMode
		want transfer.Volume
	}{
		"a file system": {nil, transfer.Volume{Folder: "/import/volume", File: "a/b.ova"}},
		"a device":      {&block, transfer.Volume{Device: "/import/device"}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: "upload"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: c.mode}}
			plan, err := PlanOf(of, &Origin{Size: 1 << 20, Validator: `"v1"`}, disks, claim)
			if err != nil {
				t.Fatal(err)
			}
			if f := plan.Files[0]; *plan.Volume != c.want || !f.Volume || f.URL != "" || f.Size != 1<<20 || f.Validator != `"v1"` {
				t.Errorf("got the plan %+v", plan)
			}
			reader := ReaderPlan(of, claim)
			if found := reader.Validate(); len(found) > 0 || *reader.Volume != c.want || len(reader.Disks) > 0 {
				t.Errorf("got the plan of a reader %+v, %v", reader, found)
			}
			pod := Pod(of, &servers.Program{Image: "a"}, "0123", claim)
			mounted := pod.Spec.Volumes[1].PersistentVolumeClaim
			if mounted == nil || mounted.ClaimName != "upload" || !mounted.ReadOnly || pod.Spec.SecurityContext.FSGroup != nil || *pod.Spec.SecurityContext.RunAsGroup != 107 {
				t.Errorf("got the pod %+v", pod.Spec)
			}
			container := pod.Spec.Containers[0]
			if at := c.want.Device; at != "" && container.VolumeDevices[0].DevicePath != at {
				t.Errorf("got the devices %+v", container.VolumeDevices)
			}
			if at := c.want.Folder; at != "" && (container.VolumeMounts[1].MountPath != at || !container.VolumeMounts[1].ReadOnly) {
				t.Errorf("got the mounts %+v", container.VolumeMounts)
			}
			if policy := policyOf(t, pod, plan); len(policy.Spec.Ingress[0].From) != 2 || policy.Spec.Ingress[0].From[1].NamespaceSelector.MatchLabels[corev1.LabelMetadataName] != "virtward-system" ||
				policy.Spec.Ingress[0].From[1].PodSelector.MatchLabels["app.kubernetes.io/component"] != "templateimports" || len(policy.Spec.PolicyTypes) != 2 || len(policy.Spec.Egress) > 0 {
				t.Errorf("got the policy %+v", policy.Spec)
			}
		})
	}
	web := sample()
	plan, err := PlanOf(web, &Origin{URL: "https://example.com/quay.ova", Size: 1 << 20}, disks, nil)
	if err != nil {
		t.Fatal(err)
	}
	if policy := policyOf(t, Pod(web, &servers.Program{Image: "a"}, "0123", nil), plan); len(policy.Spec.Ingress[0].From) != 1 || len(policy.Spec.PolicyTypes) != 1 {
		t.Errorf("got the policy of another source %+v", policy.Spec)
	}
}

func policyOf(t *testing.T, pod *corev1.Pod, plan *transfer.Plan) *networkingv1.NetworkPolicy {
	t.Helper()
	objects, err := Objects(pod, plan, nil, &servers.Material{Suffix: "0123"}, "virtward-system")
	if err != nil {
		t.Fatal(err)
	}
	policy, is := objects[3].(*networkingv1.NetworkPolicy)
	if !is {
		t.Fatalf("got %T", objects[3])
	}
	return policy
}

// TestDataVolume holds the size, the source and the server of a DataVolume.
func TestDataVolume(t *testing.T) {
	of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Storage = &v1beta1.ImportStorage{Class: "fast"} })
	dv := DataVolume(of, 2, &v1beta1.ImportDisk{Name: "quay-disk-3", Size: 1<<20 + 1}, "0123")
	size := dv.Spec.Storage.Resources.Requests[corev1.ResourceStorage]
	if dv.Spec.Source.HTTP.URL != "https://virtward-import-0123.templates.svc:8443/disks/2" || size.String() != "2Mi" || *dv.Spec.Storage.StorageClassName != "fast" || ServedBy(dv) != "0123" {
		t.Errorf("got %+v", dv)
	}
	dv.Spec.Source = nil
	if ServedBy(dv) != "" {
		t.Error("a DataVolume without a source has a server")
	}
}

// TestPlanOfBlob holds the plan of an OVA that is a layer, and that computed digests replace those of the manifest.
func TestPlanOfBlob(t *testing.T) {
	blob, listed, read := "sha256:"+strings.Repeat("0a", 32), "sha1:"+strings.Repeat("0b", 20), "sha256:"+strings.Repeat("0c", 32)
	disks := []Disk{
		{Name: "quay-disk-1", Size: 1 << 20, File: appliance.File{Href: "a.vmdk", Format: "vmdk", Parts: []appliance.Part{{Name: "a.vmdk", Offset: 1024, Size: 4096, Digest: listed}}}},
		{Name: "quay-disk-2", Size: 1 << 20, File: appliance.File{Href: "b.vmdk", Format: "vmdk", Parts: []appliance.Part{{Name: "b.vmdk", Offset: 8192, Size: 4096}}}},
	}
	from := &Origin{Repository: "registry.example.com/appliances/quay", Digest: "sha256:" + strings.Repeat("0d", 32), File: "quay.ova", Blob: blob, Size: 1 << 20}
	for name, c := range map[string]struct {
		digests [][]string
		verify  v1beta1.ImportVerify
		want    []string
	}{
		"read":              {digests: [][]string{{read}, {read}}, want: []string{read, read}},
		"read, and skipped": {digests: [][]string{{read}, {read}}, verify: v1beta1.ImportVerifySkip, want: []string{read, read}},
		"not read":          {want: []string{listed, ""}},
		"skipped":           {verify: v1beta1.ImportVerifySkip, want: []string{"", ""}},
		"of another number": {digests: [][]string{{read, read}, {}}, want: []string{listed, ""}},
		"of the first only": {digests: [][]string{{read}}, want: []string{read, ""}},
	} {
		of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) {
			s.Source, s.Verify = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://registry.example.com/appliances/quay:v1"}}, c.verify
		})
		for i := range c.digests {
			of.Status.Disks = append(of.Status.Disks, v1beta1.ImportDisk{Name: disks[i].Name, Digests: c.digests[i]})
		}
		plan, err := PlanOf(of, from, disks, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Files) != 1 || plan.Files[0] != (transfer.File{Blob: from.Repository + "@" + blob, Size: 1 << 20}) {
			t.Errorf("%s: got %+v", name, plan.Files)
		}
		for i, want := range c.want {
			if got := plan.Disks[i].Parts; len(got) != 1 || got[0].Digest != want || got[0].File != 0 || got[0].Offset != disks[i].File.Parts[0].Offset {
				t.Errorf("%s: got %+v", name, got)
			}
		}
	}
}
