package templateimport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/signatures"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/vmdk"
)

// valuesOfSources are the chart's values with the hosts and networks of imports.
const valuesOfSources = "templates.imports.sources"

// resolved is an artifact whose manifest was read.
type resolved struct {
	*artifacts.Repository

	manifest *oci.Manifest
	// top is the digest of what the reference names, and chosen that of the manifest.
	top, chosen string
	// platforms are those of the index; nil without one.
	platforms []string
	// signer is who signed it; empty if no signature is required.
	signer      string
	authorities []byte
	close       func()
}

// resolve reads the index and the manifest of an import, which must have the required signature. Once the status has their digest, the tag
// does not count. Close the result.
func (s *LiveSource) resolve(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, required *signatures.Requirements) (*resolved, error) {
	from := of.Spec.Source.OCI
	reference, err := artifacts.ParseReference(from.Reference)
	if err == nil && !reference.Named {
		err = fmt.Errorf("it has neither a tag nor a digest")
	}
	if err != nil {
		return nil, &imports.Fault{Reason: v1beta1.ReasonInvalidConfiguration, Message: "spec.source.oci.reference: " + err.Error()}
	}
	if was := of.Status.Source; was != nil && was.Digest != "" {
		reference = reference.At(was.Digest)
	} else if copied := of.Status.Staging; copied != nil {
		reference = reference.At(copied.Digest)
	}
	options, err := s.options(ctx, of)
	if err != nil {
		return nil, err
	}
	connection, stop, err := artifacts.Guarded(options, cmp.Or(s.Permitted.Values, valuesOfSources))
	if err != nil {
		return nil, err //nolint:wrapcheck // it is an Error for users
	}
	r := &resolved{authorities: options.Authorities, close: stop}
	if err := r.read(ctx, reference, connection, from.Platform, required.Of(reference.Registry, reference.Repository)); err != nil {
		stop()
		return nil, err
	}
	return r, nil
}

func (r *resolved) read(ctx context.Context, reference artifacts.Reference, connection artifacts.Options, platform string, signers *signatures.Authority) (err error) {
	if r.Repository, err = artifacts.Open(ctx, reference, connection); err != nil {
		return err //nolint:wrapcheck // it is an Error for users
	}
	top, blob, err := r.Top(ctx)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	if signers != nil { // before anything that it covers is read
		if r.signer, err = signers.Artifact(ctx, r.Repository, blob.Content); err != nil {
			return unsigned(err)
		}
	}
	r.manifest, r.top, r.chosen = top.Manifest, blob.Digest.String(), blob.Digest.String()
	if r.manifest == nil {
		r.platforms = top.Platforms()
		variant, err := top.Select(platform)
		if err != nil {
			return &unselected{error: err, platforms: r.platforms}
		}
		if r.manifest, blob, err = r.Manifest(ctx, variant); err != nil {
			return err //nolint:wrapcheck // as above
		}
		r.chosen = blob.Digest.String()
	}
	return nil
}

// unselected is the error of an artifact of which an import names no platform.
type unselected struct {
	error

	platforms []string
}

func (u *unselected) Unwrap() error { return u.error }

// unsigned is the error of an artifact without a valid signature. It is final, unless the registry did not send all signatures.
func unsigned(err error) error {
	var known *signatures.Error
	if !errors.As(err, &known) || known.Unread > 0 {
		return &web.Error{Reason: web.ReasonServerError, Message: "the signatures of the artifact cannot be read: " + texts.Shorten(err.Error(), requests.MaxMessage)}
	}
	return &imports.Fault{Reason: v1beta1.ReasonVerificationFailed, Message: "spec.source.oci.reference: " + texts.Shorten(err.Error(), requests.MaxMessage)}
}

// readArtifact reads the configuration of an artifact and the beginning of each disk. Of an OVA that is copied, the result has only what
// stays of its origin: the copy is read next.
func (s *LiveSource) readArtifact(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, copied bool) (*Read, error) {
	r, err := s.resolve(ctx, of, s.Signatures)
	if choice := (*unselected)(nil); errors.As(err, &choice) {
		return &Read{Outcome: imports.Unselected(choice.error, choice.platforms)}, nil
	}
	if err != nil {
		return nil, err
	}
	defer r.close()
	read := &Read{Origin: imports.Origin{Repository: r.Name, Digest: r.top, Signer: r.signer, Validator: r.chosen, Authorities: r.authorities, Sources: s.Permitted}}
	if r.manifest.OVA != nil {
		return r.readAppliance(ctx, of, copied, read)
	}
	for i := range r.manifest.Disks {
		read.Origin.Size += r.manifest.Disks[i].Descriptor.Size
	}
	if size := r.manifest.Config.Size; size > imports.MaxTemplate {
		return nil, &imports.Fault{Reason: v1beta1.ReasonNotImportable, Message: fmt.Sprintf("spec.source.oci: the configuration of the artifact has %d KiB, and at most %d are imported", size>>10, imports.MaxTemplate>>10)}
	}
	object, err := r.Object(ctx, r.manifest)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	read.Outcome = imports.EvaluateArtifact(of, &imports.Artifact{Manifest: r.manifest, Object: object, Platforms: r.platforms})
	if read.Outcome.Fault != nil {
		return read, nil
	}
	for i := range r.manifest.Disks {
		if err := r.head(ctx, &r.manifest.Disks[i]); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// readAppliance reads the descriptor and the headers of the disks of an OVA that is a layer, or what its copy needs.
func (r *resolved) readAppliance(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, copied bool, read *Read) (*Read, error) {
	if of.Spec.Source.OCI.Platform != "" && r.platforms == nil {
		return nil, &imports.Fault{Reason: v1beta1.ReasonInvalidConfiguration, Message: "spec.source.oci.platform: the artifact is an OVA, which names no architecture: remove this field"}
	}
	layer, name := &r.manifest.OVA.Descriptor, r.manifest.OVA.Name
	if copied { // its validator is that of the copy, and nothing else is connected to for its disks
		return &Read{Origin: imports.Origin{Digest: read.Origin.Digest, Signer: read.Origin.Signer, File: name}}, nil
	}
	read.Origin.Size, read.Origin.File, read.Origin.Blob = layer.Size, name, layer.Digest.String()
	if of.Status.Source != nil { // it was read by ranges before
		found, err := appliance.Inspect(name, r.Random(ctx, layer), imports.Options(of))
		return inspected(of, read, found, err)
	}
	head, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	if of.Status.Staging != nil || isCompressed(head) {
		return staged(of, read, head, registryWithoutRanges)
	}
	found, err := appliance.Inspect(name, r.Random(ctx, layer), imports.Options(of))
	if web.HasReason(err, web.ReasonNoRanges) {
		return staged(of, read, head, registryWithoutRanges)
	}
	return inspected(of, read, found, err)
}

// head inspects the beginning of a disk.
func (r *resolved) head(ctx context.Context, disk *oci.Disk) error {
	layer := r.Part(ctx, &disk.Descriptor, 0, disk.Descriptor.Size)
	defer layer.Close()
	raw, err := oci.Decompress(layer, disk, transfer.MaxWindow)
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	defer raw.Close()
	head := make([]byte, min(disk.Size, vmdk.HeadBytes))
	n, err := io.ReadFull(raw, head)
	switch {
	case err != nil && !disk.Capacity:
		return err //nolint:wrapcheck // as above
	case err != nil:
		clear(head[n:])
	}
	if err := vmdk.CheckRaw(head); err != nil {
		return &imports.Fault{Reason: v1beta1.ReasonNotImportable, Message: fmt.Sprintf("spec.source.oci: %s", appliance.ImageRejection(disk.Names[0], err))}
	}
	return nil
}

// layer is what is read of an OVA that is a layer. It releases the manifest, because the decompression needs the memory.
func (r *resolved) layer() *oci.Descriptor {
	of := &r.manifest.OVA.Descriptor
	r.manifest, r.platforms = nil, nil
	return &oci.Descriptor{Digest: of.Digest, Size: of.Size}
}

// verifyArtifact reads all layers, and compares their digests, and those of the files of an OVA.
func (s *LiveSource) verifyArtifact(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport, digests map[string]string, window uint64, progress *transfers.Progress) (*Verified, error) {
	r, err := s.resolve(ctx, of, nil) // what is read has the digest of the status, whose signature was verified
	if err != nil {
		return nil, err
	}
	defer r.close()
	if was := of.Status.Source; of.Status.Staging == nil && r.chosen != was.Validator { // that of a copy is another one
		return nil, changed(of)
	}
	measured := &measuredReader{progress: progress, total: of.Status.Source.Size}
	if r.manifest.OVA != nil {
		layer := r.layer()
		part := r.Part(ctx, layer, 0, layer.Size)
		defer part.Close()
		measured.Reader, measured.total = oci.Verified(part, layer), layer.Size
		files, err := decompressed(of, measured, digests, window)
		return &Verified{Files: files}, err
	}
	for i := range r.manifest.Disks {
		layer := &r.manifest.Disks[i].Descriptor
		part := r.Part(ctx, layer, 0, layer.Size)
		measured.Reader = oci.Verified(part, layer)
		_, err := io.Copy(io.Discard, measured)
		_ = part.Close() // all of it was read, or it failed
		if err != nil {
			return nil, err //nolint:wrapcheck // as above
		}
	}
	return &Verified{}, nil
}
