package exports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// MaxTemplate bounds the spec of the template of an export in bytes of JSON, and maxServed the template with its labels and annotations: the
// plan of the server is stored in a Secret, and the server reads at most transfer.MaxBytes of it.
const (
	MaxTemplate = 512 << 10
	maxServed   = transfer.MaxBytes - 64<<10
)

// maxQuoted bounds a text of a template in a message, in bytes.
const maxQuoted = 100

// Outcome is what an export of a template needs.
type Outcome struct {
	// Fault is why the template cannot be exported; nil if it can.
	Fault *Fault
	// Volumes are cloned, in the order of the OVA. They are known although one is in a namespace that the export does not name.
	Volumes []Volume
	// FileName is that of the OVA or the artifact.
	FileName string
	Warnings []string
}

// Volume is a volume of the template with content.
type Volume struct {
	// Name is that in the template.
	Name string
	// Source is a PersistentVolumeClaim, a VolumeSnapshot or a DataSource.
	Source v1beta1.ExportSource
}

// Fault is why a template cannot be exported. It does not change by itself.
type Fault struct {
	// Reason is one of the conditions of an export.
	Reason, Message string
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

func fault(reason, format string, args ...any) *Fault {
	return &Fault{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Evaluate decides what an export of a template needs.
func Evaluate(of *v1beta1.VirtualMachineTemplateExport, template *v1beta1.VirtualMachineTemplate) *Outcome {
	o := &Outcome{}
	export, err := ovf.NewExport(template, ovf.ExportOptions{KeepUserData: of.Spec.KeepUserData})
	if err != nil {
		o.Fault = fault(v1beta1.ReasonNotExportable, "the template %s: %s", template.Name, err)
		return o
	}
	o.FileName = exportserver.FileOf(of.Spec.Format, template.Name)
	volumes := make([]string, 0, len(export.Contents))
	for i := range export.Contents {
		volumes = append(volumes, export.Contents[i].Volume)
	}
	var warnings []string
	for _, w := range export.Warnings {
		warnings = append(warnings, fmt.Sprintf("%s: %s: %s", w.Code, cmp.Or(w.Element, "template"), w.Message))
	}
	if of.Spec.Format == v1beta1.ExportOCI {
		if volumes, warnings, err = layered(template); err != nil {
			o.Fault = fault(v1beta1.ReasonNotExportable, "the template %s: %s", template.Name, err)
			return o
		}
	}
	for _, w := range warnings {
		if len(o.Warnings) < v1beta1.MaxImportNotes {
			o.Warnings = append(o.Warnings, texts.ShortenCharacters(w, v1beta1.MaxImportNote))
		}
	}
	if len(volumes) > v1beta1.MaxExportDisks {
		o.Fault = fault(v1beta1.ReasonNotExportable, "the template has %d volumes with content, and at most %d are exported", len(volumes), v1beta1.MaxExportDisks)
		return o
	}
	for _, part := range []struct {
		name string
		part any
		most int
	}{{"spec of the template", template.Spec, MaxTemplate}, {"template with its labels and annotations", served(template), maxServed}} {
		if data, err := json.Marshal(part.part); err != nil || len(data) > part.most {
			o.Fault = fault(v1beta1.ReasonNotExportable, "the %s has more than %d KiB", part.name, part.most>>10)
			return o
		}
	}
	m, err := machineOf(template)
	if err != nil {
		o.Fault = fault(v1beta1.ReasonNotExportable, "the template %s: %s", template.Name, err)
		return o
	}
	for _, volume := range volumes {
		source, f := m.source(of, template, volume)
		if f != nil {
			o.Fault = f
			return o
		}
		o.Volumes = append(o.Volumes, Volume{volume, *source})
	}
	for i := range o.Volumes {
		if o.Fault = Permitted(of, &o.Volumes[i].Source, o.Volumes[i].Name); o.Fault != nil {
			break
		}
	}
	return o
}

// layered are the volumes that an artifact has as layers, and what it does not have.
func layered(template *v1beta1.VirtualMachineTemplate) (volumes, warnings []string, err error) {
	object, _, err := exportserver.ObjectOf(served(template))
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it names the field
	}
	for i := range object.Volumes {
		v := &object.Volumes[i]
		if v.Layered {
			volumes = append(volumes, v.Name)
			continue
		}
		warnings = append(warnings, "the artifact has no disk of the volume "+v.Name+": it has the reference to its source, as an artifact of KubeVirt")
	}
	return volumes, warnings, nil
}

// served is a template as the plan of a server has it.
func served(template *v1beta1.VirtualMachineTemplate) *v1beta1.VirtualMachineTemplate {
	template = template.DeepCopy()
	template.ManagedFields, template.Status = nil, v1beta1.VirtualMachineTemplateStatus{}
	return template
}

// machine is what is read of a VirtualMachine whose texts can refer to parameters.
type machine struct {
	Spec struct {
		DataVolumeTemplates []dataVolume `json:"dataVolumeTemplates"`
		Template            struct {
			Spec struct {
				Volumes []struct {
					Name       string `json:"name"`
					DataVolume *struct {
						Name string `json:"name"`
					} `json:"dataVolume"`
					PersistentVolumeClaim *struct {
						ClaimName string `json:"claimName"`
					} `json:"persistentVolumeClaim"`
				} `json:"volumes"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// dataVolume is a template of a DataVolume.
type dataVolume struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Source map[string]struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"source"`
		SourceRef *struct {
			Kind      string `json:"kind"`
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"sourceRef"`
	} `json:"spec"`
}

func machineOf(template *v1beta1.VirtualMachineTemplate) (*machine, error) {
	m := &machine{}
	if template.Spec.VirtualMachine == nil {
		return nil, fmt.Errorf("it has no virtual machine")
	}
	if err := json.Unmarshal(template.Spec.VirtualMachine.Raw, m); err != nil {
		return nil, fmt.Errorf("its virtual machine cannot be decoded: %w", err)
	}
	return m, nil
}

// source is where the content of a volume is.
func (m *machine) source(of *v1beta1.VirtualMachineTemplateExport, template *v1beta1.VirtualMachineTemplate, volume string) (*v1beta1.ExportSource, *Fault) {
	volumes := m.Spec.Template.Spec.Volumes
	at := -1
	for i := range volumes {
		if name, _ := templates.Defaults(volumes[i].Name, template.Spec.Parameters); name == volume || volumes[i].Name == volume {
			at = i
		}
	}
	if at < 0 || volumes[at].DataVolume == nil && volumes[at].PersistentVolumeClaim == nil {
		return nil, fault(v1beta1.ReasonNotExportable, "the volume %s: its name depends on a parameter", volume)
	}
	path := fmt.Sprintf("spec.virtualMachine.spec.template.spec.volumes[%d]", at)
	found := &v1beta1.ExportSource{Kind: apikinds.PersistentVolumeClaim}
	if claim := volumes[at].PersistentVolumeClaim; claim != nil {
		found.Name = claim.ClaimName
	} else {
		found.Name = volumes[at].DataVolume.Name // a DataVolume has a claim with its name
	}
	for i := range m.Spec.DataVolumeTemplates {
		if t := &m.Spec.DataVolumeTemplates[i]; t.Metadata.Name == found.Name {
			var f *Fault
			path = fmt.Sprintf("spec.virtualMachine.spec.dataVolumeTemplates[%d].spec", i)
			if found, f = t.source(path); f != nil {
				return nil, f
			}
			break
		}
	}
	for _, text := range []*string{&found.Namespace, &found.Name} {
		value, without := templates.Defaults(*text, template.Spec.Parameters)
		if without != "" {
			return nil, fault(v1beta1.ReasonNotExportable, "%s: the content of the volume %s depends on the parameter %s, which has no value in the template", path, volume, without)
		}
		*text = value
	}
	found.Namespace = cmp.Or(found.Namespace, of.Namespace)
	for _, of := range []struct {
		text   string
		faults []string
	}{
		{found.Name, validation.IsDNS1123Subdomain(found.Name)},
		{found.Namespace, validation.IsDNS1123Label(found.Namespace)},
		{volume, validation.IsDNS1123Subdomain(volume)},
	} {
		if len(of.faults) > 0 {
			return nil, fault(v1beta1.ReasonNotExportable, "%s: the content of the volume %s: %q is not a name: %s", path, texts.Shorten(volume, maxQuoted), texts.Shorten(of.text, maxQuoted), of.faults[0])
		}
	}
	return found, nil
}

// source is that of a template of a DataVolume.
func (d *dataVolume) source(path string) (*v1beta1.ExportSource, *Fault) {
	if r := d.Spec.SourceRef; r != nil {
		if kind := cmp.Or(r.Kind, apikinds.DataSource); kind != apikinds.DataSource {
			return nil, fault(v1beta1.ReasonNotExportable, "%s.sourceRef.kind: %s is not known", path, texts.Shorten(kind, maxQuoted))
		}
		return &v1beta1.ExportSource{Kind: apikinds.DataSource, Namespace: r.Namespace, Name: r.Name}, nil
	}
	for source, kind := range map[string]string{"pvc": apikinds.PersistentVolumeClaim, "snapshot": apikinds.VolumeSnapshot} {
		if s, has := d.Spec.Source[source]; has {
			return &v1beta1.ExportSource{Kind: kind, Namespace: s.Namespace, Name: s.Name}, nil
		}
	}
	for source := range d.Spec.Source {
		return nil, fault(v1beta1.ReasonNotExportable, "%s.source.%s: the content is not in the cluster: make a volume of it, and refer to that with source.pvc", path, texts.Shorten(source, maxQuoted))
	}
	return nil, fault(v1beta1.ReasonNotExportable, "%s: it has no source", path)
}

// Permitted is why an export may not clone from a source; nil if it may.
func Permitted(of *v1beta1.VirtualMachineTemplateExport, source *v1beta1.ExportSource, volume string) *Fault {
	if source.Namespace == of.Namespace || slices.Contains(of.Spec.SourceNamespaces, source.Namespace) {
		return nil
	}
	return fault(v1beta1.ReasonSourceNotPermitted, "the volume %s is cloned from the %s %s/%s: create an export with %s in spec.sourceNamespaces; you need permission to clone from there",
		volume, source.Kind, source.Namespace, source.Name, source.Namespace)
}

// Follow is what a DataSource refers to.
func Follow(source *cdiv1beta1.DataSource) (*v1beta1.ExportSource, *Fault) {
	named := func(kind, namespace, name string) (*v1beta1.ExportSource, *Fault) {
		return &v1beta1.ExportSource{Kind: kind, Namespace: cmp.Or(namespace, source.Namespace), Name: name}, nil
	}
	switch s := source.Spec.Source; {
	case s.PVC != nil:
		return named(apikinds.PersistentVolumeClaim, s.PVC.Namespace, s.PVC.Name)
	case s.Snapshot != nil:
		return named(apikinds.VolumeSnapshot, s.Snapshot.Namespace, s.Snapshot.Name)
	case s.DataSource != nil:
		return named(apikinds.DataSource, s.DataSource.Namespace, s.DataSource.Name)
	}
	return nil, fault(v1beta1.ReasonNotExportable, "the DataSource %s/%s refers to nothing", source.Namespace, source.Name)
}
