package imports

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/templates"
)

// config is a template of which each part is a kind of volume.
const config = `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"web"},"spec":{"parameters":[{"name":"NAME","required":true}],` +
	`"virtualMachine":{"spec":{"preference":{"name":"linux","revisionName":"a"},"dataVolumeTemplates":[` +
	`{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"gold","namespace":"n"}},"storage":{"storageClassName":"fast"}}},` +
	`{"metadata":{"name":"${NAME}-new"},"spec":{"source":{"blank":{}},"pvc":{"storageClassName":"slow"}}}],` +
	`"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}},{"name":"new","dataVolume":{"name":"${NAME}-new"}},{"name":"logs","dataVolume":{"name":"logs"}},{"name":"init","cloudInitNoCloud":{"userData":"a"}}]}}}}}}`

// layerOf is a layer of an artifact.
func layerOf(name string, size int64) oci.Disk {
	return oci.Disk{Descriptor: oci.Descriptor{Digest: digest.FromString(name), Size: 100}, Names: []string{name}, Size: size}
}

func artifact(t testing.TB, text string, layers ...oci.Disk) *Artifact {
	t.Helper()
	object, err := oci.ParseObject(oci.VirtualMachineTemplate, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &Artifact{Manifest: &oci.Manifest{Kind: oci.VirtualMachineTemplate, Disks: layers}, Object: object}
}

// TestEvaluateArtifact holds what volumes become, and what the import replaces.
func TestEvaluateArtifact(t *testing.T) {
	of := sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Source = v1beta1.ImportSource{OCI: &v1beta1.ImportOCI{Reference: "oci://quay.io/templates/web:v1", SecretRef: "login"}}
		s.Storage, s.Instancetype = &v1beta1.ImportStorage{Class: "here"}, &v1beta1.ImportInstancetype{Name: "small"}
	})
	o := EvaluateArtifact(of, artifact(t, config, layerOf("root", 1<<20), layerOf("logs", 4096)))
	if o.Fault != nil {
		t.Fatal(o.Fault)
	}
	const want = `{"spec":{"dataVolumeTemplates":[{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"quay-root","namespace":"templates"}},"storage":{"storageClassName":"here"}}},` +
		`{"metadata":{"name":"${NAME}-new"},"spec":{"pvc":{"storageClassName":"here"},"source":{"blank":{}}}}],"instancetype":{"kind":"VirtualMachineClusterInstancetype","name":"small"},"preference":{"name":"linux"},` +
		`"template":{"spec":{"domain":{},"volumes":[{"dataVolume":{"name":"${NAME}-root"},"name":"root"},{"dataVolume":{"name":"${NAME}-new"},"name":"new"},{"dataVolume":{"name":"quay-logs"},"name":"logs"},{"cloudInitNoCloud":{"userData":"a"},"name":"init"}]}}}}`
	if got := string(o.Template.Spec.VirtualMachine.Raw); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(o.Warnings) != 2 || !strings.HasPrefix(o.Warnings[0], "Shared: logs: ") || !strings.HasPrefix(o.Warnings[1], "Dropped: preference: ") {
		t.Errorf("warnings %q", o.Warnings)
	}
	plan, err := PlanOf(of, &Origin{Repository: "quay.io/templates/web"}, o.Disks, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := plan.Disks[0]; d.Size() != 1<<20 || d.Compression != transfer.CompressionZstd || plan.Files[1].Blob != "quay.io/templates/web@"+digest.FromString("logs").String() || d.Parts[0].Digest == "" || plan.Credentials == nil {
		t.Errorf("got the plan %+v", plan)
	}
}

// TestReferences warns of what the guest of an artifact reads from the cluster that imports it.
func TestReferences(t *testing.T) {
	const own = `{"name":"root","dataVolume":{"name":"${NAME}-root"}}`
	text := strings.Replace(config, own, own+`,{"name":"keys","secret":{"secretName":"login"}},{"name":"account","serviceAccount":{"serviceAccountName":"admin"}},{"name":"node","hostDisk":{"path":"/etc"}},`+
		`{"name":"user","cloudInitConfigDrive":{"networkDataSecretRef":{"name":"login"}}}`, 1)
	text = strings.Replace(text, `"template":{"spec":{`, `"template":{"spec":{"networks":[{"name":"default","pod":{}},{"name":"sea","multus":{"networkName":"lab/sea"}}],"accessCredentials":[{"sshPublicKey":{}}],`, 1)
	o := EvaluateArtifact(sample(func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Storage = &v1beta1.ImportStorage{Class: "here"} }), artifact(t, text, layerOf("root", 1<<20), layerOf("logs", 4096)))
	if o.Fault != nil {
		t.Fatal(o.Fault)
	}
	if last := o.Warnings[len(o.Warnings)-1]; last != "Foreign: sea: the NetworkAttachmentDefinition lab/sea must exist in this cluster" {
		t.Errorf("got %q", o.Warnings)
	}
	var found []string
	for _, w := range o.Warnings {
		if element, content, is := strings.Cut(w, ": the guest reads "); is {
			content, _, _ = strings.Cut(content, " of this cluster")
			found = append(found, element+" = "+content)
		}
	}
	if got := strings.Join(found, ", "); got != "Foreign: keys = a Secret, Foreign: account = the token of a service account, Foreign: node = a file of the node, Foreign: user = a Secret, Foreign: accessCredentials = a Secret" {
		t.Errorf("got %s", got)
	}
}

// TestCloneSizes raises what volumes request to the size of the disks that they clone: a claim can be larger than its request.
func TestCloneSizes(t *testing.T) {
	for request, want := range map[string]string{"1Mi": `"storage":"2Mi"`, "5Mi": `"storage":"5Mi"`, "${SIZE}": `"storage":"${SIZE}"`} {
		text := strings.Replace(config, `"storage":{"storageClassName":"fast"}`, `"storage":{"resources":{"requests":{"storage":"`+request+`"}}}`, 1)
		o := EvaluateArtifact(sample(), artifact(t, text, layerOf("root", 1<<20+512), layerOf("logs", 4096)))
		if o.Fault != nil || !strings.Contains(string(o.Template.Spec.VirtualMachine.Raw), want) {
			t.Errorf("%s: %v", request, o.Fault)
		}
	}
}

// machine is a virtual machine as KubeVirt exports it.
const machine = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"},"spec":{"runStrategy":"Always","template":{"metadata":{"annotations":{"a":"${B}"}},"spec":{"hostname":"db",` +
	`"domain":{"firmware":{"uuid":"u","serial":"s","bootloader":{"efi":{}}},"chassis":{"serial":"s"},"devices":{"interfaces":[{"name":"default","macAddress":"02:00:00:00:00:01","masquerade":{}}],` +
	`"disks":[{"name":"root","serial":"s","disk":{"bus":"virtio","pciAddress":"0000:01:00.0"}}]}},` +
	`"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"db-root"}},{"name":"init","cloudInitNoCloud":{"userData":"a ${NAME}"}}]}}}}`

// TestMachine holds the template that a virtual machine becomes.
func TestMachine(t *testing.T) {
	object, err := oci.ParseObject(oci.VirtualMachine, []byte(machine))
	if err != nil {
		t.Fatal(err)
	}
	found := &Artifact{Manifest: &oci.Manifest{Kind: oci.VirtualMachine, Disks: []oci.Disk{layerOf("root", 1<<20+1)}}, Object: object}
	o := EvaluateArtifact(sample(), found)
	if o.Fault != nil {
		t.Fatal(o.Fault)
	}
	const want = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"${NAME}"},"spec":{"dataVolumeTemplates":[{"metadata":{"name":"${NAME}-root"},` +
		`"spec":{"source":{"pvc":{"name":"quay-root","namespace":"templates"}},"storage":{"resources":{"requests":{"storage":"2Mi"}}}}}],"runStrategy":"Always",` +
		`"template":{"metadata":{"annotations":{"a":"${DOLLAR}{B}"}},"spec":{"domain":{"chassis":{},"devices":{"disks":[{"disk":{"bus":"virtio"},"name":"root"}],"interfaces":[{"masquerade":{},"name":"default"}]},"firmware":{"bootloader":{"efi":{}}}},` +
		`"volumes":[{"dataVolume":{"name":"${NAME}-root"},"name":"root"},{"cloudInitNoCloud":{"userData":"a ${DOLLAR}{NAME}"},"name":"init"}]}}}}`
	if got := string(o.Template.Spec.VirtualMachine.Raw); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if p := o.Template.Spec.Parameters; len(p) != 2 || p[0].Name != "NAME" || p[0].From != "quay-[a-z0-9]{8}" || p[1].Name != "DOLLAR" {
		t.Errorf("got the parameters %+v", p)
	}
	rendered, findings := templates.Render(&o.Template.Spec, map[string]string{"NAME": "db2"}, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if len(findings) > 0 || rendered.VirtualMachine.Spec.Template.Spec.Volumes[1].CloudInitNoCloud.UserData != "a ${NAME}" || rendered.VirtualMachine.Spec.DataVolumeTemplates[0].Name != "db2-root" {
		t.Errorf("%v, %+v", findings, rendered)
	}
	found.Manifest.Disks = nil
	if o := EvaluateArtifact(sample(), found); o.Fault == nil || o.Fault.Message != "the artifact has no disk for the volume root" {
		t.Errorf("without a disk: %+v", o.Fault)
	}
}

// TestRecorded holds what artifacts of KubeVirt's exporter become.
func TestRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		disks []string
		fault string
	}{
		"vm-two-disks-arm64": {disks: []string{"quay-root", "quay-logs"}},
		"template-no-disk":   {fault: "the artifact has no disk for the volume root"},
	} {
		file, err := os.Open("../../conformance/testdata/oci/" + name + ".oci.tar")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files := map[string][]byte{}
		for r := tar.NewReader(file); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				files[header.Name], err = io.ReadAll(r)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		blob := func(d *oci.Descriptor) []byte { return files["blobs/sha256/"+d.Digest.Encoded()] }
		top, err := oci.ParseTop(files["index.json"])
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := oci.ParseManifest(blob(&top.Variants[0].Descriptor))
		if err != nil {
			t.Fatal(err)
		}
		object, err := oci.ParseObject(manifest.Kind, blob(&manifest.Config))
		if err != nil {
			t.Fatal(err)
		}
		o := EvaluateArtifact(sample(), &Artifact{Manifest: manifest, Object: object})
		var disks []string
		for i := range o.Disks {
			disks = append(disks, o.Disks[i].Name)
		}
		if !slices.Equal(disks, c.disks) || (o.Fault != nil) != (c.fault != "") || o.Fault != nil && o.Fault.Message != c.fault {
			t.Errorf("%s: %q, %+v", name, disks, o.Fault)
		}
		if o.Fault != nil {
			continue
		}
		rendered, findings := templates.Render(&o.Template.Spec, map[string]string{"NAME": "a"}, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
		if len(findings) > 0 || len(rendered.VirtualMachine.Spec.DataVolumeTemplates) != len(c.disks) || rendered.VirtualMachine.Spec.Template.Spec.Architecture != "arm64" {
			t.Errorf("%s: %v, %+v", name, findings, rendered)
		}
	}
}

// TestArtifactFaults holds why an artifact is not imported.
func TestArtifactFaults(t *testing.T) {
	root, logs := layerOf("root", 1<<20), layerOf("logs", 1<<20)
	twice := layerOf("gold", 1<<20)
	for want, c := range map[string]struct {
		text   string
		layers []oci.Disk
	}{
		"no disk for the volume logs":               {config, []oci.Disk{root}},
		"two disks for the volume root":             {config, []oci.Disk{root, logs, twice}},
		"has no volume for it":                      {config, []oci.Disk{root, logs, layerOf("other", 1<<20)}},
		"CDI imports at least 512":                  {config, []oci.Disk{layerOf("root", 0), logs}},
		"at most 64 are imported":                   {config, make([]oci.Disk, 65)},
		"has no virtual machine":                    {strings.Replace(config, `"virtualMachine":{`, `"machine":{`, 1), nil},
		"template of the artifact cannot be decode": {strings.Replace(config, `"required":true`, `"required":"yes"`, 1), []oci.Disk{root, logs}},
		"the template has":                          {strings.Replace(config, `"userData":"a"`, `"userData":"`+strings.Repeat("a", MaxTemplate)+`"`, 1), []oci.Disk{root, logs}},
	} {
		o := EvaluateArtifact(sample(), artifact(t, c.text, c.layers...))
		if o.Fault == nil || o.Fault.Reason != v1beta1.ReasonNotImportable || !strings.Contains(o.Fault.Message, want) || o.Template != nil || o.Disks != nil {
			t.Errorf("%s: %+v", want, o.Fault)
		}
	}
}

// FuzzEvaluateArtifact: no template of an artifact clones a disk of another namespace in the place of an imported one.
func FuzzEvaluateArtifact(f *testing.F) {
	f.Add([]byte(config))
	f.Add([]byte(strings.Replace(config, `"volumes":[`, `"volumes":[{},null,{"name":"b","persistentVolumeClaim":{"claimName":"${NAME}-root"}},`, 1)))
	f.Add([]byte(strings.Replace(config, `"dataVolumeTemplates":[`, `"dataVolumeTemplates":[null,{"metadata":null},1,`, 1)))
	f.Add([]byte(strings.Replace(config, `"spec":{"source":{"pvc"`, `"spec":{"sourceRef":{"name":"a"},"source":{"pvc"`, 1)))
	f.Add([]byte(machine))
	f.Fuzz(func(t *testing.T, text []byte) {
		object, err := oci.ParseObject(oci.VirtualMachineTemplate, text)
		if err != nil {
			object, err = oci.ParseObject(oci.VirtualMachine, text)
		}
		if err != nil {
			return
		}
		found := &Artifact{Manifest: &oci.Manifest{Kind: object.Kind}, Object: object}
		seen := map[string]bool{}
		for _, v := range object.Volumes {
			if v.Layered && v.Name != "" && !seen[v.Name] {
				seen[v.Name] = true
				found.Manifest.Disks = append(found.Manifest.Disks, layerOf(v.Name, 1<<20))
			}
		}
		o := EvaluateArtifact(sample(), found)
		if o.Fault != nil {
			return
		}
		var machine struct {
			Spec struct {
				DataVolumeTemplates []*struct {
					Metadata struct{ Name string }
					Spec     struct {
						Source    map[string]struct{ Namespace, Name string }
						SourceRef any
					}
				}
				Template struct {
					Spec struct{ Volumes []*struct{ Name string } }
				}
			}
		}
		if err := json.Unmarshal(o.Template.Spec.VirtualMachine.Raw, &machine); err != nil {
			return // fields of other types
		}
		imported := map[string]bool{}
		for _, v := range object.Volumes {
			if object.Kind == oci.VirtualMachine {
				v.Claim = "${NAME}-" + v.Name
			}
			imported[v.Claim] = imported[v.Claim] || seen[v.Name]
		}
		last := map[string]int{}
		for i, d := range machine.Spec.DataVolumeTemplates {
			if d != nil {
				last[d.Metadata.Name] = i
			}
		}
		for i, d := range machine.Spec.DataVolumeTemplates {
			if d == nil || !imported[d.Metadata.Name] || last[d.Metadata.Name] != i { // two of a name are rejected by KubeVirt
				continue
			}
			if d.Spec.SourceRef != nil || len(d.Spec.Source) != 1 || d.Spec.Source["pvc"].Namespace != "templates" {
				t.Errorf("%s clones %+v of %s", d.Metadata.Name, d.Spec, text)
			}
		}
	})
}
