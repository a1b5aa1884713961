package virtualimages

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/uploadproxy"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/virtualimages"
)

// upload has the flags of image upload.
type upload struct {
	create

	file  string
	proxy uploadproxy.Flags
}

func newUpload(program options.Program) *cobra.Command {
	u := &upload{create: create{program: program, Sources: options.NewSources(), dryRun: options.DryRunNone}}
	u.specFlags.uploaded = true
	cmd := &cobra.Command{
		Use:   "upload NAME --file FILE",
		Short: "Create a VirtualImage from a file of this machine",
		Long: `Create a VirtualImage from a file of this machine. CDI receives the file, and converts it.

Before it creates anything, upload reads the header of the file: it rejects a file of another format, and it knows the size of the
disk. If the upload breaks off, or you interrupt it, run the same command again: it begins at the start of the file. An image that
is complete is never replaced. A file that is not uploaded within the time of an import, six hours by default, is not awaited any
more.

With --wait, upload also waits until virtual machines can use the image. --timeout bounds the waiting, not the upload itself.

You need permission to create and get virtualimages, to create datavolumes and uploadtokenrequests.upload.cdi.kubevirt.io in the
namespace, and to get the cdiconfig config, unless you give --uploadproxy-url. CDI's roles admin and edit have the last ones.`,
		Example: program.Examples(`  # Upload an image, and wait until virtual machines can use it
  PROGRAM image upload fedora --file fedora.qcow2 --wait

  # Upload through a proxy with a certificate of your own authority
  PROGRAM image upload fedora --file fedora.qcow2 --uploadproxy-url https://cdi-uploadproxy.example.com --uploadproxy-ca ca.crt

  # Upload a compressed file, whose disk has 20 GiB
  PROGRAM image upload debian --file disk.raw.xz --storage 20Gi`),
		Args: u.validate,
		RunE: func(cmd *cobra.Command, _ []string) error { return u.run(cmd.Context()) },
	}
	u.specFlags.add(cmd, &u.Sources)
	u.addCommon(cmd)
	flags := cmd.Flags()
	flags.StringVar(&u.file, "file", "", "File to upload; required")
	flags.StringVar(&u.checksum, "checksum", "", "Checksum of the file, compared before anything is created: sha256:HEX or sha512:HEX")
	u.proxy.Add(flags)
	return cmd
}

// validate reads the header of the file, so that nothing is created for a file that CDI rejects.
func (u *upload) validate(cmd *cobra.Command, args []string) error {
	if u.file == "" {
		if len(args) == 1 {
			return options.Usagef("--file is required: the file to upload")
		}
		return u.specFlags.validate(cmd, args, "x.raw")
	}
	file, err := uploadproxy.Open(u.file)
	if err != nil {
		return err
	}
	head, tail, err := file.Ends(sources.HeadBytes, sources.TailBytes)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if u.format == "" {
		u.format = string(formatIn(u.file, virtualimages.Inspect(head, tail)))
	}
	if err := u.specFlags.validate(cmd, args, u.file); err != nil {
		return err
	}
	if err := u.validateCommon(); err != nil {
		return err
	}
	if virtualimages.Packed(v1alpha1.DiskFormat(u.format)) {
		return options.Usagef("--format %s: it has no disk that virtual machines of this cluster can boot", u.format)
	}
	disk, err := virtualimages.DiskSize(v1alpha1.DiskFormat(u.format), head, tail, file.Size)
	if err != nil {
		return fmt.Errorf("%s: %w", u.file, err)
	}
	return u.sized(disk)
}

// formatIn is the format that a header states, or else the name of the file. It is empty for a compressed file whose name states
// none.
func formatIn(name string, header virtualimages.Header) v1alpha1.DiskFormat {
	named := formatOf(filepath.Base(name))
	switch {
	case header.Format != v1alpha1.FormatRaw || named == "" && header.Compressed == "":
		return header.Format
	default:
		return named
	}
}

// sized requests a volume for a disk, or compares the one that the flags request with it.
func (u *upload) sized(disk int64) error {
	const mebibyte, gibibyte = 1 << 20, 1 << 30
	switch {
	case u.size != "":
		if size := resource.MustParse(u.size); size.Value() < disk {
			return options.Usagef("--storage %s: the disk has %s", u.size, resource.NewQuantity(disk, resource.BinarySI))
		}
	case u.minDisk > 0 && int64(u.minDisk)*gibibyte < disk:
		return options.Usagef("--min-disk %d: the disk has %s", u.minDisk, resource.NewQuantity(disk, resource.BinarySI))
	case u.minDisk > 0:
	case disk == 0:
		return options.Usagef("--storage is required: the file does not state the size of its disk")
	default:
		u.size = resource.NewQuantity((disk-1)/mebibyte*mebibyte+mebibyte, resource.BinarySI).String()
	}
	return nil
}

func (u *upload) run(ctx context.Context) error {
	file, err := uploadproxy.Open(u.file)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := u.verify(file); err != nil {
		return err
	}
	if u.dryRun != options.DryRunNone {
		return u.create.run(ctx)
	}
	in, err := connect(&u.Sources)
	if err != nil {
		return err
	}
	t, err := u.transfer(ctx, in, file)
	if err != nil {
		return err
	}
	image, err := t.run(ctx)
	if err != nil {
		if ctx.Err() != nil && t.image != nil {
			return fmt.Errorf("interrupted: VirtualImage %s/%s waits for its file: run the same command again to upload it from its start", in.namespace, u.name)
		}
		return err
	}
	if u.wait {
		return u.print(image, "")
	}
	return printed(u.program, image, u.output, "uploaded")
}

// verify compares the checksum of the file with that of the flag.
func (u *upload) verify(file *uploadproxy.File) error {
	if u.checksum == "" {
		return nil
	}
	algorithm, want, _ := strings.Cut(u.checksum, ":")
	sum, err := file.Whole().Sum(map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}[algorithm](), nil)
	if err == nil && sum != want {
		err = fmt.Errorf("--checksum: %s has %s:%s", u.file, algorithm, sum)
	}
	return err
}
