package templateimport

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/credentials"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/sources/signatures"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
)

// Source reads appliances. An error of type *imports.Fault is final, and others are temporary.
type Source interface {
	// Read reads the descriptor and the headers of the disks. The place is that of the archive of a claim; nil for another source.
	Read(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place) (*Read, error)
	// Copied returns how far the pod at a place is that copies a file.
	Copied(ctx context.Context, at *Place) (*transfer.StageStatus, error)
	// Verify reads the whole file. It compares the checksum of the import, and the digests of files of the appliance by their names; an
	// empty one is any. The place is that of Read. The window bounds the memory of the decompression; errDictionary is the error of a file that
	// needs more, and not more than transfer.Window.
	Verify(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place, digests map[string]string, window uint64, progress *transfers.Progress) (*Verified, error)
}

// Verified has the SHA-256 digests that were computed while a whole file was read.
type Verified struct {
	// Digest is that of a file; empty for an artifact, of which the digest was known before. That of a file of a claim is its checksum, or
	// else includes the zeros behind it.
	Digest string
	// Files are those of files of the appliance, by their names; nil for an artifact with disks as layers.
	Files map[string]string
}

// sha256Prefix begins the SHA-256 digests of checksums and of statuses.
const sha256Prefix = "sha256:"

// Read is what was read of an appliance.
type Read struct {
	// Outcome is nil with Stage.
	Outcome *imports.Outcome
	Origin  imports.Origin
	// Texts are the SHA-256 digests of the descriptor and of other texts of an appliance, by their names.
	Texts map[string]string
	// Stage is set if the file must be copied before.
	Stage *Stage
}

// The bounds of a reading: of each connection, of the time without a byte, and of the whole.
const (
	connects = 15 * time.Second
	stalls   = time.Minute
	reads    = 5 * time.Minute
)

// LiveSource reads appliances from web servers and from the pods of claims, and artifacts from registries.
type LiveSource struct {
	// Reader reads the Secrets and the ConfigMaps of imports.
	Reader client.Reader
	// Permitted are the places that may be connected to.
	Permitted *sources.Sources
	// Signatures say who must have signed artifacts.
	Signatures *signatures.Requirements
}

var _ Source = (*LiveSource)(nil)

// pathOf is the field of the source of an import.
func pathOf(of *v1beta1.VirtualMachineTemplateImport) string {
	switch {
	case of.Spec.Source.OCI != nil:
		return "spec.source.oci"
	case of.Spec.Source.PVC != nil:
		return "spec.source.pvc"
	}
	return "spec.source.http"
}

// options are those of the connections for an import, with its credentials.
func (s *LiveSource) options(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport) (*web.Options, error) {
	options := &web.Options{Sources: s.Permitted, Timeout: connects, Stall: stalls, Proxy: http.ProxyFromEnvironment}
	secret, authorities := imports.References(of)
	err := credentials.Read(ctx, s.Reader, of.Namespace, secret, authorities, options)
	var known *web.Error
	switch {
	case apierrors.IsForbidden(err):
		return nil, &imports.Fault{Reason: v1beta1.ReasonCredentialsForbidden, Message: pathOf(of) + ": Virtward may not read the Secret or the ConfigMap: " +
			"an admin of the namespace can permit the account virtward-templateimports to get it with a Role and a RoleBinding, see docs/import-export.md"}
	case errors.As(err, &known):
		return nil, &imports.Fault{Reason: known.Reason, Message: pathOf(of) + ": " + known.Message}
	case err != nil:
		return nil, err //nolint:wrapcheck // it says what was read
	}
	return options, nil
}

// open returns a client for the web server of an import, or for the pod of its claim, and the URL.
func (s *LiveSource) open(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place) (opened *web.Client, url string, err error) {
	var options *web.Options
	switch from := of.Spec.Source; {
	case at != nil:
		options, err = at.options()
		url = at.URL
	case from.HTTP != nil:
		options, err = s.options(ctx, of)
		url = from.HTTP.URL
	default:
		err = &imports.Fault{Reason: v1beta1.ReasonInvalidConfiguration, Message: "spec.source: this version of Virtward imports only from http, oci and pvc"}
	}
	if err != nil {
		return nil, "", err
	}
	opened, err = web.New(*options)
	return opened, url, err //nolint:wrapcheck // it is an Error for users
}

// options are those of connections to the pod of a claim: to its address only, and without a proxy.
func (p *Place) options() (*web.Options, error) {
	address, err := netip.ParseAddrPort(p.Address)
	if err != nil {
		return nil, fmt.Errorf("the address of the pod: %w", err)
	}
	own := address.Addr().Unmap()
	return &web.Options{
		Sources: &sources.Sources{Networks: []netip.Prefix{netip.PrefixFrom(own, own.BitLen())}}, Address: p.Address, Authorities: p.Certificate,
		Headers: map[string]string{transfer.TokenHeader: p.Token}, Timeout: connects, Stall: stalls, HTTP1: true,
	}, nil
}

// Read implements Source.
func (s *LiveSource) Read(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place) (*Read, error) {
	ctx, cancel := context.WithTimeout(ctx, reads)
	defer cancel()
	read := &Read{}
	if of.Spec.Source.OCI != nil {
		var err error
		if read, err = s.readArtifact(ctx, of, at != nil); err != nil || at == nil || read.Outcome != nil {
			return read, described(of, nil, err) // the registry is not the pod at the place
		}
	}
	read, err := s.readRanged(ctx, of, at, read)
	return read, described(of, at, err)
}

// readRanged reads an OVA by ranges: from a web server, or from the pod at a place. What is known of its origin stays.
func (s *LiveSource) readRanged(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place, read *Read) (*Read, error) {
	opened, url, err := s.open(ctx, of, at)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	if of.Status.Staging != nil && at == nil { // the copy does not exist yet
		return s.stage(ctx, opened, of, url)
	}
	file, err := opened.Open(ctx, url)
	begins := at == nil && of.Status.Source == nil
	switch {
	case begins && web.HasReason(err, web.ReasonNoRanges):
		return s.stage(ctx, opened, of, url)
	case err != nil:
		return nil, err //nolint:wrapcheck // it is an Error for users
	case at == nil:
		read.Origin.URL, read.Origin.Authorities, read.Origin.Sources = url, opened.Authorities, s.Permitted
	}
	read.Origin.Size, read.Origin.Validator = file.Size(), file.File().Validator
	if begins {
		head, err := headOf(file)
		if err != nil {
			return nil, err
		}
		if isCompressed(head) {
			return staged(of, read, head, serverWithoutRanges)
		}
	}
	found, err := appliance.Inspect(cmp.Or(read.Origin.File, nameOf(url)), file, imports.Options(of))
	return inspected(of, read, found, err)
}

// inspected decides what an appliance becomes that was inspected.
func inspected(of *v1beta1.VirtualMachineTemplateImport, read *Read, found *appliance.Appliance, err error) (*Read, error) {
	var unknown *ovf.ChoiceError
	switch {
	case errors.As(err, &unknown):
		read.Outcome = imports.Unknown(unknown)
	case err != nil:
		return nil, err
	default:
		read.Outcome, read.Texts = imports.Evaluate(of, found), found.Texts
	}
	return read, nil
}

// nameOf is the name of the file of a URL.
func nameOf(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return path.Base(url)
}

// Verify implements Source.
func (s *LiveSource) Verify(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place, digests map[string]string, window uint64, progress *transfers.Progress) (*Verified, error) {
	var verified *Verified
	var err error
	if of.Spec.Source.OCI != nil {
		verified, err = s.verifyArtifact(ctx, of, digests, window, progress)
	} else {
		verified, err = s.verifyFile(ctx, of, at, digests, window, progress)
	}
	return verified, described(of, at, err)
}

// verifyFile reads the file of a web server, or that of a claim.
func (s *LiveSource) verifyFile(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, at *Place, digests map[string]string, window uint64, progress *transfers.Progress) (*Verified, error) {
	opened, url, err := s.open(ctx, of, at)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	file, err := opened.Probe(ctx, url, false)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is an Error for users
	}
	staged := of.Status.Staging
	if was := of.Status.Source; staged == nil && (file.Size != was.Size || file.Validator != was.Validator) {
		return nil, changed(of)
	}
	checksum, padded := of.Spec.Checksum, ""
	if at != nil { // zeros can follow the file
		checksum, padded = "", checksum
	}
	stream, err := opened.Stream(ctx, file, checksum)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	defer stream.Close()
	measured := &measuredReader{Reader: stream, progress: progress, total: file.Size}
	if padded != "" {
		if measured.Reader, err = appliance.NewPadded(stream, padded); err != nil {
			return nil, err //nolint:wrapcheck // the API server validates the checksum
		}
	}
	if strings.HasPrefix(of.Spec.Checksum, sha256Prefix) { // it is compared at the end
		files, err := decompressed(of, measured, digests, window)
		return &Verified{Digest: of.Spec.Checksum, Files: files}, err
	}
	sum := sha256.New()
	files, err := decompressed(of, io.TeeReader(measured, sum), digests, window)
	return &Verified{Digest: sha256Prefix + hex.EncodeToString(sum.Sum(nil)), Files: files}, err
}

// decompressed reads an OVA to its end, which is compressed if the import has a copy of a compressed one, and returns the digests of files. An
// OVA that was copied has exactly the size of the copy: a server can send another one, without an end.
func decompressed(of *v1beta1.VirtualMachineTemplateImport, file io.Reader, digests map[string]string, window uint64) (map[string]string, error) {
	if of.Status.Staging == nil {
		return whole(file, digests)
	}
	size, kind := of.Status.Source.Size, of.Status.Staging.Compression
	content, err := compressions.Open(kind, file, size, window)
	if err != nil {
		return nil, err //nolint:wrapcheck // described
	}
	defer content.Close()
	files, err := whole(&exactReader{Reader: content, left: size, err: changed(of)}, digests)
	if err == nil {
		err = content.Finish()
	}
	if errors.Is(err, compressions.ErrDictionary) && window < transfer.Window(kind) {
		return nil, errDictionary
	}
	return files, err //nolint:wrapcheck // it is an Error for users
}

// errDictionary is the error of a file whose dictionary is larger than a window. It is compared once it has the place for one.
var errDictionary = &web.Error{Reason: v1beta1.ReasonSourceUnavailable, Message: "one file of xz with a dictionary of more than " + strconv.Itoa(transfer.MaxWindow>>20) + " MiB is compared at a time: this one waits for its turn"}

// exactReader reads a content that has exactly a number of bytes. Another size is an error.
type exactReader struct {
	io.Reader

	left int64
	err  error
}

// Read implements io.Reader.
func (e *exactReader) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	e.left -= int64(n)
	if e.left < 0 || e.left > 0 && errors.Is(err, io.EOF) {
		return 0, e.err
	}
	return n, err //nolint:wrapcheck // io.EOF must stay
}

// whole reads an OVA to its end, and returns the digests of files.
func whole(archive io.Reader, digests map[string]string) (map[string]string, error) {
	files, err := appliance.Digests(archive, digests)
	if err == nil {
		_, err = io.Copy(io.Discard, archive)
	}
	return files, err //nolint:wrapcheck // it is an Error for users
}

// changed is the fault of a file that is another one.
func changed(of *v1beta1.VirtualMachineTemplateImport) *imports.Fault {
	place := "at the URL"
	switch {
	case of.Spec.Source.PVC != nil:
		place = "in the claim"
	case of.Status.Staging != nil && of.Spec.Source.OCI != nil:
		place = "in the registry, or its copy in the volume,"
	case of.Status.Staging != nil:
		place = "at the URL, or its copy in the volume,"
	}
	return &imports.Fault{Reason: v1beta1.ReasonSourceChanged, Message: "the file " + place + " is not the one that the import began with: delete the import, and create it again"}
}

// measuredReader notes the progress of a reader.
type measuredReader struct {
	io.Reader

	progress    *transfers.Progress
	done, total int64
}

// Read implements io.Reader.
func (m *measuredReader) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.done += int64(n)
	m.progress.Set(m.done, m.total)
	return n, err //nolint:wrapcheck // io.EOF must stay
}

// described is the error of a source, or of the pod at a place. Errors that stay, as far as the source tells, are faults.
func described(of *v1beta1.VirtualMachineTemplateImport, at *Place, err error) error {
	var rejected *ovf.Rejection
	var layer *oci.Rejection
	var sum *appliance.ChecksumError
	var final *imports.Fault
	var known *web.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, compressions.ErrDamaged), errors.Is(err, compressions.ErrWindow), errors.Is(err, compressions.ErrDictionary), errors.Is(err, compressions.ErrFilter), errors.Is(err, compressions.ErrTooLarge): // the copy was not
		return changed(of)
	case errors.As(err, &sum):
		return &imports.Fault{Reason: v1beta1.ReasonVerificationFailed, Message: "spec.checksum: " + sum.Error()}
	case errors.As(err, &final):
		return final
	case errors.As(err, &layer):
		return &imports.Fault{Reason: reasonOf(layer), Message: pathOf(of) + ": " + string(layer.Reason) + ": " + err.Error()}
	case errors.As(err, &rejected):
		return &imports.Fault{Reason: v1beta1.ReasonVerificationFailed, Message: string(rejected.Reason) + ": " + rejected.Error()}
	case !errors.As(err, &known):
		return fmt.Errorf("reading the appliance: %w", err)
	case known.Reason == web.ReasonChanged:
		return changed(of)
	case of.Spec.Source.PVC != nil:
		return describedClaim(known)
	case at != nil:
		return describedCopy(known)
	case known.Reason == web.ReasonChecksumMismatch:
		return &imports.Fault{Reason: v1beta1.ReasonVerificationFailed, Message: "spec.checksum: " + known.Message}
	case known.Reason == web.ReasonNoRanges && of.Spec.Staging == nil:
		return &imports.Fault{Reason: known.Reason, Message: pathOf(of) + ": " + known.Message + toStage}
	case known.Permanent, known.Reason == web.ReasonNotPermitted, known.Reason == web.ReasonNoRanges, known.Reason == web.ReasonInvalidAuthority:
		return &imports.Fault{Reason: known.Reason, Message: pathOf(of) + ": " + known.Message}
	}
	return known
}

// describedCopy is the error of the pod of a copy.
func describedCopy(err *web.Error) error {
	if claimFaults[err.Status] != "" {
		return &imports.Fault{Reason: v1beta1.ReasonSourceChanged, Message: "the copy of the file is not in its volume any more: create the import again"}
	}
	return &web.Error{Reason: err.Reason, Message: "reading from the pod of the copy: " + err.Message}
}

// claimFaults are the messages for the codes with which the pod of a claim answers. Its texts are not used: who can write the claim or
// execute programs in the pod could choose them.
var claimFaults = map[int]string{
	http.StatusNotFound:            "path: the claim has no such file: without a path, it needs the file disk.img, or one with the extension .ova",
	http.StatusConflict:            "path: the claim has several files with the extension .ova: name one",
	http.StatusUnprocessableEntity: "path: it must lead to a file, without links",
	http.StatusForbidden:           "path: the user and the group 107 may not read the file",
}

// describedClaim is the error of the pod of a claim.
func describedClaim(err *web.Error) error {
	if text := claimFaults[err.Status]; text != "" {
		return &imports.Fault{Reason: v1beta1.ReasonInvalidConfiguration, Message: "spec.source.pvc." + text}
	}
	return &web.Error{Reason: err.Reason, Message: "reading from the pod of the claim: " + err.Message}
}

// reasonOf is the reason of an import whose artifact is rejected.
func reasonOf(rejection *oci.Rejection) string {
	switch rejection.Reason {
	case oci.NoVariant:
		return v1beta1.ReasonChoiceRequired
	case oci.DigestMismatch, oci.SizeMismatch:
		return v1beta1.ReasonVerificationFailed
	}
	return v1beta1.ReasonNotImportable
}
