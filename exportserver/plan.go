package exportserver

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
)

// MaxDisks bounds the disks of a plan.
const MaxDisks = 64

// maxText bounds a URL and a path in bytes.
const maxText = 8 << 10

// Plan is what a server exports.
type Plan struct {
	Template *v1beta1.VirtualMachineTemplate `json:"template"`
	// Hardware is that of the instancetype; nil if it is not known.
	Hardware *ovf.Hardware `json:"hardware,omitempty"`
	// Format is what is made; an OVA if it is empty.
	Format v1beta1.ExportFormat `json:"format,omitempty"`
	// KeepUserData keeps the data of cloud-init with its secrets.
	KeepUserData bool `json:"keepUserData,omitempty"`
	// Disks are the volumes of the template that have content.
	Disks []Disk `json:"disks"`
	// Sources are the places that URLs, and redirects, may lead to.
	Sources transfer.Sources `json:"sources"`
	// Headers are the names of headers for servers of URLs, with the files that have their values, such as x-kubevirt-export-token.
	Headers map[string]string `json:"headers,omitempty"`
	// AuthoritiesFile has the certificates in PEM that verify servers of URLs; empty for those of the system.
	AuthoritiesFile string           `json:"authoritiesFile,omitempty"`
	Serving         transfer.Serving `json:"serving"`
	// StatusToken is what requests for the status, and for nothing else, must have. It is not secret to who reads the status of the export.
	StatusToken string `json:"statusToken,omitempty"`
}

// form is how a format is served: the path, the end of the name of the file, and its media type.
type form struct{ path, suffix, mediaType string }

var forms = map[v1beta1.ExportFormat]form{
	v1beta1.ExportOVA: {path: "/export.ova", suffix: ".ova", mediaType: "application/ovf"},
	v1beta1.ExportOCI: {path: "/export.oci.tar", suffix: ".oci.tar", mediaType: "application/x-tar"},
}

// formOf is the form of a format; that of an OVA if it is empty.
func formOf(format v1beta1.ExportFormat) form { return forms[cmp.Or(format, v1beta1.ExportOVA)] }

// PathOf is the path of an export.
func PathOf(format v1beta1.ExportFormat) string { return formOf(format).path }

// FileOf is the name of the file of an export of a template.
func FileOf(format v1beta1.ExportFormat, template string) string {
	return ovf.Name(template) + formOf(format).suffix
}

// Disk is a raw image at a URL, or a file or a block device of a volume.
type Disk struct {
	// Volume is the name of the volume in the template.
	Volume string `json:"volume"`
	// URL is the place on a web server, which must send ranges. Either URL or Path is set.
	URL string `json:"url,omitempty"`
	// Path is the absolute path of a block device, or of a file at the top of a mounted volume. It is not a link.
	Path string `json:"path,omitempty"`
}

// Parse reads a plan. The error has all errors of fields.
func Parse(data []byte) (*Plan, error) {
	p := &Plan{}
	if err := transfer.ParseInto(data, p); err != nil {
		return nil, err //nolint:wrapcheck // it names the fields
	}
	return p, nil
}

// Validate returns all errors.
func (p *Plan) Validate() (found field.ErrorList) {
	if p.Template == nil {
		found = append(found, field.Required(field.NewPath("template"), "it is what is exported"))
	}
	if formOf(p.Format) == (form{}) {
		found = append(found, field.NotSupported(field.NewPath("format"), p.Format, slices.Sorted(maps.Keys(forms))))
	}
	permitted, err := p.Sources.Permitted()
	if err != nil {
		found = append(found, field.Invalid(field.NewPath("sources", "networks"), len(p.Sources.Networks), err.Error()))
	}
	if len(p.Disks) > MaxDisks {
		return append(found, field.TooMany(field.NewPath("disks"), len(p.Disks), MaxDisks))
	}
	seen := map[string]bool{}
	for i := range p.Disks {
		d, at := &p.Disks[i], field.NewPath("disks").Index(i)
		if seen[d.Volume] || d.Volume == "" {
			found = append(found, field.Invalid(at.Child("volume"), d.Volume, "must be the name of a volume, and not that of another disk"))
		}
		seen[d.Volume] = true
		switch {
		case (d.URL == "") == (d.Path == ""):
			found = append(found, field.Required(at, "name either url or path"))
		case len(d.URL)+len(d.Path) > maxText:
			found = append(found, field.TooLong(at, "", maxText))
		case d.Path != "" && (!path.IsAbs(d.Path) || path.Clean(d.Path) != d.Path):
			found = append(found, field.Invalid(at.Child("path"), d.Path, "must be an absolute path without . and .."))
		case d.URL != "" && err == nil:
			if err := permitted.CheckURL(d.URL); err != nil {
				found = append(found, field.Invalid(at.Child("url"), sources.Redact(d.URL), err.Error()))
			}
		}
	}
	return append(found, p.files()...)
}

// files validates the names of files.
func (p *Plan) files() (found field.ErrorList) {
	serving := field.NewPath("serving")
	names := map[string]*field.Path{p.Serving.CertificateFile: serving.Child("certificateFile"), p.Serving.KeyFile: serving.Child("keyFile"), p.Serving.TokenFile: serving.Child("tokenFile")}
	if len(names) < 3 || names[""] != nil {
		found = append(found, field.Invalid(serving, p.Serving, "name three different files"))
	}
	if p.AuthoritiesFile != "" {
		names[p.AuthoritiesFile] = field.NewPath("authoritiesFile")
	}
	for header, name := range p.Headers {
		names[name] = field.NewPath("headers").Key(header)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != "" && (!path.IsAbs(name) || path.Clean(name) != name || len(name) > maxText) {
			found = append(found, field.Invalid(names[name], name, "must be an absolute path without . and .."))
		}
	}
	return found
}
