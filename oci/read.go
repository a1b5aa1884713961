package oci

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/json"

	"github.com/virtward/virtward/limits/decode"
)

// Top is what a tag or a digest of a repository names: an index, or one manifest.
type Top struct {
	Kind Kind
	// Created is a time as in RFC 3339; empty if the index has none.
	Created string
	// Variants are the manifests of an index.
	Variants []Variant
	// Manifest is set if there is no index.
	Manifest *Manifest
}

// Variant is a manifest of an index.
type Variant struct {
	Descriptor

	// Platform is the architecture, with its variant if it has one: arm64, or arm64/v8.
	Platform string
}

// Manifest is an object and its disks, or an OVA file.
type Manifest struct {
	Kind   Kind
	Config Descriptor
	Disks  []Disk
	// OVA is the layer of an Appliance.
	OVA *File
}

// Disk is a layer with a disk.
type Disk struct {
	Descriptor

	// Names are the volumes with this disk. KubeVirt 1.9 writes one.
	Names []string
	// Size is the number of raw bytes. If Capacity is set, it is that of the claim, and the disk can have fewer bytes.
	Size     int64
	Capacity bool
	// VolumeMode and AccessModes are those of the claim that was exported; empty if the layer has none.
	VolumeMode  string
	AccessModes []string
}

// File is a layer with a file.
type File struct {
	Descriptor

	// Name is the name of the file, without a folder.
	Name string
}

// ParseTop reads the bytes that a tag or a digest names.
func ParseTop(data []byte) (*Top, error) {
	var probe struct {
		MediaType string `json:"mediaType"`
		// An index without a media type has manifests.
		Manifests []struct{} `json:"manifests"`
	}
	if err := unmarshal("", data, MaxManifest, &probe); err != nil {
		return nil, err
	}
	switch {
	case probe.MediaType == v1.MediaTypeImageIndex, probe.MediaType == "" && probe.Manifests != nil:
		return parseIndex(data)
	case probe.MediaType == v1.MediaTypeImageManifest, probe.MediaType == "":
		manifest, err := ParseManifest(data)
		if err != nil {
			return nil, err
		}
		return &Top{Kind: manifest.Kind, Manifest: manifest}, nil
	}
	return nil, rejected(WrongType, "mediaType", "the media type is neither that of an OCI index nor that of an OCI manifest")
}

func parseIndex(data []byte) (*Top, error) {
	var index v1.Index
	if err := unmarshal("index", data, MaxIndex, &index); err != nil {
		return nil, err
	}
	f := formatOf(func(f *format) bool { return f.artifact == index.ArtifactType })
	switch {
	case index.SchemaVersion != 2:
		return nil, rejected(WrongType, "index.schemaVersion", "must be 2")
	case f == nil:
		return nil, rejected(WrongType, "index.artifactType", "the index has no virtual machine and no template of KubeVirt")
	case len(index.Manifests) == 0:
		return nil, rejected(NoVariant, "index.manifests", "the index has no manifest")
	case len(index.Manifests) > MaxVariants:
		return nil, rejected(LimitExceeded, "index.manifests", "the index has %d manifests: at most %d", len(index.Manifests), MaxVariants)
	}
	top := &Top{Kind: f.kind}
	if created := index.Annotations[v1.AnnotationCreated]; safeText(created, 64) {
		top.Created = created
	}
	for i := range index.Manifests {
		element := fmt.Sprintf("index.manifests[%d]", i)
		entry := &index.Manifests[i]
		if err := checkDescriptor(element, entry, MaxManifest); err != nil {
			return nil, err
		}
		if entry.MediaType != v1.MediaTypeImageManifest {
			return nil, rejected(WrongType, element+".mediaType", "must be %s: an index in an index is not read", v1.MediaTypeImageManifest)
		}
		if entry.ArtifactType != "" && entry.ArtifactType != f.artifact {
			return nil, rejected(WrongType, element+".artifactType", "must be that of the index")
		}
		platform, err := platformOf(element, entry.Platform, len(index.Manifests) == 1)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(top.Variants, func(v Variant) bool { return v.Platform == platform }) {
			return nil, rejected(DuplicateName, element+".platform", "the index has two manifests for %s", platform)
		}
		top.Variants = append(top.Variants, Variant{*entry, platform})
	}
	return top, nil
}

// platformOf is the architecture of an entry. The only one of an index needs none.
func platformOf(element string, platform *v1.Platform, only bool) (string, error) {
	switch {
	case platform == nil && only:
		return DefaultArchitecture, nil
	case platform == nil:
		return "", rejected(InvalidDescriptor, element+".platform", "a manifest of several has no platform")
	case platform.OS != linux:
		return "", rejected(WrongType, element+".platform.os", "must be linux")
	case !architecturePattern.MatchString(platform.Architecture), platform.Variant != "" && !architecturePattern.MatchString(platform.Variant):
		return "", rejected(InvalidDescriptor, element+".platform", "the architecture is not valid: use a name such as amd64")
	case platform.Variant != "":
		return platform.Architecture + "/" + platform.Variant, nil
	}
	return platform.Architecture, nil
}

// Select returns the variant of a platform: the architecture, or the architecture with its variant. An empty platform is the only
// variant.
func (t *Top) Select(platform string) (*Variant, error) {
	for i := range t.Variants {
		v := &t.Variants[i]
		architecture, _, _ := strings.Cut(v.Platform, "/")
		if platform == "" && len(t.Variants) == 1 || v.Platform == platform || architecture == platform {
			return v, nil
		}
	}
	names := strings.Join(t.Platforms(), ", ")
	if platform == "" {
		return nil, rejected(NoVariant, "", "the artifact has several architectures: choose one of %s", names)
	}
	return nil, rejected(NoVariant, "", "the artifact has no %q: choose one of %s", platform, names)
}

// Platforms are those of the variants, in the order of the index.
func (t *Top) Platforms() []string {
	names := make([]string, len(t.Variants))
	for i := range t.Variants {
		names[i] = t.Variants[i].Platform
	}
	return names
}

// ParseManifest reads a manifest.
func ParseManifest(data []byte) (*Manifest, error) {
	var raw v1.Manifest
	if err := unmarshal("manifest", data, MaxManifest, &raw); err != nil {
		return nil, err
	}
	switch {
	case raw.SchemaVersion != 2:
		return nil, rejected(WrongType, "manifest.schemaVersion", "must be 2")
	case raw.MediaType != v1.MediaTypeImageManifest && raw.MediaType != "":
		return nil, rejected(WrongType, "manifest.mediaType", "must be %s", v1.MediaTypeImageManifest)
	case len(raw.Layers) > MaxDisks:
		return nil, rejected(LimitExceeded, "manifest.layers", "the manifest has %d layers: at most %d", len(raw.Layers), MaxDisks)
	}
	if err := checkDescriptor("manifest.config", &raw.Config, MaxConfig); err != nil {
		return nil, err
	}
	for i := range raw.Layers {
		if err := checkDescriptor(fmt.Sprintf("manifest.layers[%d]", i), &raw.Layers[i], MaxDiskBytes); err != nil {
			return nil, err
		}
	}
	f := formatOf(func(f *format) bool { return f.artifact == raw.ArtifactType })
	if f == nil {
		return parseAppliance(&raw)
	}
	if raw.Config.MediaType != f.config {
		return nil, rejected(WrongType, "manifest.config.mediaType", "must be %s", f.config)
	}
	m := &Manifest{Kind: f.kind, Config: raw.Config}
	seen := map[string]bool{}
	for i := range raw.Layers {
		disk, err := diskOf(fmt.Sprintf("manifest.layers[%d]", i), &raw.Layers[i])
		if err != nil {
			return nil, err
		}
		for _, name := range disk.Names {
			if seen[name] {
				return nil, rejected(DuplicateName, fmt.Sprintf("manifest.layers[%d].annotations", i), "two layers have the disk %s", name)
			}
			seen[name] = true
		}
		m.Disks = append(m.Disks, *disk)
	}
	return m, nil
}

// parseAppliance reads the manifest of an OVA file. Other programs push one with an artifact type of their own.
func parseAppliance(raw *v1.Manifest) (*Manifest, error) {
	title := ""
	if len(raw.Layers) == 1 {
		title = raw.Layers[0].Annotations[v1.AnnotationTitle]
	}
	switch {
	case len(raw.Layers) != 1 || !strings.HasSuffix(strings.ToLower(title), ".ova"):
		return nil, rejected(WrongType, "manifest.artifactType", "the artifact is no virtual machine, no template and no OVA file")
	case !safeFile(title):
		return nil, rejected(UnsafeName, "manifest.layers[0].annotations", "the title is not a name of a file without a folder")
	}
	return &Manifest{Kind: Appliance, Config: raw.Config, OVA: &File{raw.Layers[0], title}}, nil
}

// unmarshal decodes bounded JSON. Names of fields are case-sensitive, and no field is set twice.
func unmarshal(element string, data []byte, limit int, into any) error {
	if len(data) > limit {
		return rejected(LimitExceeded, element, "has %d bytes: at most %d", len(data), limit)
	}
	if n := bytes.Count(data, []byte("{")); n > maxObjects {
		return rejected(LimitExceeded, element, "has %d objects: at most %d", n, maxObjects)
	}
	repeated, err := json.UnmarshalStrict(data, into, json.DisallowDuplicateFields)
	if err == nil && len(repeated) > 0 {
		err = repeated[0]
	}
	if err != nil {
		return rejected(InvalidJSON, element, "is not valid JSON: %s", printable(err.Error()))
	}
	return nil
}

// checkDescriptor rejects a descriptor of which not all bytes are in the same registry and known by their digest.
func checkDescriptor(element string, d *Descriptor, limit int64) error {
	switch {
	case d.Digest.Validate() != nil || d.Digest.Algorithm() != digest.SHA256:
		return rejected(InvalidDescriptor, element+".digest", "must be a digest of SHA-256")
	case d.Size <= 0:
		return rejected(InvalidDescriptor, element+".size", "must be positive")
	case d.Size > limit:
		return rejected(LimitExceeded, element+".size", "is %d: at most %d", d.Size, limit)
	case len(d.URLs) > 0:
		return rejected(ForeignURL, element+".urls", "content is read only from the registry of the artifact")
	}
	return nil
}

// diskOf reads the annotations of a layer.
func diskOf(element string, d *Descriptor) (*Disk, error) {
	if d.MediaType != MediaTypeDisk {
		return nil, rejected(WrongType, element+".mediaType", "must be %s", MediaTypeDisk)
	}
	element += ".annotations"
	disk := &Disk{Descriptor: *d}
	written, singular := d.Annotations[annotationNames], d.Annotations[annotationName]
	if written == "" {
		written = singular
	}
	disk.Names = strings.Split(written, ",")
	for _, name := range disk.Names {
		if !diskNamePattern.MatchString(name) {
			return nil, rejected(UnsafeName, element, "%s is not a name of a disk: use lower case letters, digits, hyphens and dots", annotationName)
		}
	}
	if singular != "" && !slices.Contains(disk.Names, singular) {
		return nil, rejected(DuplicateName, element, "%s and %s differ", annotationName, annotationNames)
	}
	if title, ok := d.Annotations[v1.AnnotationTitle]; ok && !safeFile(title) {
		return nil, rejected(UnsafeName, element, "the title is not a name of a file without a folder")
	}
	size := d.Annotations[annotationSize]
	if size == "" {
		size, disk.Capacity = d.Annotations[annotationCapacity], true
	}
	var err error
	if disk.Size, err = bytesOf(size); err != nil {
		return nil, rejected(InvalidSize, element, "%s: %v", annotationSize, err)
	}
	if mode := d.Annotations[annotationVolumeMode]; mode == "Block" || mode == "Filesystem" {
		disk.VolumeMode = mode
	}
	for mode := range strings.SplitSeq(d.Annotations[annotationAccessModes], ",") {
		if slices.Contains([]string{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}, mode) && !slices.Contains(disk.AccessModes, mode) {
			disk.AccessModes = append(disk.AccessModes, mode)
		}
	}
	return disk, nil
}

// bytesOf parses a number of bytes.
func bytesOf(text string) (int64, error) {
	if text == "" {
		return 0, fmt.Errorf("the size of the disk is missing")
	}
	if len(text) > 64 || !decode.Parsable(text) {
		return 0, fmt.Errorf("the size is not a quantity")
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("the size is not a quantity")
	}
	size, exact := quantity.AsInt64()
	switch {
	case !exact || size < 0:
		return 0, fmt.Errorf("the size is not a whole number of bytes")
	case size > MaxDiskBytes:
		return 0, fmt.Errorf("the disk has %d bytes: at most %d", size, int64(MaxDiskBytes))
	}
	return size, nil
}

// safeFile reports whether a text is the name of a file without a folder.
func safeFile(name string) bool {
	return name != "" && name != "." && name != ".." && safeText(name, 255) && !strings.ContainsAny(name, `/\:`)
}

// safeText reports whether a text is short and printable.
func safeText(text string, limit int) bool {
	return len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// printable is a text of an untrusted document in a message.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if len(text) > 200 {
		return strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}
