package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/vmdk"
)

// push has the flags of template push.
type push struct {
	program options.Program
	Registry

	disks                 []string
	architecture, created string
}

// NewPush returns the command.
func NewPush(program options.Program) *cobra.Command {
	p := &push{program: program}
	cmd := &cobra.Command{
		Use:   "push FILE... oci://REGISTRY/REPOSITORY:TAG",
		Short: "Push templates and their disks to a registry, as an OCI artifact",
		Long: `Push templates and their disks to a registry, as an OCI artifact.

Each FILE has a VirtualMachineTemplate, or a VirtualMachine. Several files are the variants for several architectures, in one
index. A disk is a file with a raw image. The artifact is the one that KubeVirt's exporter writes of the same object and disks.

Instead, FILE can be one OVA file, which becomes a layer as it is.

A disk that the registry has already is not sent again. The tag is written last.`,
		Example: program.Examples(`  # Push a template with two disks
  PROGRAM template push web.yaml oci://quay.io/templates/web:v1 --disk root=root.raw --disk logs=logs.raw

  # Push the variants for two architectures
  PROGRAM template push web.yaml web-arm64.yaml oci://quay.io/templates/web:v1 --disk amd64/root=root.raw --disk arm64/root=arm.raw

  # Push an OVA file
  PROGRAM template push appliance.ova oci://quay.io/templates/appliance:v1`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || !artifacts.IsReference(args[len(args)-1]) {
				return options.Usagef("name at least one file, and then a reference such as oci://quay.io/templates/web:v1%s", options.SeeHelp(cmd))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd.Context(), args[:len(args)-1], args[len(args)-1])
		},
	}
	cmd.Flags().StringArrayVar(&p.disks, "disk", nil, "`[ARCHITECTURE/]VOLUME=FILE`: the raw image of a volume; can be repeated")
	cmd.Flags().StringVar(&p.architecture, "architecture", "", "Architecture of a template whose virtual machine names none that is known")
	cmd.Flags().StringVar(&p.created, "created", "", "Time of the artifact as in RFC 3339, instead of now; none for no time")
	p.AddFlags(cmd, program)
	return cmd
}

// source is a template with the files of its disks.
type source struct {
	path   string
	object *oci.Object
	files  map[string]string
	// layers are what was measured, in the order of names.
	names  []string
	layers []oci.Descriptor
}

func (p *push) run(ctx context.Context, files []string, to string) error {
	reference, err := referenceOf(to, true)
	if err != nil {
		return err
	}
	created, err := p.time()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(files, isOVA) {
		return p.appliance(ctx, files, reference)
	}
	sources, err := p.sources(files)
	if err != nil {
		return err
	}
	writer, err := p.writer(ctx, reference)
	if err != nil {
		return err
	}
	packed, err := p.pack(ctx, sources, writer)
	if err != nil {
		return err
	}
	index, err := oci.NewIndex(packed, created)
	if err != nil {
		return err
	}
	if err := writer.Tag(ctx, index); err != nil {
		return err
	}
	fmt.Fprintf(p.program.Streams.Out, "pushed %s\ndigest: %s\n", reference.String(), index.Digest)
	return nil
}

func isOVA(file string) bool { return strings.EqualFold(filepath.Ext(file), ".ova") }

// time is that of the artifact.
func (p *push) time() (string, error) {
	switch p.created {
	case "":
		return time.Now().UTC().Format(time.RFC3339), nil
	case "none":
		return "", nil
	}
	at, err := time.Parse(time.RFC3339, p.created)
	if err != nil {
		return "", options.Usagef("--created: %q is not a time such as 2026-11-01T12:00:00Z", p.created)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// sources reads the templates, and assigns the disks.
func (p *push) sources(files []string) ([]*source, error) {
	var all []*source
	for _, path := range files {
		object, err := readObject(path)
		if err != nil {
			return nil, err
		}
		if p.architecture != "" {
			if len(files) > 1 {
				return nil, options.Usagef("--architecture is for one file: set spec.template.spec.architecture of each virtual machine")
			}
			object.Architecture = p.architecture
		}
		all = append(all, &source{path: path, object: object, files: map[string]string{}})
	}
	for _, disk := range p.disks {
		if err := assign(all, disk); err != nil {
			return nil, err
		}
	}
	for _, s := range all {
		for i := range s.object.Volumes {
			if v := &s.object.Volumes[i]; v.Layered && s.files[v.Name] == "" {
				fmt.Fprintf(p.program.Streams.ErrOut, "warning: %s: no disk of the volume %s is pushed: name it with --disk %s=FILE\n", s.path, texts.OneLine(v.Name), texts.OneLine(v.Name))
			}
		}
	}
	return all, nil
}

// assign parses a value of --disk.
func assign(all []*source, disk string) error {
	name, file, found := strings.Cut(disk, "=")
	if !found || name == "" || file == "" {
		return options.Usagef("--disk %q: write VOLUME=FILE, or ARCHITECTURE/VOLUME=FILE", disk)
	}
	architecture, volume, found := strings.Cut(name, "/")
	if !found {
		architecture, volume = "", name
		if len(all) > 1 {
			return options.Usagef("--disk %q: there are several files: write ARCHITECTURE/%s", disk, disk)
		}
	}
	for _, s := range all {
		if architecture != "" && s.object.Architecture != architecture {
			continue
		}
		names := make([]string, len(s.object.Volumes))
		for i := range s.object.Volumes {
			names[i] = s.object.Volumes[i].Name
		}
		switch {
		case !slices.Contains(names, volume):
			return options.Usagef("--disk %q: %s has no volume %q with a PersistentVolumeClaim or a DataVolume: it has %s", disk, s.path, volume, strings.Join(names, ", "))
		case s.files[volume] != "":
			return options.Usagef("--disk %q: the volume has two files", disk)
		}
		s.files[volume] = file
		return nil
	}
	return options.Usagef("--disk %q: no file is for the architecture %q", disk, architecture)
}

// readObject reads a file with one object, as JSON or YAML.
func readObject(path string) (*oci.Object, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, oci.MaxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(content) > oci.MaxConfig {
		return nil, fmt.Errorf("%s has more than %d bytes", path, oci.MaxConfig)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) { // JSON keeps the order of its fields
		if content, err = yaml.YAMLToJSONStrict(content); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	object, err := oci.NewObject(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return object, nil
}

// pack measures and writes all disks, and makes the manifests.
func (p *push) pack(ctx context.Context, all []*source, writer *artifacts.Writer) ([]*oci.Packed, error) {
	raw := int64(0)
	for _, s := range all {
		for volume, file := range s.files {
			size, err := checkRaw(file)
			if err != nil {
				return nil, err
			}
			raw += size
			s.names = append(s.names, volume)
		}
		slices.Sort(s.names)
	}
	if err := p.measure(ctx, all, raw); err != nil {
		return nil, err
	}
	compressed := int64(0)
	for _, s := range all {
		for i := range s.layers {
			compressed += s.layers[i].Size
		}
	}
	sending := options.NewMeter(p.program.Streams.ErrOut, "sending", compressed)
	defer sending.End()
	var packed []*oci.Packed
	for _, s := range all {
		one, err := oci.Pack(s.object, s.layers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		for i, volume := range s.names {
			if err := upload(ctx, writer, &s.layers[i], s.files[volume], true, sending); err != nil {
				return nil, err
			}
		}
		if err := errors.Join(writer.Write(ctx, one.Config), writer.Put(ctx, one.Manifest)); err != nil {
			return nil, err
		}
		packed = append(packed, one)
	}
	return packed, nil
}

// measure compresses all disks to know their digests: what the registry has is not sent.
func (p *push) measure(ctx context.Context, all []*source, raw int64) error {
	reading := options.NewMeter(p.program.Streams.ErrOut, "reading", raw)
	defer reading.End()
	for _, s := range all {
		for _, volume := range s.names {
			file, err := os.Open(s.files[volume])
			if err != nil {
				return err
			}
			layer, err := oci.Measure(volume, artifacts.Counted(canceled{ctx, file}, reading.Add))
			file.Close()
			if err != nil {
				return fmt.Errorf("%s: %w", s.files[volume], err)
			}
			s.layers = append(s.layers, layer)
		}
	}
	return nil
}

// canceled is a file that ends with a context.
type canceled struct {
	ctx context.Context //nolint:containedctx // files have none

	*os.File
}

// Read implements io.Reader.
func (c canceled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.File.Read(p)
}

// checkRaw rejects what is not a raw image, and returns its size.
func checkRaw(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd) // that of a block device too
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	if size > oci.MaxDiskBytes {
		return 0, fmt.Errorf("%s has %d bytes: at most %d", path, size, int64(oci.MaxDiskBytes))
	}
	image, err := vmdk.Inspect(file, size)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is not a raw image: convert it with qemu-img convert -O raw: %w", path, err)
	case image.Format != "raw" && image.Format != "iso":
		return 0, fmt.Errorf("%s is an image in the format %s: convert it with qemu-img convert -O raw", path, image.Format)
	}
	return size, nil
}

// upload writes a file as a layer.
func upload(ctx context.Context, writer *artifacts.Writer, layer *oci.Descriptor, path string, compress bool, sending *options.Meter) error {
	sent := int64(0)
	err := writer.Upload(ctx, layer, func() (io.ReadCloser, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		var content io.ReadCloser = canceled{ctx, file}
		if compress {
			content = compressed(content)
		}
		return artifacts.Counted(content, func(n int64) { sent += n; sending.Add(n) }), nil
	}, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	sending.Add(layer.Size - sent) // what the registry had
	return nil
}

// compressed compresses what is read.
func compressed(from io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		compressor, err := oci.NewCompressor(w)
		if err == nil {
			_, err = io.Copy(compressor, from)
			err = errors.Join(err, compressor.Close())
		}
		from.Close()
		w.CloseWithError(err)
	}()
	return r
}

// appliance pushes an OVA file.
func (p *push) appliance(ctx context.Context, files []string, reference artifacts.Reference) error {
	if len(files) > 1 || len(p.disks) > 0 {
		return options.Usagef("an OVA file has its template and its disks: name no other file and no --disk")
	}
	file, err := os.Open(files[0])
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	reading := options.NewMeter(p.program.Streams.ErrOut, "reading", info.Size())
	layer, err := oci.MeasureAppliance(filepath.Base(files[0]), artifacts.Counted(canceled{ctx, file}, reading.Add))
	reading.End()
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	packed, err := oci.PackAppliance(layer)
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	writer, err := p.writer(ctx, reference)
	if err != nil {
		return err
	}
	sending := options.NewMeter(p.program.Streams.ErrOut, "sending", layer.Size)
	defer sending.End()
	if err := errors.Join(upload(ctx, writer, &packed.Layers[0], files[0], false, sending), writer.Write(ctx, packed.Config)); err != nil {
		return err
	}
	if err := writer.Tag(ctx, packed.Manifest); err != nil {
		return err
	}
	fmt.Fprintf(p.program.Streams.Out, "pushed %s\ndigest: %s\n", reference.String(), packed.Manifest.Digest)
	return nil
}
