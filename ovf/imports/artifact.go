package imports

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/texts"
)

// Artifact is a template or a virtual machine of a registry with its disks.
type Artifact struct {
	Manifest *oci.Manifest
	Object   *oci.Object
	// Platforms are those of its index; nil without one.
	Platforms []string
}

// The codes of warnings about artifacts.
const (
	warningDropped ovf.Code = "Dropped"
	warningShared  ovf.Code = "Shared"
	warningForeign ovf.Code = "Foreign"
)

// EvaluateArtifact decides what an import of an artifact creates.
func EvaluateArtifact(of *v1beta1.VirtualMachineTemplateImport, found *Artifact) *Outcome {
	o := &Outcome{Choices: platformsOf(found.Platforms)}
	if f := o.artifact(of, found); f != nil {
		o.Fault, o.Disks, o.Template = f, nil, nil
	}
	return o
}

// Unselected is the outcome of an artifact of several platforms, of which the import names none.
func Unselected(err error, platforms []string) *Outcome {
	return &Outcome{Choices: platformsOf(platforms), Fault: fault(v1beta1.ReasonChoiceRequired, "spec.source.oci.platform: %s", err)}
}

// platformsOf are the choices of an artifact with several platforms; nil for another.
func platformsOf(names []string) *v1beta1.ImportChoices {
	if len(names) < 2 {
		return nil
	}
	c := &v1beta1.ImportChoices{}
	for _, name := range names[:min(len(names), v1beta1.MaxImportNotes)] {
		c.Platforms = append(c.Platforms, v1beta1.ImportChoice{ID: shortened(name)})
	}
	return c
}

// artifact returns the first fault.
func (o *Outcome) artifact(of *v1beta1.VirtualMachineTemplateImport, found *Artifact) *Fault {
	if f := withoutDescriptor(&of.Spec); f != nil {
		return f
	}
	claims, f := o.layers(of, found)
	if f != nil {
		return f
	}
	build := o.fromTemplate
	if found.Object.Kind == oci.VirtualMachine {
		build = o.fromMachine
	}
	template, machine, f := build(of, found.Object, claims)
	if f != nil {
		return f
	}
	o.dropRevisions(below(machine, "spec"))
	o.warnOfReferences(below(machine, "spec", "template", "spec"))
	raw, err := json.Marshal(machine)
	if err != nil {
		return fault(v1beta1.ReasonNotImportable, "the template cannot be encoded: %s", err)
	}
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: raw}
	if err := adapt(template, &of.Spec); err != nil {
		return asFault(err)
	}
	o.Template = template
	return asFault(o.seal())
}

// withoutDescriptor rejects what only an appliance with a descriptor of OVF has.
func withoutDescriptor(spec *v1beta1.VirtualMachineTemplateImportSpec) *Fault {
	for _, c := range []struct {
		path string
		set  bool
	}{
		{"spec.networkMappings", len(spec.NetworkMappings) > 0},
		{"spec.properties", len(spec.Properties) > 0},
		{"spec.deploymentOption", spec.DeploymentOption != ""},
		{"spec.virtualSystem", spec.VirtualSystem != ""},
	} {
		if c.set {
			return fault(v1beta1.ReasonInvalidConfiguration, "%s: the artifact is a template, and has no descriptor of OVF: remove this field", c.path)
		}
	}
	return nil
}

// layers makes a disk of each layer, and returns the names of their DataVolumes by those of the volumes.
func (o *Outcome) layers(of *v1beta1.VirtualMachineTemplateImport, found *Artifact) (map[string]string, *Fault) {
	if n := len(found.Manifest.Disks); n > v1beta1.MaxImportDisks {
		return nil, fault(v1beta1.ReasonNotImportable, "the artifact has %d disks, and at most %d are imported", n, v1beta1.MaxImportDisks)
	}
	claims := map[string]string{}
	for i := range found.Manifest.Disks {
		layer := &found.Manifest.Disks[i]
		name := layer.Names[0]
		if layer.Size < transfer.MinSize {
			return nil, fault(v1beta1.ReasonNotImportable, "the disk %s has %d bytes, and CDI imports at least %d", name, layer.Size, transfer.MinSize)
		}
		disk := Disk{Name: TemplateName(of) + "-" + name, Size: layer.Size, Padded: layer.Capacity, File: appliance.File{
			Href: name, Compression: transfer.CompressionZstd, Format: "raw", MaxContent: layer.Size,
			Parts: []appliance.Part{{Name: name, Size: layer.Descriptor.Size, Digest: layer.Digest.String()}},
		}}
		for _, name := range layer.Names {
			volume := found.Object.VolumeOf(name)
			switch {
			case volume == nil:
				return nil, fault(v1beta1.ReasonNotImportable, "the artifact has the disk %s, and its virtual machine has no volume for it", name)
			case claims[volume.Name] != "":
				return nil, fault(v1beta1.ReasonNotImportable, "the artifact has two disks for the volume %s", volume.Name)
			}
			claims[volume.Name] = disk.Name
		}
		o.Disks = append(o.Disks, disk)
	}
	return claims, nil
}

// fromTemplate makes the volumes of a template clone the imported disks. The claims are DataVolumes by the names of volumes.
func (o *Outcome) fromTemplate(of *v1beta1.VirtualMachineTemplateImport, from *oci.Object, claims map[string]string) (*v1beta1.VirtualMachineTemplate, object, *Fault) {
	template, machine := &v1beta1.VirtualMachineTemplate{}, object{}
	if err := json.Unmarshal(from.Config, template); err != nil {
		return nil, nil, fault(v1beta1.ReasonNotImportable, "the template of the artifact cannot be decoded: %s", texts.Shorten(err.Error(), 200))
	}
	if template.Spec.VirtualMachine == nil || utiljson.Unmarshal(template.Spec.VirtualMachine.Raw, &machine) != nil {
		return nil, nil, fault(v1beta1.ReasonNotImportable, "the template of the artifact has no virtual machine")
	}
	return template, machine, o.clone(of, from, child(machine, "spec"), claims)
}

// withoutDisk is the fault of a volume whose disk is not in the artifact.
func withoutDisk(v *oci.Volume) *Fault {
	return fault(v1beta1.ReasonNotImportable, "the artifact has no disk for the volume %s", texts.Shorten(v.Name, 100))
}

// clone makes the volumes of a virtual machine those of the imported disks.
func (o *Outcome) clone(of *v1beta1.VirtualMachineTemplateImport, from *oci.Object, vm object, claims map[string]string) *Fault {
	made, sizes := map[string]object{}, o.sizes()
	for _, t := range objects(vm["dataVolumeTemplates"]) {
		name, _ := child(t, "metadata")["name"].(string)
		made[name] = child(t, "spec")
	}
	for i := range from.Volumes {
		v := &from.Volumes[i]
		claim, imported := claims[v.Name]
		volume, isMade := made[v.Claim]
		switch {
		case imported && isMade:
			delete(volume, "sourceRef")
			volume["source"] = object{"pvc": object{"namespace": of.Namespace, "name": claim}}
			ovf.Enlarge(volume, sizes[claim])
		case imported:
			o.note(warningShared, v.Name, "all virtual machines of the template use the imported disk, because the template clones none")
			replace(vm, v.Name, claim)
		case v.Layered:
			return withoutDisk(v)
		case isMade && volume["sourceRef"] != nil:
			o.note(warningForeign, v.Name, "its source is not in the artifact, and must exist in this cluster")
		}
		if class := classOf(volume); class != nil && (of.Spec.Storage == nil || of.Spec.Storage.Class == "") {
			o.note(warningForeign, v.Name, fmt.Sprintf("its storage class %s is that of the artifact: spec.storage.class can name another one", texts.Shorten(fmt.Sprint(class), 100)))
		}
	}
	return nil
}

// sizes are those of the disks in bytes, by the names of their DataVolumes.
func (o *Outcome) sizes() map[string]int64 {
	sizes := map[string]int64{}
	for i := range o.Disks {
		sizes[o.Disks[i].Name] = o.Disks[i].Size
	}
	return sizes
}

// dropRevisions removes what names revisions of another cluster.
func (o *Outcome) dropRevisions(vm object) {
	for _, kind := range []string{"instancetype", "preference"} {
		if named := below(vm, kind); named["revisionName"] != nil {
			delete(named, "revisionName")
			o.note(warningDropped, kind, "its revision is one of another cluster")
		}
	}
}

// readable are the kinds of volumes whose content the guest reads from the cluster, and what it is.
var readable = []struct{ kind, content string }{
	{"secret", "a Secret"}, {"configMap", "a ConfigMap"}, {"serviceAccount", "the token of a service account"}, {"sysprep", "a Secret or a ConfigMap"}, {"hostDisk", "a file of the node"},
}

// warnOfReferences warns of what a guest reads from the cluster, and of its networks. Who made the artifact chose it, and the content of the
// guest too.
func (o *Outcome) warnOfReferences(guest object) {
	warn := func(element, content string) {
		o.note(warningForeign, element, "the guest reads "+content+" of this cluster: check it before you create a virtual machine, because the artifact chose both")
	}
	for _, v := range objects(guest["volumes"]) {
		name := texts.Shorten(fmt.Sprint(v["name"]), 100)
		for _, r := range readable {
			if v[r.kind] != nil {
				warn(name, r.content)
			}
		}
		for _, kind := range []string{"cloudInitNoCloud", "cloudInitConfigDrive"} {
			if data := below(v, kind); data["secretRef"] != nil || data["networkDataSecretRef"] != nil {
				warn(name, "a Secret")
			}
		}
	}
	if len(objects(guest["accessCredentials"])) > 0 {
		warn("accessCredentials", "a Secret")
	}
	for _, n := range objects(guest["networks"]) {
		if definition := below(n, "multus")["networkName"]; definition != nil {
			o.note(warningForeign, texts.Shorten(fmt.Sprint(n["name"]), 100), fmt.Sprintf("the NetworkAttachmentDefinition %s must exist in this cluster", texts.Shorten(fmt.Sprint(definition), 100)))
		}
	}
}

// classOf is the storage class of a DataVolume; nil without one.
func classOf(spec object) any {
	for _, kind := range []string{"storage", "pvc"} {
		if claim, is := spec[kind].(object); is && claim["storageClassName"] != nil {
			return claim["storageClassName"]
		}
	}
	return nil
}

// replace makes a volume that of a claim.
func replace(vm object, name, claim string) {
	for _, v := range objects(child(child(vm, "template"), "spec")["volumes"]) {
		if v["name"] != name {
			continue
		}
		for _, kind := range []string{"persistentVolumeClaim", "dataVolume"} {
			if source, is := v[kind].(object); is {
				field := map[string]string{"persistentVolumeClaim": "claimName", "dataVolume": "name"}[kind]
				source[field] = claim
			}
		}
	}
}

// objects are the objects of a list.
func objects(list any) (all []object) {
	items, _ := list.([]any)
	for _, item := range items {
		if o, is := item.(object); is {
			all = append(all, o)
		}
	}
	return all
}

// note adds a warning about a part of an artifact.
func (o *Outcome) note(code ovf.Code, element, message string) {
	o.Warnings = note(o.Warnings, fmt.Sprintf("%s: %s: %s", code, element, message))
}

// asFault is an error that is a fault, or nil.
func asFault(err error) *Fault {
	f, _ := err.(*Fault) //nolint:errorlint // no other error is returned
	return f
}
