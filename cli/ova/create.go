package ova

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/cli/template"
	"github.com/virtward/virtward/exportserver/rawfile"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/archive"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/vmdk"
)

// create has the flags of ova create.
type create struct {
	program      options.Program
	disks        map[string]string
	to           string
	cpus         int
	memory       string
	keepUserData bool
	overwrite    bool
	output       string
}

// Created is an OVA that was made.
type Created struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// File is the OVA.
	File string `json:"file"`
	// Size is that of the OVA in bytes, SHA256 its digest.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Files are the members.
	Files    []archive.File `json:"files"`
	Warnings []ovf.Warning  `json:"warnings"`
}

func newCreate(program options.Program) *cobra.Command {
	c := &create{program: program, output: printers.Table}
	formats := []string{printers.Table, printers.JSON, printers.YAML}
	cmd := &cobra.Command{
		Use:   "create TEMPLATE-FILE --disk VOLUME=FILE --to FILE",
		Short: "Make an OVA of a VirtualMachineTemplate and its disks",
		Long: `Make an OVA of a VirtualMachineTemplate and its disks.

Name a raw image for each volume of the template that is not blank, by the name of the volume. Convert other formats first, for example
with qemu-img convert -O raw. The command reads each image twice, and compresses it. The same template and images give the same OVA.

An import by Virtward gets the template back. Secrets, identities and references to objects of the cluster are removed: standard error
has a line for each. The instancetype is not read: give its hardware for other programs with --cpus and --memory.

The OVA appears under its name when it is complete.`,
		Example: program.Examples(`  # Make an OVA of a template and the image of its volume root
  PROGRAM ova create template.yaml --disk root=fedora.raw --to fedora.ova`),
		Args: c.validate,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringToStringVar(&c.disks, "disk", nil, "`VOLUME=FILE`: the raw image of a volume; can be repeated")
	flags.StringVar(&c.to, "to", "", "File to write; required")
	flags.IntVar(&c.cpus, "cpus", 0, "CPUs of the instancetype")
	flags.StringVar(&c.memory, "memory", "", "Memory of the instancetype, such as 4Gi")
	flags.BoolVar(&c.keepUserData, "keep-user-data", false, "Keep the data of cloud-init with its secrets")
	flags.BoolVar(&c.overwrite, "overwrite", false, "Replace the file if it exists")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(formats, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": formats})
	return cmd
}

func (c *create) validate(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return options.Usagef("name one file with a VirtualMachineTemplate%s", options.SeeHelp(cmd))
	case c.to == "":
		return options.Usagef("--to is required: the file to write")
	case (c.cpus == 0) != (c.memory == ""):
		return options.Usagef("give --cpus and --memory together")
	case c.cpus < 0 || c.cpus > ovf.MaxCPUs:
		return options.Usagef("--cpus must be from 1 to %d", ovf.MaxCPUs)
	}
	if c.memory != "" {
		if q, err := resource.ParseQuantity(c.memory); err != nil || q.Sign() <= 0 || q.Value() > ovf.MaxMemory {
			return options.Usagef("--memory must be an amount of memory such as 4Gi")
		}
	}
	return options.OneOf("output", c.output, []string{printers.Table, printers.JSON, printers.YAML})
}

func (c *create) run(ctx context.Context, name string) error {
	if err := options.Free(c.to, c.overwrite); err != nil {
		return err
	}
	source, err := template.ReadFile(ctx, name, c.program.Streams.In)
	if err != nil {
		return err
	}
	exportOptions := ovf.ExportOptions{KeepUserData: c.keepUserData}
	if c.cpus > 0 {
		q := resource.MustParse(c.memory)
		exportOptions.Hardware = &ovf.Hardware{CPUs: c.cpus, Memory: q.Value()}
	}
	export, err := ovf.NewExport(source, exportOptions)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	contents, end, err := c.open(ctx, export)
	defer end()
	if err != nil {
		return err
	}
	for _, w := range export.Warnings {
		fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s\n", texts.OneLine(w.Element), texts.OneLine(w.Message))
	}
	created, err := c.write(export, contents)
	if err != nil {
		return err
	}
	if c.output != printers.Table {
		return printers.Document(c.program.Streams.Out, c.output, created)
	}
	rows := [][]string{{"FILE", "SIZE", "SHA-256"}}
	for _, f := range created.Files {
		rows = append(rows, []string{f.Name, fmt.Sprint(f.Size), f.SHA256})
	}
	rows = append(rows, []string{texts.OneLine(created.File), fmt.Sprint(created.Size), created.SHA256})
	return printers.Rows(c.program.Streams.Out, printers.Narrow, rows)
}

// open opens the images. The function ends their use.
func (c *create) open(ctx context.Context, export *ovf.Export) (contents map[string]archive.Content, end func(), err error) {
	contents = map[string]archive.Content{}
	var opened []*os.File
	end = func() {
		for _, f := range opened {
			f.Close()
		}
	}
	var missing []string
	known := map[string]bool{}
	for _, content := range export.Contents {
		known[content.Volume] = true
		if c.disks[content.Volume] == "" {
			missing = append(missing, "--disk "+content.Volume+"=FILE")
		}
	}
	for volume := range c.disks {
		if !known[volume] {
			missing = append(missing, "no --disk "+volume+", which is not a volume with content")
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		return contents, end, options.Usagef("the template needs %s", texts.First(missing, 10))
	}
	for _, content := range export.Contents {
		name := c.disks[content.Volume]
		opening, err := os.Open(name)
		if err != nil {
			return contents, end, err
		}
		f, err := rawfile.New(opening)
		if err != nil {
			return contents, end, err
		}
		opened = append(opened, opening)
		image, err := vmdk.Inspect(f, f.Size())
		if err != nil {
			return contents, end, fmt.Errorf("%s: %w", name, err)
		}
		if image.Format != "raw" && image.Format != "iso" {
			return contents, end, fmt.Errorf("%s: it is %s: convert it with qemu-img convert -O raw", name, image.Format)
		}
		contents[content.Volume] = &rawImage{f, ctx}
	}
	return contents, end, nil
}

// write writes the OVA beside its name, and renames it at the end.
func (c *create) write(export *ovf.Export, contents map[string]archive.Content) (*Created, error) {
	reading := options.NewMeter(c.program.Streams.ErrOut, "reading the disks", 0)
	defer reading.End()
	a, err := archive.New(export, contents, archive.Options{Progress: reading.Set})
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(c.to), "."+filepath.Base(c.to)+"-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name()) // it does not exist any more after the renaming
	defer f.Close()
	buffered := bufio.NewWriterSize(f, 1<<20)
	writing := options.NewMeter(c.program.Streams.ErrOut, "writing "+filepath.Base(c.to), a.Size())
	defer writing.End()
	sum, err := a.Write(buffered, writing.Set)
	err = errors.Join(err, buffered.Flush())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.to, err)
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.to, err)
	}
	if err := options.Rename(f.Name(), c.to, c.overwrite); err != nil {
		return nil, err
	}
	warnings := append([]ovf.Warning{}, export.Warnings...)
	return &Created{APIVersion: "cli.virtward.io/v1alpha1", Kind: "CreatedAppliance", File: c.to, Size: a.Size(), SHA256: sum, Files: a.Files, Warnings: warnings}, nil
}
