package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
)

// pull has the flags of template pull.
type pull struct {
	program options.Program
	Registry
	Verification

	to, platform string
	overwrite    bool
}

// NewPull returns the command.
func NewPull(program options.Program) *cobra.Command {
	p := &pull{program: program}
	cmd := &cobra.Command{
		Use:   "pull oci://REGISTRY/REPOSITORY:TAG --to DIRECTORY",
		Short: "Pull a template and its disks from a registry",
		Long: `Pull a template and its disks from a registry.

The artifact is one that KubeVirt's exporter or template push wrote. The directory gets the template or virtual machine as
NAME.yaml, and each disk as VOLUME.raw. Of an OVA file, it gets this file. The digest of each part is verified. No file has its
name before all of them are complete.

With --key or --certificate-identity, the signature is verified before anything that it covers is read: the index or the manifest of
the reference must have a valid one. It is a Sigstore bundle that refers to it, or has the tag sha256-DIGEST.sig of cosign.

If the command is interrupted, call it again: it continues with what the directory has.`,
		Example: program.Examples(`  # Pull a template
  PROGRAM template pull oci://quay.io/templates/web:v1 --to web

  # Pull the variant for arm64, by the digest of the artifact
  PROGRAM template pull oci://quay.io/templates/web@sha256:… --platform arm64 --to web

  # Pull a template that must be signed by a key
  PROGRAM template pull oci://quay.io/templates/web:v1 --key cosign.pub --to web

  # Pull a template that a workflow must have signed
  PROGRAM template pull oci://quay.io/templates/web:v1 --to web --trusted-root trusted_root.json \
    --certificate-identity https://github.com/example/templates/.github/workflows/release.yml@refs/heads/main \
    --certificate-oidc-issuer https://token.actions.githubusercontent.com`),
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return options.Usagef("name one reference such as oci://quay.io/templates/web:v1%s", options.SeeHelp(cmd))
			case p.to == "":
				return options.Usagef("name a directory with --to%s", options.SeeHelp(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&p.to, "to", "", "Directory of the files; it is created if it does not exist")
	cmd.Flags().StringVar(&p.platform, "platform", "", "Architecture of the variant, if the artifact has several: arm64, or arm64/v8")
	cmd.Flags().BoolVar(&p.overwrite, "overwrite", false, "Replace files that exist")
	p.Registry.AddFlags(cmd, program)
	p.Verification.AddFlags(cmd)
	return cmd
}

func (p *pull) run(ctx context.Context, from string) error {
	reference, err := referenceOf(from, true)
	if err != nil {
		return err
	}
	connection, err := p.options()
	if err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	repository, err := artifacts.Open(ctx, reference, connection)
	if err != nil {
		return err
	}
	top, blob, err := repository.Top(ctx)
	if err != nil {
		return err
	}
	signed, err := p.verify(ctx, repository, blob.Content)
	if err != nil {
		return err
	}
	manifest := top.Manifest
	if manifest == nil {
		variant, err := top.Select(p.platform)
		if err != nil {
			return options.Usagef("%s: %w: use --platform", reference.String(), err)
		}
		if manifest, _, err = repository.Manifest(ctx, variant); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(p.to, 0o750); err != nil {
		return err
	}
	folder, err := os.OpenRoot(p.to) // no name of an artifact leaves it
	if err != nil {
		return err
	}
	defer folder.Close()
	t := &target{folder: folder, repository: repository}
	if err := t.plan(ctx, manifest); err != nil {
		return err
	}
	if err := p.free(t); err != nil {
		return err
	}
	receiving := options.NewMeter(p.program.Streams.ErrOut, "receiving", t.bytes())
	defer receiving.End()
	if err := t.write(ctx, receiving); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted: call the command again to continue: %w", err)
		}
		return err
	}
	receiving.End()
	fmt.Fprintf(p.program.Streams.Out, "pulled %s\ndigest: %s\n%s", reference.String(), blob.Digest, signed)
	for i := range t.files {
		fmt.Fprintln(p.program.Streams.Out, filepath.Join(p.to, t.files[i].name))
	}
	return nil
}

// free rejects files that exist.
func (p *pull) free(t *target) error {
	for i := range t.files {
		_, err := t.folder.Lstat(t.files[i].name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !p.overwrite:
			return fmt.Errorf("%s exists: use --overwrite, or another directory", filepath.Join(p.to, t.files[i].name))
		}
	}
	return nil
}

// target is a directory that receives an artifact.
type target struct {
	folder     *os.Root
	repository *artifacts.Repository
	files      []received
}

// received is a file of a target.
type received struct {
	name string
	// content is that of a small file, layer what another one is made of. The disk is nil for a file that is the layer.
	content []byte
	layer   *oci.Descriptor
	disk    *oci.Disk
}

// partial is the name of a layer that is being received, complete that of a file that has not its name yet.
func (r *received) partial() string  { return ".virtward-" + r.layer.Digest.Encoded() + ".layer" }
func (r *received) complete() string { return ".virtward-" + r.name + ".complete" }

// plan lists the files of an artifact.
func (t *target) plan(ctx context.Context, manifest *oci.Manifest) error {
	if manifest.OVA != nil {
		t.files = []received{{name: manifest.OVA.Name, layer: &manifest.OVA.Descriptor}}
		return nil
	}
	object, err := t.repository.Object(ctx, manifest)
	if err != nil {
		return err
	}
	written, err := yaml.JSONToYAML(object.Config)
	if err != nil {
		return fmt.Errorf("the configuration: %w", err)
	}
	for i := range manifest.Disks {
		disk := &manifest.Disks[i]
		t.files = append(t.files, received{name: disk.Names[0] + ".raw", layer: &disk.Descriptor, disk: disk})
	}
	t.files = append(t.files, received{name: object.Name + ".yaml", content: written}) // last: with it, the disks are there
	return nil
}

func (t *target) bytes() (n int64) {
	for i := range t.files {
		if t.files[i].layer != nil {
			n += t.files[i].layer.Size
		}
	}
	return n
}

// write receives all files, and then gives them their names.
func (t *target) write(ctx context.Context, receiving *options.Meter) error {
	for i := range t.files {
		if err := t.one(ctx, &t.files[i], receiving); err != nil {
			return fmt.Errorf("%s: %w", t.files[i].name, err)
		}
	}
	for i := range t.files {
		f := &t.files[i]
		if err := t.folder.Rename(f.complete(), f.name); err != nil {
			return err
		}
	}
	for i := range t.files {
		if f := &t.files[i]; f.disk != nil {
			if err := t.folder.Remove(f.partial()); err != nil && !errors.Is(err, fs.ErrNotExist) { // two disks can have the same layer
				return err
			}
		}
	}
	return nil
}

func (t *target) one(ctx context.Context, f *received, receiving *options.Meter) error {
	if f.layer == nil {
		return t.save(f.complete(), bytes.NewReader(f.content), false)
	}
	if err := t.receive(ctx, f, receiving); err != nil {
		return err
	}
	if f.disk == nil {
		return t.folder.Rename(f.partial(), f.complete())
	}
	layer, err := t.folder.Open(f.partial())
	if err != nil {
		return err
	}
	defer layer.Close()
	raw, err := oci.Decompress(oci.Verified(layer, f.layer), f.disk, oci.MaxWindow)
	if err != nil {
		return err
	}
	defer raw.Close()
	err = t.save(f.complete(), &interrupted{ctx, raw}, true)
	var rejection *oci.Rejection
	if errors.As(err, &rejection) { // nothing of it is kept
		err = errors.Join(err, t.folder.Remove(f.partial()))
	}
	return err
}

// interrupted ends with a context.
type interrupted struct {
	ctx context.Context //nolint:containedctx // a reader has none

	io.Reader
}

// Read implements io.Reader.
func (i *interrupted) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.Reader.Read(p)
}

// receive reads a layer into a file, after what the file has.
func (t *target) receive(ctx context.Context, f *received, receiving *options.Meter) error {
	file, err := t.folder.OpenFile(f.partial(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	had := info.Size()
	if !info.Mode().IsRegular() || had > f.layer.Size {
		had = 0
	}
	if err := file.Truncate(had); err != nil {
		return err
	}
	stream := t.repository.Stream(ctx, f.layer, had)
	defer stream.Close()
	// What the file has is verified together with the rest, and not written again.
	all := oci.Verified(io.MultiReader(io.NewSectionReader(file, 0, had), stream), f.layer)
	if _, err = io.CopyN(io.Discard, all, had); err == nil {
		receiving.Skip(had)
		if _, err = file.Seek(had, io.SeekStart); err == nil {
			_, err = io.Copy(file, artifacts.Counted(io.NopCloser(all), receiving.Add))
		}
	}
	var rejection *oci.Rejection
	switch {
	case errors.As(err, &rejection): // nothing of it is kept
		return errors.Join(err, t.folder.Remove(f.partial()))
	case err != nil:
		return err
	}
	return file.Sync()
}

// block is the size of what is left out of a sparse file if it is zero.
const block = 64 << 10

// save writes a file from the start. Of a sparse one, blocks of zeros take no space.
func (t *target) save(name string, content io.Reader, sparse bool) error {
	file, err := t.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(fill(file, content, sparse), file.Sync(), file.Close())
	if err != nil {
		return errors.Join(err, t.folder.Remove(name))
	}
	return nil
}

func fill(file *os.File, content io.Reader, sparse bool) error {
	buffer, zeros := make([]byte, block), make([]byte, block)
	size := int64(0)
	for {
		n, err := io.ReadFull(content, buffer)
		if n > 0 && (!sparse || !bytes.Equal(buffer[:n], zeros[:n])) {
			if _, err := file.WriteAt(buffer[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && n < block && ended(content):
			return file.Truncate(size)
		case err != nil:
			return err
		}
	}
}

// ended reports whether a reader that returned a part of a buffer has ended, so that another error of it is not lost.
func ended(content io.Reader) bool {
	n, err := content.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, io.EOF)
}
