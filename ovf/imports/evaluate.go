package imports

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// MaxTemplate bounds the template of an import in bytes of JSON.
const MaxTemplate = 512 << 10

// Outcome is what an import of an appliance creates.
type Outcome struct {
	// Fault is why it creates nothing; nil if it can begin.
	Fault *Fault
	// Disks are imported, in the order of the template.
	Disks []Disk
	// Template is nil with a Fault.
	Template *v1beta1.VirtualMachineTemplate
	// Choices, Warnings and Rejections are for the status.
	Choices              *v1beta1.ImportChoices
	Warnings, Rejections []string
	// Plan is the digest of the disks and of the template: it is equal as long as the descriptor and the options are.
	Plan string
	// TemplateDigest is that of the spec of the template: see templates.SpecDigest. It is empty for one that makes no virtual machine.
	TemplateDigest string
}

// Disk is a disk or a CD that is imported into a DataVolume.
type Disk struct {
	// Name is that of the DataVolume.
	Name string
	// Size is that of the content in bytes.
	Size int64
	// File is where the content is in the package. That of an artifact is a layer.
	File appliance.File
	// Padded tells that the layer can have fewer bytes than the disk.
	Padded bool `json:",omitempty"`
}

// Fault is why an appliance cannot be imported. It does not change by itself.
type Fault struct {
	// Reason is one of the conditions of an import.
	Reason, Message string
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

func fault(reason, format string, args ...any) *Fault {
	return &Fault{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Options are those with which the appliance of an import is read.
func Options(of *v1beta1.VirtualMachineTemplateImport) appliance.Options {
	return appliance.Options{
		Options:     ovf.Options{VirtualSystem: of.Spec.VirtualSystem, DeploymentOption: of.Spec.DeploymentOption, Lax: of.Spec.Lax},
		HeadersOnly: true,
	}
}

// Unknown is the outcome of an appliance without the virtual system or the deployment option that the import names.
func Unknown(err *ovf.ChoiceError) *Outcome {
	path := map[string]string{ovf.WhatVirtualSystem: "spec.virtualSystem", ovf.WhatDeploymentOption: "spec.deploymentOption"}[err.What]
	c := &v1beta1.ImportChoices{}
	addChoices(c, &err.Choices)
	return &Outcome{Choices: c, Fault: fault(v1beta1.ReasonChoiceRequired, "%s: the descriptor has no %s %q: choose one of status.choices, or remove this field", path, err.What, texts.Shorten(err.ID, 100))}
}

// Evaluate decides what an import of an appliance creates. The appliance was read with Options, and is changed.
func Evaluate(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) *Outcome {
	o := &Outcome{Choices: choicesOf(found)}
	for i := range found.Rejections {
		o.Rejections = note(o.Rejections, string(found.Rejections[i].Reason)+": "+found.Rejections[i].Error())
	}
	var known *Fault
	if err := o.evaluate(of, found); errors.As(err, &known) {
		o.Fault, o.Disks, o.Template = known, nil, nil
	}
	return o
}

// evaluate returns the first fault.
func (o *Outcome) evaluate(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) error {
	if f := rejected(found); f != nil {
		o.warn(found.Warnings)
		return f
	}
	for _, check := range []func(*v1beta1.VirtualMachineTemplateImport, *appliance.Appliance) *Fault{accepted, mapped, given, listed} {
		if f := check(of, found); f != nil {
			o.warn(found.Warnings)
			return f
		}
	}
	before := len(found.Mapping.Warnings)
	template, err := found.Mapping.Template(ovf.TemplateOptions{Name: TemplateName(of), Namespace: of.Namespace, Networks: networksOf(of)})
	o.warn(found.Warnings)
	if err != nil { // the rejections are none, so it is about networks
		return fault(v1beta1.ReasonChoiceRequired, "spec.networkMappings: %s", err)
	}
	o.warn(found.Mapping.Warnings[before:])
	for i := range template.Claims {
		disk, err := diskOf(&template.Claims[i], found)
		if err != nil {
			return err
		}
		o.Disks = append(o.Disks, *disk)
	}
	if len(o.Disks) > v1beta1.MaxImportDisks {
		return fault(v1beta1.ReasonNotImportable, "the virtual system has %d disks and CDs with content, and at most %d are imported", len(o.Disks), v1beta1.MaxImportDisks)
	}
	parts := 0
	for i := range o.Disks {
		parts += len(o.Disks[i].File.Parts)
	}
	if parts > transfer.MaxParts {
		return fault(v1beta1.ReasonNotImportable, "%s: the disks and CDs have %d files together, and at most %d are imported", ovf.LimitExceeded, parts, transfer.MaxParts)
	}
	if err := adapt(template.VirtualMachineTemplate, &of.Spec); err != nil {
		return err
	}
	o.Template = template.VirtualMachineTemplate
	return o.seal()
}

// rejected is the fault of an appliance that cannot be imported, or that offers a choice.
func rejected(found *appliance.Appliance) *Fault {
	switch found.Verdict {
	case appliance.Importable:
		return nil
	case appliance.NeedsChoice:
		return fault(v1beta1.ReasonChoiceRequired, "spec.virtualSystem: the descriptor has several virtual systems: choose one of status.choices.virtualSystems")
	}
	more := ""
	if n := len(found.Rejections) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more, see status.rejections)", n)
	}
	return fault(v1beta1.ReasonNotImportable, "%s: %s%s", found.Rejections[0].Reason, found.Rejections[0].Error(), more)
}

// accepted requires that the user accepts the license.
func accepted(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) *Fault {
	if len(found.Eulas) > 0 && !of.Spec.AcceptEula {
		return fault(v1beta1.ReasonChoiceRequired, "spec.acceptEula: the appliance has a license: read it with kubectl virtward ova inspect, and set acceptEula to true if you accept it")
	}
	return nil
}

// mapped requires that the descriptor has the networks that are mapped.
func mapped(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) *Fault {
	for i, m := range of.Spec.NetworkMappings {
		if !slices.ContainsFunc(found.VirtualSystem.NICs, func(n ovf.NIC) bool { return n.Network == m.Source }) {
			return fault(v1beta1.ReasonInvalidConfiguration, "spec.networkMappings[%d].source: no interface of the virtual system is in the network %q", i, texts.Shorten(m.Source, 100))
		}
	}
	return nil
}

// given sets the values of properties.
func given(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) *Fault {
	for _, key := range slices.Sorted(maps.Keys(of.Spec.Properties)) {
		at := slices.IndexFunc(found.Mapping.Properties, func(p ovf.Property) bool { return p.Key == key })
		path := fmt.Sprintf("spec.properties[%s]", texts.Shorten(key, 100))
		switch {
		case at < 0:
			return fault(v1beta1.ReasonInvalidConfiguration, "%s: the virtual system has no such property: see status.choices.properties", path)
		case !found.Mapping.Properties[at].UserConfigurable:
			return fault(v1beta1.ReasonInvalidConfiguration, "%s: the descriptor does not let users set the property", path)
		case found.Mapping.Properties[at].Password:
			return fault(v1beta1.ReasonInvalidConfiguration, "%s: the property is a password, which every reader of the template could read: set it when you create a virtual machine", path)
		}
		found.Mapping.Properties[at].Default = of.Spec.Properties[key]
	}
	return nil
}

// listed requires what spec.verify does, as far as the manifest shows it. Of an artifact, the digest of the layer covers all files.
func listed(of *v1beta1.VirtualMachineTemplateImport, found *appliance.Appliance) *Fault {
	if of.Spec.Verify != v1beta1.ImportVerifyRequire || of.Spec.Source.OCI != nil {
		return nil
	}
	if found.Package.Manifest == nil {
		return fault(v1beta1.ReasonVerificationFailed, "spec.verify: the appliance has no manifest")
	}
	if !found.Package.Manifest.Descriptor {
		return fault(v1beta1.ReasonVerificationFailed, "spec.verify: the manifest does not list the descriptor")
	}
	for i := range found.Files {
		for _, p := range found.Files[i].Parts {
			if p.Digest == "" {
				return fault(v1beta1.ReasonVerificationFailed, "spec.verify: the manifest does not list the file %s", texts.Shorten(p.Name, 100))
			}
		}
	}
	return nil
}

func networksOf(of *v1beta1.VirtualMachineTemplateImport) map[string]string {
	all := map[string]string{}
	for _, m := range of.Spec.NetworkMappings {
		all[m.Source] = m.Target
	}
	return all
}

// diskOf finds the content of a claim. The size of a CD is that of its file.
func diskOf(claim *ovf.Claim, found *appliance.Appliance) (*Disk, error) {
	at := slices.IndexFunc(found.Files, func(f appliance.File) bool { return f.Href == claim.Href })
	if at < 0 {
		return nil, fault(v1beta1.ReasonNotImportable, "%s: the file %s is not in the package", ovf.MissingFile, texts.Shorten(claim.Href, 100))
	}
	d := &Disk{Name: claim.Name, Size: claim.CapacityBytes, File: found.Files[at]}
	size := int64(0)
	for _, p := range d.File.Parts {
		size += p.Size
	}
	if d.Size == 0 {
		if d.File.Compression != "" {
			return nil, fault(v1beta1.ReasonNotImportable, "%s: the CD image %s is compressed, and its size is not known", ovf.UnsupportedFormat, texts.Shorten(claim.Href, 100))
		}
		d.Size = size
	}
	return d, nil
}

// seal computes the digest of the outcome, and bounds the template.
func (o *Outcome) seal() error {
	spec, err := json.Marshal(o.Template.Spec)
	if err != nil {
		return fault(v1beta1.ReasonNotImportable, "the template cannot be encoded: %s", err)
	}
	if len(spec) > MaxTemplate {
		return fault(v1beta1.ReasonNotImportable, "%s: the template has %d KiB, and at most %d are imported", ovf.LimitExceeded, len(spec)>>10, MaxTemplate>>10)
	}
	disks, err := json.Marshal(o.Disks)
	if err != nil {
		return fault(v1beta1.ReasonNotImportable, "the disks cannot be encoded: %s", err)
	}
	sum := sha256.New()
	sum.Write(spec)
	sum.Write(disks)
	o.Plan = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	o.TemplateDigest, _ = templates.SpecDigest(&o.Template.Spec) // a template without one cannot be approved
	return nil
}

func shortened(text string) string { return texts.ShortenCharacters(text, v1beta1.MaxImportNote) }

// note adds a text to a list of the status, unless it is full.
func note(list []string, text string) []string {
	if len(list) >= v1beta1.MaxImportNotes {
		return list
	}
	return append(list, shortened(text))
}

func (o *Outcome) warn(warnings []ovf.Warning) {
	for _, w := range warnings {
		o.Warnings = note(o.Warnings, fmt.Sprintf("%s: %s: %s", w.Code, cmp.Or(w.Element, "package"), w.Message))
	}
}

// choicesOf are what the user can choose.
func choicesOf(found *appliance.Appliance) *v1beta1.ImportChoices {
	c := &v1beta1.ImportChoices{Eula: len(found.Eulas) > 0}
	addChoices(c, &found.Choices)
	if len(c.VirtualSystems) < 2 {
		c.VirtualSystems = nil
	}
	for _, n := range found.Networks {
		addChoice(&c.Networks, n.Name, n.Description)
	}
	for i := range found.Properties {
		if p := &found.Properties[i]; p.UserConfigurable && !p.Password {
			addChoice(&c.Properties, p.Key, cmp.Or(p.Label, p.Description))
		}
	}
	if c.Eula || len(c.VirtualSystems)+len(c.DeploymentOptions)+len(c.Networks)+len(c.Properties) > 0 {
		return c
	}
	return nil
}

// addChoices adds the virtual systems and the deployment options.
func addChoices(c *v1beta1.ImportChoices, found *ovf.Choices) {
	for _, v := range found.VirtualSystems {
		addChoice(&c.VirtualSystems, v.ID, v.Name)
	}
	for _, d := range found.DeploymentOptions {
		addChoice(&c.DeploymentOptions, d.ID, strings.TrimSpace(d.Label))
	}
}

// addChoice adds a choice to a list of the status, unless it is full.
func addChoice(to *[]v1beta1.ImportChoice, id, label string) {
	if len(*to) < v1beta1.MaxImportNotes && id != "" {
		*to = append(*to, v1beta1.ImportChoice{ID: shortened(id), Label: shortened(label)})
	}
}
