package templateimport

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

// toStage is at the end of the message for a file that needs a copy.
const toStage = ": set spec.staging.size, and Virtward copies it into a volume first"

// registryWithoutRanges is why an OVA that is a layer needs a copy, if it is not compressed.
const registryWithoutRanges = "the registry does not send ranges of blobs"

// serverWithoutRanges is why a file of a web server does.
const serverWithoutRanges = "the server does not send ranges of the file"

// headOf is the beginning of a file, which was read when it was opened.
func headOf(file *web.Ranged) ([]byte, error) {
	head := make([]byte, min(sources.HeadBytes, file.Size()))
	_, err := file.ReadAt(head, 0)
	return head, err //nolint:wrapcheck // it is an Error for users
}

// isCompressed reports whether a file begins as one that is compressed as a whole, and can be read.
func isCompressed(head []byte) bool {
	return compressions.IsReadable(virtualimages.Inspect(head, nil).Compressed)
}

// stage reads what the copy of a file needs. An error is a fault, or one of reading.
func (s *LiveSource) stage(ctx context.Context, opened *web.Client, of *v1beta1.VirtualMachineTemplateImport, url string) (*Read, error) {
	file, err := opened.Probe(ctx, url, false)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is an Error for users
	}
	read := &Read{Origin: imports.Origin{URL: url, Size: max(0, file.Size), Authorities: opened.Authorities, Sources: s.Permitted}}
	return staged(of, read, file.Head, serverWithoutRanges)
}

// begin reads the first bytes of an OVA that is a layer, also of a registry without ranges.
func (r *resolved) begin(ctx context.Context) ([]byte, error) {
	layer := &r.manifest.OVA.Descriptor
	head := make([]byte, min(sources.HeadBytes, layer.Size)) // the header of a file can follow others, such as of the format PAX
	part := r.Part(ctx, layer, 0, int64(len(head)))
	defer part.Close()
	_, err := io.ReadFull(part, head)
	return head, err //nolint:wrapcheck // it is an Error for users
}

// staged completes what is read of a file that is copied. Its origin has the size, and why is the reason if it is not compressed.
func staged(of *v1beta1.VirtualMachineTemplateImport, read *Read, head []byte, why string) (*Read, error) {
	kind := virtualimages.Inspect(head, nil).Compressed
	if f := stageable(of, read.Origin.Size, head, kind, why); f != nil {
		return nil, f
	}
	if was := of.Status.Staging; was != nil && was.Compression != kind {
		return nil, changed(of)
	}
	read.Stage = &Stage{Compression: kind}
	return read, nil
}

// stageable is why a file cannot be copied; nil if it can.
func stageable(of *v1beta1.VirtualMachineTemplateImport, size int64, head []byte, kind, why string) *imports.Fault {
	fault := func(reason, format string, args ...any) *imports.Fault {
		return &imports.Fault{Reason: reason, Message: pathOf(of) + ": " + fmt.Sprintf(format, args...)}
	}
	staging := of.Spec.Staging
	switch {
	case kind != "" && !compressions.IsReadable(kind):
		return fault(v1beta1.ReasonNotImportable, "%s: the file is compressed with %s, which is not read: decompress it first", ovf.NotAnArchive, kind)
	case kind == "" && !isArchive(head):
		return fault(v1beta1.ReasonNotImportable, "%s: the file is not an OVA", ovf.NotAnArchive)
	case staging == nil && kind != "":
		return fault(v1beta1.ReasonNotImportable, "%s: the file is compressed with %s%s", ovf.NotAnArchive, kind, toStage)
	case staging == nil:
		return fault(web.ReasonNoRanges, "%s%s", why, toStage)
	case kind == "" && size > staging.Size.Value():
		return &imports.Fault{Reason: v1beta1.ReasonInvalidConfiguration, Message: fmt.Sprintf("spec.staging.size: the file has %s: create the import again with a larger size", texts.Bytes(size))}
	}
	return nil
}

// isArchive reports whether a file begins as a tar does.
func isArchive(head []byte) bool {
	_, err := tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil
}

// Copied implements Source. Who can execute programs in the pod controls what it says, and it is shown only.
func (s *LiveSource) Copied(ctx context.Context, at *Place) (*transfer.StageStatus, error) {
	options, err := at.options()
	if err != nil {
		return nil, err
	}
	opened, err := web.New(*options)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is an Error for users
	}
	defer opened.Close()
	answer, err := opened.Probe(ctx, at.URL, false)
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	status := &transfer.Status{}
	if err := json.Unmarshal(answer.Head, status); err != nil {
		return nil, fmt.Errorf("the status: %w", err)
	}
	if status.Stage == nil {
		return nil, errors.New("the status has no copy")
	}
	return status.Stage, nil
}
