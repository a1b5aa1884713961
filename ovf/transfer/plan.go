package transfer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/texts"
)

// The bounds of a plan and of a status.
const (
	// MaxBytes bounds the JSON.
	MaxBytes = 900 << 10
	// MaxDisks bounds the disks, and the media of CD drives.
	MaxDisks = 128
	// MaxParts bounds the parts of all disks, and the files.
	MaxParts = ovf.MaxFiles
	// MaxSize bounds a file and a disk in bytes.
	MaxSize = 64 << 40
	// MinSize is the size below which CDI recognizes no format.
	MinSize = 512

	maxURL       = 8 << 10
	maxValidator = 1 << 10
	maxName      = 1 << 10
	maxPath      = 1 << 10
)

// Plan is what a server serves.
type Plan struct {
	// Files are what the disks are parts of: one OVA, or the files beside a descriptor.
	Files []File `json:"files"`
	// Disks are served as /disks/0, /disks/1 and so on.
	Disks []Disk `json:"disks"`
	// Sources are the places that URLs, and redirects, may lead to.
	Sources Sources `json:"sources"`
	// AuthoritiesFile has the certificates in PEM that verify servers of URLs; empty for those of the system.
	AuthoritiesFile string `json:"authoritiesFile,omitempty"`
	// Credentials are for servers of URLs.
	Credentials *Credentials `json:"credentials,omitempty"`
	// Volume has the OVA of a claim, which is served as /archive; nil for none. A plan with it can be without files and disks.
	Volume *Volume `json:"volume,omitempty"`
	// Stage copies a file into the volume, before the volume is served; nil for none. A plan with it has neither files nor disks.
	Stage   *Stage  `json:"stage,omitempty"`
	Serving Serving `json:"serving"`
}

// Stage is a file at a URL, or a blob of a registry, that is copied into the file disk.img of a volume with a file system, decompressed. The
// program ends after it. One of URL and Blob is set.
type Stage struct {
	URL string `json:"url,omitempty"`
	// Blob is REGISTRY/REPOSITORY@DIGEST. The copy is complete only if all bytes of the blob have the digest.
	Blob string `json:"blob,omitempty"`
	// Size is that of the blob in bytes.
	Size int64 `json:"size,omitempty"`
	// Compression is that of the file, as package sources/compressions has it; empty for none.
	Compression string `json:"compression,omitempty"`
	// MaxBytes bounds the copy.
	MaxBytes int64 `json:"maxBytes"`
}

// Volume is a claim with an OVA. One of Folder and Device is set.
type Volume struct {
	// Folder is where a file system is mounted.
	Folder string `json:"folder,omitempty"`
	// File is the path of the OVA below the folder; empty for disk.img, and without one for the only file with the extension .ova.
	File string `json:"file,omitempty"`
	// Device is a block device.
	Device string `json:"device,omitempty"`
}

// PathArchive is where the OVA of a volume is served.
const PathArchive = "/archive"

// PathStatus is where a server says what it did.
const PathStatus = "/status"

// File is a file at a URL, that of the volume, or a blob of a registry. One of URL, Volume and Blob is set.
type File struct {
	// URL is the place on a web server.
	URL string `json:"url,omitempty"`
	// Volume tells that it is the OVA of the volume of the plan.
	Volume bool `json:"volume,omitempty"`
	// Blob is REGISTRY/REPOSITORY@DIGEST. All blobs of a plan are in one repository.
	Blob string `json:"blob,omitempty"`
	// Size in bytes.
	Size int64 `json:"size"`
	// Validator identifies the version of the file at a URL, as web.File has it: a strong ETag, or the time of the last change. Without
	// one, a transfer that breaks cannot continue. That of a volume is the tag of package importserver/volumes.
	Validator string `json:"validator,omitempty"`
}

// Disk is a disk image.
type Disk struct {
	// Name is that in the descriptor. It appears in messages only.
	Name string `json:"name"`
	// Parts are one behind the other.
	Parts []Part `json:"parts"`
	// Compression is gzip, zstd or empty. The server sends the compressed bytes of gzip, and the decompressed ones of zstd.
	Compression string `json:"compression,omitempty"`
	// Format is what the image must be, such as vmdk; empty for any that is accepted.
	Format string `json:"format,omitempty"`
	// MaxContent bounds the decompressed bytes of gzip, and is their number for zstd.
	MaxContent int64 `json:"maxContent,omitempty"`
	// Padded tells that zstd can have fewer bytes. Zeros follow them.
	Padded bool `json:"padded,omitempty"`
}

// Part is a part of a file.
type Part struct {
	// File is an index in Files.
	File int `json:"file"`
	// Offset and Size are in bytes.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
	// Digest is that of the part, such as sha256: and 64 hexadecimal digits. Empty if the manifest has none.
	Digest string `json:"digest,omitempty"`
}

// Sources are those of package sources.
type Sources struct {
	Hosts    []string `json:"hosts,omitempty"`
	Networks []string `json:"networks,omitempty"`
	// Values are the chart's values with hosts and networks, which messages name.
	Values string `json:"values,omitempty"`
}

// Credentials are files with a name and a password.
type Credentials struct {
	UserFile     string `json:"userFile"`
	PasswordFile string `json:"passwordFile"`
}

// Serving has the files that the server needs to serve.
type Serving struct {
	CertificateFile string `json:"certificateFile"`
	KeyFile         string `json:"keyFile"`
	// TokenFile has what requests must have in the header TokenHeader.
	TokenFile string `json:"tokenFile"`
}

// TokenHeader is the header with the token.
const TokenHeader = "X-Virtward-Token" //nolint:gosec // the name of a header

// Formats are what an image can be.
func Formats() []string { return []string{"iso", "qcow2", "raw", "vdi", "vhd", "vmdk"} }

// digestSizes are the sizes of digests in bytes.
var digestSizes = map[string]int{"sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}

// The compressions of a disk.
const (
	CompressionGzip = "gzip"
	CompressionZstd = "zstd"
)

// The limits of zstd.
const (
	// MaxDecompressed is the number of disks that a server serves at the same time.
	MaxDecompressed = 2
	// MaxWindow bounds the memory of the decompression of a disk. Level 19 of the zstd program, and KubeVirt's exporter, need no more.
	MaxWindow = 8 << 20
)

// MaxDictionary bounds the dictionary of a file that xz compressed. The highest preset of the xz program needs no more.
const MaxDictionary = 64 << 20

// Window bounds the memory of the decompression of a file with a compression.
func Window(compression string) uint64 {
	if compression == compressions.Xz {
		return MaxDictionary
	}
	return MaxWindow
}

// Size is the number of bytes that are served for a disk.
func (d *Disk) Size() int64 {
	if d.Compression == CompressionZstd {
		return d.MaxContent
	}
	return d.Stored()
}

// Stored is the number of bytes of the parts of a disk.
func (d *Disk) Stored() (size int64) {
	for i := range d.Parts {
		size += d.Parts[i].Size
	}
	return size
}

// Permitted are the places that the server may connect to. The plan is valid.
func (s *Sources) Permitted() (*sources.Sources, error) {
	networks, err := sources.ParseNetworks(s.Networks)
	return &sources.Sources{Hosts: s.Hosts, Networks: networks, Values: s.Values}, err
}

// Parse reads a plan. The error has all errors of fields.
func Parse(data []byte) (*Plan, error) {
	p := &Plan{}
	if err := ParseInto(data, p); err != nil {
		return nil, err
	}
	return p, nil
}

// ParseInto reads the plan of a server. The error has all errors of fields.
func ParseInto(data []byte, plan interface{ Validate() field.ErrorList }) error {
	if err := Decode(data, plan); err != nil {
		return fmt.Errorf("the plan: %w", err)
	}
	var all []error
	for _, wrong := range plan.Validate() {
		all = append(all, wrong)
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("the plan: %w", err)
	}
	return nil
}

// Decode reads one document of JSON without unknown fields, of at most MaxBytes.
func Decode(data []byte, into any) error {
	if len(data) > MaxBytes {
		return fmt.Errorf("it has more than %d KiB", MaxBytes>>10)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("it is not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text behind the JSON")
	}
	return nil
}

// Validate returns all errors.
func (p *Plan) Validate() field.ErrorList {
	var found field.ErrorList
	permitted, err := p.Sources.Permitted()
	if err != nil {
		found = append(found, field.Invalid(field.NewPath("sources", "networks"), texts.Shorten(strings.Join(p.Sources.Networks, " "), 200), err.Error()))
	}
	found = append(found, p.Volume.validate(field.NewPath("volume"))...)
	found = append(found, p.stage(permitted)...)
	if p.Volume == nil || len(p.Files)+len(p.Disks) > 0 {
		found = append(found, number(field.NewPath("files"), len(p.Files), MaxParts)...)
		found = append(found, number(field.NewPath("disks"), len(p.Disks), MaxDisks)...)
	}
	if len(found) > 0 {
		return found
	}
	repository := repositoryOf(p.Files)
	for i := range p.Files {
		found = append(found, p.Files[i].validate(field.NewPath("files").Index(i), p.Volume, permitted, repository)...)
	}
	parts := 0
	for i := range p.Disks {
		parts += len(p.Disks[i].Parts)
		found = append(found, p.disk(field.NewPath("disks").Index(i), &p.Disks[i])...)
	}
	if parts > MaxParts {
		found = append(found, field.TooMany(field.NewPath("disks"), parts, MaxParts))
	}
	return append(found, p.paths()...)
}

// stage validates a copy.
func (p *Plan) stage(permitted *sources.Sources) (found field.ErrorList) {
	s, at := p.Stage, field.NewPath("stage")
	if s == nil {
		return nil
	}
	if p.Volume == nil || p.Volume.Folder == "" || p.Volume.File != "" {
		found = append(found, field.Required(field.NewPath("volume", "folder"), "name a folder without a file for a copy"))
	}
	if len(p.Files)+len(p.Disks) > 0 {
		found = append(found, field.Forbidden(at, "a plan with a copy has neither files nor disks"))
	}
	if s.Compression != "" && !compressions.IsReadable(s.Compression) {
		found = append(found, field.NotSupported(at.Child("compression"), s.Compression, compressions.Names()))
	}
	if s.MaxBytes <= 0 || s.MaxBytes > MaxSize {
		found = append(found, field.Invalid(at.Child("maxBytes"), s.MaxBytes, fmt.Sprintf("must be from 1 to %d", int64(MaxSize))))
	}
	return append(found, s.place(at, permitted)...)
}

// place validates where the file is.
func (s *Stage) place(at *field.Path, permitted *sources.Sources) (found field.ErrorList) {
	switch {
	case (s.URL == "") == (s.Blob == ""):
		return field.ErrorList{field.Required(at, "name one of url and blob")}
	case s.URL != "":
		return place(at.Child("url"), s.URL, permitted)
	}
	if _, err := imageOf(s.Blob); err != nil {
		found = append(found, field.Invalid(at.Child("blob"), texts.Shorten(s.Blob, 200), err.Error()))
	}
	if s.Size <= 0 || s.Size > MaxSize {
		found = append(found, field.Invalid(at.Child("size"), s.Size, fmt.Sprintf("must be from 1 to %d", int64(MaxSize))))
	}
	return found
}

// place validates a URL. The value can have secrets in its query.
func place(at *field.Path, url string, permitted *sources.Sources) field.ErrorList {
	if len(url) > maxURL {
		return field.ErrorList{field.TooLong(at, "", maxURL)}
	}
	if err := permitted.CheckURL(url); err != nil {
		return field.ErrorList{field.Invalid(at, sources.Redact(url), err.Error())}
	}
	return nil
}

// number validates the number of items of a list.
func number(at *field.Path, n, most int) field.ErrorList {
	switch {
	case n == 0:
		return field.ErrorList{field.Required(at, "name at least one")}
	case n > most:
		return field.ErrorList{field.TooMany(at, n, most)}
	}
	return nil
}

// paths validates the files that the server reads.
func (p *Plan) paths() (found field.ErrorList) {
	serving := field.NewPath("serving")
	for _, c := range []struct {
		at    *field.Path
		value string
		needs bool
	}{
		{serving.Child("certificateFile"), p.Serving.CertificateFile, true},
		{serving.Child("keyFile"), p.Serving.KeyFile, true},
		{serving.Child("tokenFile"), p.Serving.TokenFile, true},
		{field.NewPath("authoritiesFile"), p.AuthoritiesFile, false},
		{field.NewPath("credentials", "userFile"), p.Credentials.user(), p.Credentials != nil},
		{field.NewPath("credentials", "passwordFile"), p.Credentials.password(), p.Credentials != nil},
	} {
		if c.needs && c.value == "" {
			found = append(found, field.Required(c.at, "name a file"))
		} else if c.value != "" {
			found = append(found, absolute(c.at, c.value)...)
		}
	}
	return found
}

func (c *Credentials) user() string {
	if c == nil {
		return ""
	}
	return c.UserFile
}

func (c *Credentials) password() string {
	if c == nil {
		return ""
	}
	return c.PasswordFile
}

// absolute validates the path of a file.
func absolute(at *field.Path, value string) field.ErrorList {
	switch {
	case len(value) > maxPath:
		return field.ErrorList{field.TooLong(at, "", maxPath)}
	case !path.IsAbs(value) || path.Clean(value) != value || hasControl(value):
		return field.ErrorList{field.Invalid(at, value, "must be an absolute path without . and ..")}
	}
	return nil
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Image is where a blob is.
func (f *File) Image() (addresses.Image, error) { return imageOf(f.Blob) }

// Image is where the blob is.
func (s *Stage) Image() (addresses.Image, error) { return imageOf(s.Blob) }

func imageOf(blob string) (addresses.Image, error) {
	image, err := addresses.ParseImage(blob)
	if err == nil && (image.Canonical != blob || !strings.HasPrefix(image.Digest, "sha256:")) {
		err = errors.New("must be REGISTRY/REPOSITORY@sha256:DIGEST")
	}
	return image, err
}

// repositoryOf is the repository of the first blob; empty without one.
func repositoryOf(files []File) string {
	for i := range files {
		if image, err := files[i].Image(); files[i].Blob != "" && err == nil {
			return image.Name
		}
	}
	return ""
}

// validate validates the place of a volume.
func (v *Volume) validate(at *field.Path) (found field.ErrorList) {
	switch {
	case v == nil:
		return nil
	case (v.Folder == "") == (v.Device == ""):
		return field.ErrorList{field.Required(at, "name one of folder and device")}
	case v.Device != "" && v.File != "":
		found = append(found, field.Invalid(at.Child("file"), v.File, "must be empty for a device"))
	case v.Device != "":
		found = append(found, absolute(at.Child("device"), v.Device)...)
	default:
		found = append(found, absolute(at.Child("folder"), v.Folder)...)
	}
	switch {
	case len(v.File) > maxPath:
		found = append(found, field.TooLong(at.Child("file"), "", maxPath))
	case v.File != "" && (!filepath.IsLocal(v.File) || path.Clean(v.File) != v.File || v.File == "." || hasControl(v.File)):
		found = append(found, field.Invalid(at.Child("file"), v.File, "must be a path below the folder, without . and .."))
	}
	return found
}

func (f *File) validate(at *field.Path, volume *Volume, permitted *sources.Sources, repository string) (found field.ErrorList) {
	places := 0
	for _, named := range []bool{f.URL != "", f.Volume, f.Blob != ""} {
		if named {
			places++
		}
	}
	switch {
	case places != 1:
		found = append(found, field.Required(at, "name one of url, volume and blob"))
	case f.Blob != "":
		if image, err := f.Image(); err != nil {
			found = append(found, field.Invalid(at.Child("blob"), texts.Shorten(f.Blob, 200), err.Error()))
		} else if image.Name != repository {
			found = append(found, field.Invalid(at.Child("blob"), texts.Shorten(f.Blob, 200), "must be in the repository "+repository+", as the first one"))
		}
	case f.Volume:
		if volume == nil {
			found = append(found, field.Invalid(at.Child("volume"), true, "the plan has no volume"))
		}
	default:
		found = append(found, place(at.Child("url"), f.URL, permitted)...)
	}
	if f.Size <= 0 || f.Size > MaxSize {
		found = append(found, field.Invalid(at.Child("size"), f.Size, fmt.Sprintf("must be from 1 to %d", int64(MaxSize))))
	}
	switch {
	case len(f.Validator) > maxValidator:
		found = append(found, field.TooLong(at.Child("validator"), "", maxValidator))
	case strings.HasPrefix(f.Validator, "W/") || hasControl(f.Validator):
		found = append(found, field.Invalid(at.Child("validator"), f.Validator, "must be a strong ETag or a time"))
	}
	return found
}

func (p *Plan) disk(at *field.Path, d *Disk) (found field.ErrorList) {
	if len(d.Name) > maxName {
		found = append(found, field.TooLong(at.Child("name"), "", maxName))
	}
	if d.Format != "" && !slices.Contains(Formats(), d.Format) {
		found = append(found, field.NotSupported(at.Child("format"), d.Format, Formats()))
	}
	if d.Compression != "" && d.Compression != CompressionGzip && d.Compression != CompressionZstd {
		found = append(found, field.NotSupported(at.Child("compression"), d.Compression, []string{CompressionGzip, CompressionZstd}))
	}
	if d.Compression == CompressionZstd {
		found = append(found, p.layer(at, d)...)
	} else if d.Padded {
		found = append(found, field.Invalid(at.Child("padded"), d.Padded, "must be false without zstd"))
	}
	if compressed := d.Compression != ""; d.MaxContent < 0 || d.MaxContent > MaxSize || compressed != (d.MaxContent > 0) {
		found = append(found, field.Invalid(at.Child("maxContent"), d.MaxContent, "must be positive for a compressed image, and 0 for another"))
	}
	if len(d.Parts) == 0 {
		return append(found, field.Required(at.Child("parts"), "name at least one"))
	}
	size := int64(0)
	for i := range d.Parts {
		wrong := p.part(at.Child("parts").Index(i), &d.Parts[i])
		if found = append(found, wrong...); len(wrong) == 0 {
			size = min(size+d.Parts[i].Size, MaxSize+1) // no overflow
		}
	}
	if len(found) == 0 && (size < MinSize && d.Compression != CompressionZstd || size > MaxSize) {
		found = append(found, field.Invalid(at.Child("parts"), size, fmt.Sprintf("the parts must have from %d to %d bytes together", MinSize, int64(MaxSize))))
	}
	return found
}

// layer validates a disk with zstd, of which the digest is known.
func (p *Plan) layer(at *field.Path, d *Disk) (found field.ErrorList) {
	if len(d.Parts) != 1 || !strings.HasPrefix(d.Parts[0].Digest, "sha256:") {
		found = append(found, field.Invalid(at.Child("parts"), len(d.Parts), "must be one part with a digest of SHA-256"))
	}
	if d.Format != "" && d.Format != "raw" {
		found = append(found, field.NotSupported(at.Child("format"), d.Format, []string{"raw"}))
	}
	if d.MaxContent < MinSize {
		found = append(found, field.Invalid(at.Child("maxContent"), d.MaxContent, fmt.Sprintf("must be at least %d", MinSize)))
	}
	return found
}

func (p *Plan) part(at *field.Path, part *Part) (found field.ErrorList) {
	if part.File < 0 || part.File >= len(p.Files) {
		return field.ErrorList{field.Invalid(at.Child("file"), part.File, "must be an index of files")}
	}
	of := &p.Files[part.File]
	switch {
	case part.Offset < 0:
		found = append(found, field.Invalid(at.Child("offset"), part.Offset, "must not be negative"))
	case part.Size <= 0 || part.Size > of.Size-part.Offset:
		found = append(found, field.Invalid(at.Child("size"), part.Size, "must be positive, and end within the file"))
	}
	if part.Digest != "" && !isDigest(part.Digest) {
		found = append(found, field.Invalid(at.Child("digest"), texts.Shorten(part.Digest, 200), "must be sha1, sha256, sha384 or sha512, a colon and lower-case hexadecimal digits"))
	}
	return found
}

func isDigest(text string) bool {
	kind, value, _ := strings.Cut(text, ":")
	sum, err := hex.DecodeString(value)
	return err == nil && digestSizes[kind] > 0 && len(sum) == digestSizes[kind] && strings.ToLower(value) == value
}
