package appliance

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/texts"
)

// The verdicts.
const (
	Importable  = "Importable"
	Rejected    = "Refused"
	NeedsChoice = "NeedsChoice"
)

// Appliance is what a package is, and what an import of it would create.
type Appliance struct {
	APIVersion    string          `json:"apiVersion"`
	Kind          string          `json:"kind"`
	Source        string          `json:"source"`
	Verdict       string          `json:"verdict"`
	Rejections    []ovf.Rejection `json:"refusals"`
	Needs         []string        `json:"needs"`
	Package       Package         `json:"package"`
	Choices       ovf.Choices     `json:"choices"`
	Eulas         []ovf.Eula      `json:"eulas"`
	Networks      []ovf.Network   `json:"networks"`
	Properties    []ovf.Property  `json:"properties"`
	VirtualSystem *ovf.System     `json:"virtualSystem,omitempty"`
	Warnings      []ovf.Warning   `json:"warnings"`

	// Mapping is what the descriptor becomes; nil if it cannot be read.
	Mapping *ovf.Mapping `json:"-"`
	// Texts are the SHA-256 digests of the files that were read as texts, by their names: of the descriptor, the manifest, its certificate
	// and message bundles.
	Texts map[string]string `json:"-"`
	// Files are the images that the virtual system uses, in the order of the descriptor.
	Files []File `json:"-"`
}

// File is an image, and where it is in the package.
type File struct {
	Href, Compression string
	// Format is what was found in the image; empty if it was not read.
	Format string
	// MaxContent bounds the decompressed bytes.
	MaxContent int64
	// Parts are one behind the other: a file can have been cut into chunks.
	Parts []Part
}

// Part is a file of the package, in the archive or beside the descriptor.
type Part struct {
	Name string
	// Offset is where it begins in the archive, in bytes; 0 beside a descriptor.
	Offset, Size int64
	// Digest is that of the manifest, such as sha256: and hexadecimal digits; empty without one.
	Digest string
}

// Package describes the files.
type Package struct {
	// Format is OVA or OVF.
	Format      string       `json:"format"`
	Compression string       `json:"compression"`
	Descriptor  string       `json:"descriptor"`
	OVFVersion  string       `json:"ovfVersion"`
	Producer    string       `json:"producer"`
	Manifest    *Manifest    `json:"manifest,omitempty"`
	Certificate *Certificate `json:"certificate,omitempty"`
}

// Manifest is the file with the digests.
type Manifest struct {
	File      string `json:"file"`
	Algorithm string `json:"algorithm"`
	// Verified tells that all files of the package have the digests of the manifest.
	Verified bool `json:"verified"`
	// Descriptor tells that the manifest lists the descriptor, whose digest was compared.
	Descriptor bool `json:"-"`
}

// Certificate is the file with the signature of the manifest.
type Certificate struct {
	File string `json:"file"`
	// Signer is the subject of the certificate. Any package can have any.
	Signer string `json:"signer,omitempty"`
	// Verified tells that the signature is that of the manifest, and that an authority of the user issued the certificate.
	Verified bool `json:"verified"`
}

// Options are the choices of the user.
type Options struct {
	ovf.Options
	// HeadersOnly reads neither the content of disks nor their digests. That of the descriptor is compared as ever.
	HeadersOnly bool
	// Trust says why the certificate of a signer, with others of the package, is not one of the user's authorities. If it is set, the
	// package must have a valid signature. Without it, a signature is compared and not trusted.
	Trust func(signer *x509.Certificate, others []*x509.Certificate) error
	// Remote tells that the package is on a web server, for messages.
	Remote bool
	// Sibling opens a file beside a bare descriptor by its name, which has no "..". It returns nil for a file that does not exist.
	Sibling func(name string) (Data, error)
	// Scratch creates a place for a decompressed disk. Without it, compressed disks are not inspected.
	Scratch func() (Scratch, error)
}

// inspection inspects one package.
type inspection struct {
	options    Options
	source     *source
	found      *Appliance
	problems   ovf.Problems
	descriptor *ovf.Descriptor
	digests    []digest
	// used are the names of all files that have a purpose.
	used map[string]bool
}

// Inspect reads a package. The error is one of reading, or an *ovf.ChoiceError. Everything else is a rejection of the result.
func Inspect(name string, data Data, options Options) (*Appliance, error) {
	options.File = name
	in := &inspection{options: options, used: map[string]bool{}, found: &Appliance{
		Texts:      map[string]string{},
		APIVersion: "cli.virtward.io/v1alpha1", Kind: "Appliance", Source: name, Needs: []string{}, Eulas: []ovf.Eula{}, Networks: []ovf.Network{}, Properties: []ovf.Property{},
		Choices: ovf.Choices{VirtualSystems: []ovf.Choice{}, DeploymentOptions: []ovf.DeploymentOption{}},
	}}
	var rejected *ovf.Rejection
	if err := in.run(name, data); errors.As(err, &rejected) {
		in.problems.Rejections = append(in.problems.Rejections, *rejected)
	} else if err != nil {
		return nil, err
	}
	in.conclude()
	return in.found, nil
}

// run returns the first rejection that ends the inspection, or an error.
func (in *inspection) run(name string, data Data) (err error) {
	if in.source, err = open(name, data, in.options.Sibling, in.options.Remote); err != nil {
		return err
	}
	in.found.Package.Format = in.source.format
	for _, step := range []func() error{in.readDescriptor, in.readManifest, in.checkFiles, in.mapImages} {
		if err := step(); err != nil {
			return err
		}
	}
	in.extras()
	return nil
}

func (in *inspection) readDescriptor() error {
	all := in.source.members
	if in.source.format == FormatOVA {
		all = in.source.withExtension(".ovf")
	}
	switch {
	case len(all) == 0:
		return rejection(ovf.NoDescriptor, "", "the archive has no file with the extension .ovf", "name an OVA")
	case len(all) > 1:
		return rejection(ovf.SeveralDescriptors, all[1].name, "the archive has several files with the extension .ovf", "leave one of them")
	}
	m := all[0]
	in.found.Package.Descriptor = m.name
	in.used[m.name] = true
	data, err := in.content(m, ovf.MaxBytes, "descriptor")
	if err != nil {
		return err
	}
	if in.descriptor, err = ovf.Parse(data); err != nil {
		return err
	}
	in.found.Package.OVFVersion, in.found.Package.Producer = in.descriptor.Version, in.descriptor.Producer
	if in.source.members[0].name != m.name {
		in.problems.Warn(ovf.MemberOrder, m.name, "the descriptor is not the first file of the archive")
	}
	return nil
}

func (in *inspection) readManifest() error {
	certificate, err := in.source.companion(in.found.Package.Descriptor, ".cert")
	if err != nil {
		return err
	}
	if certificate != nil {
		in.used[certificate.name] = true
		in.found.Package.Certificate = &Certificate{File: certificate.name}
	}
	manifest, err := in.source.companion(in.found.Package.Descriptor, ".mf")
	if err == nil && manifest == nil && in.options.Trust != nil {
		in.problems.Reject(ovf.ManifestInvalid, in.found.Package.Descriptor, "the package has no manifest, so its signature cannot be verified", "name no certificate authority, or use a signed package")
	}
	if err != nil || manifest == nil {
		return err
	}
	in.used[manifest.name] = true
	data, err := in.content(*manifest, maxManifest, "manifest")
	if err != nil {
		return err
	}
	digests, rejected := parseManifest(manifest.name, data)
	if rejected != nil {
		return rejected
	}
	in.digests = digests
	in.found.Package.Manifest = &Manifest{File: manifest.name, Algorithm: digests[0].algorithm}
	if err := in.verifyCertificate(certificate, manifest.name, data); err != nil {
		return err
	}
	return in.verify()
}

// verify compares the digests of the manifest with the files.
func (in *inspection) verify() error {
	listed, verified := map[string]bool{}, true
	for i := range in.digests {
		d := &in.digests[i]
		listed[d.file] = true
		if ovf.CheckHref(d.file, d.file) != nil {
			return rejection(ovf.ManifestInvalid, in.found.Package.Manifest.File, "the manifest lists a path that leaves the package", "list files of the package")
		}
		if in.options.HeadersOnly && d.file != in.found.Package.Descriptor {
			verified = false
			continue
		}
		found, err := in.source.find(d.file)
		switch {
		case err != nil:
			return err
		case found == nil:
			verified = false
			in.problems.Warn(ovf.FileAbsent, d.file, "the manifest lists the file, which does not exist")
			continue
		}
		matches, err := d.matches(found.data)
		switch {
		case err != nil:
			return err
		case !matches:
			verified = false
			in.problems.Reject(ovf.ManifestMismatch, d.file, "the file does not have the digest of the manifest", "download the package again")
		}
	}
	for _, m := range in.source.members {
		if !listed[m.name] && !in.used[m.name] || m.name == in.found.Package.Descriptor && !listed[m.name] {
			verified = false
		}
	}
	in.found.Package.Manifest.Verified, in.found.Package.Manifest.Descriptor = verified, listed[in.found.Package.Descriptor]
	return nil
}

// file are the parts of a file of the descriptor: one, or chunks. There are none if the file does not exist.
func (in *inspection) file(f *ovf.File) ([]member, error) {
	if found, err := in.source.find(f.Href); err != nil {
		return nil, err
	} else if found != nil {
		in.used[found.name] = true
		return []member{*found}, nil
	}
	var chunks []member
	for n := range ovf.MaxFiles {
		name := fmt.Sprintf("%s.%09d", f.Href, n)
		found, err := in.source.find(name)
		if err != nil {
			return nil, err
		}
		if found == nil {
			break
		}
		in.used[found.name] = true
		chunks = append(chunks, *found)
	}
	if len(chunks) > 0 || f.ChunkSize > 0 {
		return chunks, nil
	}
	return in.newest(f.Href), nil
}

// newest is the file whose name is that of another one with the highest number behind it.
func (in *inspection) newest(href string) (newest []member) {
	highest := -1
	for _, m := range in.source.members {
		suffix, prefixed := strings.CutPrefix(m.name, strings.TrimPrefix(href, here)+".")
		if n, err := strconv.Atoi(suffix); prefixed && err == nil && n > highest {
			highest, newest = n, []member{m}
		}
	}
	for _, m := range newest {
		in.used[m.name] = true
	}
	return newest
}

// together is the content of parts, one behind the other.
func together(parts []member) Data {
	if len(parts) == 1 {
		return parts[0].data
	}
	all := make([]Data, len(parts))
	for i := range parts {
		all[i] = parts[i].data
	}
	return newJoined(all)
}

// places are parts as Appliance has them.
func (in *inspection) places(parts []member) []Part {
	list := make([]Part, len(parts))
	for i, p := range parts {
		list[i] = Part{Name: p.name, Offset: p.offset, Size: p.data.Size()}
		for j := range in.digests {
			if d := &in.digests[j]; d.file == p.name {
				list[i].Digest = d.text()
			}
		}
	}
	return list
}

// content reads a text of the package.
func (in *inspection) content(m member, limit int64, what string) ([]byte, error) {
	data, err := content(m, limit, what)
	if err == nil {
		in.note(m.name, data)
	}
	return data, err
}

// note keeps the digest of a text.
func (in *inspection) note(name string, text []byte) {
	sum := sha256.Sum256(text)
	in.found.Texts[name] = "sha256:" + hex.EncodeToString(sum[:])
}

// checkFiles finds the files of the descriptor, and reads the message bundles. Several elements can refer to one file.
func (in *inspection) checkFiles() error {
	seen, left := map[string]bool{}, int64(maxBundles)
	for i := range in.descriptor.Files {
		f := &in.descriptor.Files[i]
		bundle := slices.Contains(in.descriptor.Bundles, f.ID)
		if seen[f.Href] && !bundle || ovf.CheckHref(f.Href, f.Element) != nil {
			continue // the mapping rejects the reference
		}
		seen[f.Href] = true
		parts, err := in.file(f)
		switch {
		case err != nil:
			return err
		case len(parts) == 0 && in.source.format == FormatOVA:
			in.problems.Reject(ovf.MissingFile, f.Element, "the archive has no file "+strconv.Quote(texts.Shorten(f.Href, 120)), "add the file")
		case len(parts) == 0:
			in.problems.Warn(ovf.FileAbsent, f.Element, "the file "+strconv.Quote(texts.Shorten(f.Href, 120))+" is not beside the descriptor: it is not inspected")
		case bundle:
			size := together(parts).Size()
			if size > left {
				in.problems.Warn(ovf.SectionDropped, f.Element, "the message bundle is not read: all bundles have more than 1 MiB together")
				continue
			}
			left -= size
			if err := in.readBundle(f, parts); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBundle reads a message bundle.
func (in *inspection) readBundle(f *ovf.File, parts []member) error {
	text, err := content(member{name: f.Href, data: together(parts)}, maxBundles, "message bundle")
	if err != nil {
		return err
	}
	for rest := text; len(parts) > 0; parts = parts[1:] {
		size := parts[0].data.Size()
		in.note(parts[0].name, rest[:size])
		rest = rest[size:]
	}
	if err := in.descriptor.AddBundle(text); err != nil {
		in.problems.Warn(ovf.SectionDropped, f.Element, "the message bundle is not read: "+err.Error())
	}
	return nil
}

// mapImages maps the descriptor, inspects the images that the virtual system uses, and maps it again with their sizes.
func (in *inspection) mapImages() error {
	first, err := ovf.Map(in.descriptor, in.options.Options)
	if err != nil {
		return err
	}
	in.found.Mapping = first
	if first.System == nil {
		return nil
	}
	results, seen := map[string]inspected{}, map[string]bool{}
	reader := images{in.options, maxHashed}
	for i := range in.descriptor.Files {
		f := &in.descriptor.Files[i]
		limit, used := limitOf(first.System, f.Href)
		if !used || seen[f.Href] || ovf.CheckHref(f.Href, f.Element) != nil {
			continue
		}
		seen[f.Href] = true
		parts, err := in.file(f)
		if err != nil {
			return err
		}
		if len(parts) == 0 {
			continue
		}
		result, err := reader.inspect(f.Href, together(parts), f.Compression, limit)
		place := File{Href: f.Href, Compression: f.Compression, Format: result.format, Parts: in.places(parts)}
		if f.Compression != "" {
			place.MaxContent = limit
		}
		in.found.Files = append(in.found.Files, place)
		var rejected *ovf.Rejection
		switch {
		case errors.As(err, &rejected):
			in.problems.Rejections = append(in.problems.Rejections, *rejected)
		case err != nil:
			return err
		default:
			results[f.Href] = result
		}
	}
	return in.mapAgain(results)
}

// limitOf is how many bytes an image can have, and whether the virtual system uses it.
func limitOf(s *ovf.System, href string) (limit int64, used bool) {
	for i := range s.Disks {
		if d := &s.Disks[i]; d.Href == href {
			limit, used = max(limit, d.CapacityBytes+d.CapacityBytes/8+(16<<20)), true
		}
	}
	for _, c := range s.CDROMs {
		if c.Href == href {
			limit, used = max(limit, maxMedium), true
		}
	}
	return limit, used
}

func (in *inspection) mapAgain(results map[string]inspected) error {
	options := in.options.Options
	options.Sizes = map[string]int64{}
	for href, r := range results {
		options.Sizes[href] = r.size
	}
	mapping, err := ovf.Map(in.descriptor, options)
	if err != nil {
		return err
	}
	in.found.Mapping = mapping
	for i := range mapping.System.Disks {
		d := &mapping.System.Disks[i]
		r := results[d.Href]
		d.Image, d.ContentSHA256 = r.format, r.sum
		if declared := in.formatOf(d.Format); r.format != "" && declared != "" && declared != r.format {
			in.problems.Warn(ovf.FormatMismatch, d.Href, "the descriptor calls the image "+declared+", but it is "+r.format)
		}
	}
	in.checkFirmware(mapping.System, results)
	return nil
}

// formatOf is the format that a descriptor states with a URL; empty if it is not known. oVirt calls raw disks sparse VMDKs.
func (in *inspection) formatOf(url string) string {
	url = strings.ToLower(url)
	if in.descriptor.Producer == ovf.ProducerOVirt && strings.HasSuffix(url, "vmdk.html#sparse") {
		return ""
	}
	for _, known := range []struct{ part, format string }{{"vmdk", "vmdk"}, {"qcow", "qcow2"}, {"vhd", "vhd"}, {"vdi", "vdi"}, {"ecma-119", "iso"}, {"iso", "iso"}} {
		if strings.Contains(url, known.part) {
			return known.format
		}
	}
	return ""
}

// extras warns of files that nothing refers to.
func (in *inspection) extras() {
	for _, m := range in.source.members {
		if !in.used[m.name] {
			in.problems.Warn(ovf.ExtraMember, m.name, "nothing refers to the file: it is ignored")
		}
		if strings.EqualFold(path.Ext(m.name), ".nvram") {
			in.problems.Warn(ovf.NVRAMDropped, m.name, "the variables of the firmware are not imported")
		}
	}
}

// conclude fills the result with what was found.
func (in *inspection) conclude() {
	found := in.found
	found.Rejections, found.Warnings = append([]ovf.Rejection{}, in.problems.Rejections...), append([]ovf.Warning{}, in.problems.Warnings...)
	if m := found.Mapping; m != nil {
		found.Rejections, found.Warnings = append(found.Rejections, m.Rejections...), append(found.Warnings, m.Warnings...)
		found.Needs, found.Choices, found.Eulas, found.Networks, found.Properties, found.VirtualSystem = m.Needs, m.Choices, m.Eulas, m.Networks, m.Properties, m.System
	}
	choice := func(r ovf.Rejection) bool { return r.Reason == ovf.SeveralVirtualSystems }
	switch {
	case len(found.Rejections) == 0:
		found.Verdict = Importable
	case !slices.ContainsFunc(found.Rejections, func(r ovf.Rejection) bool { return !choice(r) }):
		found.Verdict = NeedsChoice
	default:
		found.Verdict = Rejected
	}
}

// joined are files one behind the other.
type joined struct {
	parts []Data
	size  int64
}

func newJoined(parts []Data) *joined {
	j := &joined{parts: parts}
	for _, p := range parts {
		j.size += p.Size()
	}
	return j
}

// Size is that of all parts.
func (j *joined) Size() int64 { return j.size }

// ReadAt reads across the parts.
func (j *joined) ReadAt(into []byte, offset int64) (n int, err error) {
	for _, p := range j.parts {
		if offset >= p.Size() {
			offset -= p.Size()
			continue
		}
		want := min(int64(len(into)-n), p.Size()-offset)
		m, err := p.ReadAt(into[n:n+int(want)], offset)
		n += m
		if int64(m) < want {
			return n, err
		}
		if offset = 0; n == len(into) {
			return n, nil
		}
	}
	return n, io.EOF
}
