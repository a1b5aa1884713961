package ova

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/cli/appliances"
	"github.com/virtward/virtward/cli/artifacts"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/appliance"
	"github.com/virtward/virtward/sources"
	registries "github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
	"github.com/virtward/virtward/texts"
)

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ova",
		Short: "Read and write virtual appliances: OVA and OVF",
		Long: `Read and write virtual appliances: OVA and OVF.

inspect shows what a package is, and what an import of it would create. convert prints a VirtualMachineTemplate. create makes an OVA of
a template and its disks. None of them needs a cluster.`,
		Args: options.OnlySubcommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newInspect(program), newConvert(program), newCreate(program))
	return cmd
}

// choices are the flags of both commands.
type choices struct {
	program        options.Program
	system, option string
	lax, verify    bool
	// verifies is set if the user gives --verify, which is not the default for a URL.
	verifies, http bool
	authorities    string
	output         string
	registry       artifacts.Registry
}

func (c *choices) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	c.registry.AddRegistryFlags(cmd, c.program)
	flags.StringVar(&c.system, "virtual-system", "", "Id of the virtual system, if the package has several")
	flags.StringVar(&c.option, "deployment-option", "", "Id of the deployment option instead of the default one")
	flags.BoolVar(&c.lax, "lax", false, "Drop required parts that have no equivalent, instead of rejecting the package")
	flags.BoolVar(&c.verify, "verify", true, "Check the digests of the manifest and decode the disks; otherwise only headers are read, which is the default for a URL and an artifact")
	flags.BoolVar(&c.http, "allow-http", false, "Read a URL without TLS")
	flags.StringVar(&c.authorities, "certificate-authority", "", "`FILE` with certificates in PEM that the certificate of the package must be issued by")
}

// oneFile requires one file.
func oneFile(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 1:
		return options.Usagef("name one OVA or OVF file, its URL, or the reference of an artifact%s", options.SeeHelp(cmd))
	}
	return nil
}

// options are those of an inspection.
func (c *choices) options() (appliance.Options, error) {
	o := appliance.Options{
		Options:     ovf.Options{VirtualSystem: c.system, DeploymentOption: c.option, Lax: c.lax},
		HeadersOnly: !c.verify, Scratch: appliances.NewScratch,
	}
	if c.authorities == "" {
		return o, nil
	}
	data, err := os.ReadFile(c.authorities)
	if err != nil {
		return o, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return o, options.Usagef("--certificate-authority: %s has no certificate in PEM", c.authorities)
	}
	o.Trust = func(signer *x509.Certificate, others []*x509.Certificate) error {
		between := x509.NewCertPool()
		for _, certificate := range others {
			between.AddCert(certificate)
		}
		_, err := signer.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		return err
	}
	return o, nil
}

// read inspects a package in a file, at a URL or in a registry.
func (c *choices) read(cmd *cobra.Command, name string) (*appliance.Appliance, error) {
	var found *appliance.Appliance
	var err error
	c.verifies = c.verify && cmd.Flags().Changed("verify")
	switch {
	case registries.IsReference(name):
		found, err = c.readArtifact(cmd.Context(), name)
	case isURL(name):
		found, err = c.readURL(cmd.Context(), name)
	default:
		found, err = c.readFile(name)
	}
	if errors.Is(err, ovf.ErrChoice) {
		return nil, options.Usagef("%w: ova inspect lists them", err)
	}
	return found, err
}

func (c *choices) readFile(name string) (*appliance.Appliance, error) {
	file, err := appliances.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.Decompress(func(r io.Reader) io.Reader { return r }); err != nil {
		return nil, err
	}
	o, err := c.options()
	if err != nil {
		return nil, err
	}
	o.Sibling = file.Beside
	found, err := appliance.Inspect(filepath.Base(name), file.Data(), o)
	if found != nil {
		found.Package.Compression = file.Compression
	}
	return found, err
}

// verdict is the error of a package that is not importable.
func verdict(name string, found *appliance.Appliance) error {
	if len(found.Rejections) == 0 {
		return nil
	}
	more := ""
	if n := len(found.Rejections) - 1; n > 0 {
		more = " (and " + texts.Count(n, "more rejection", "more rejections") + ")"
	}
	return fmt.Errorf("%s: %w%s", name, &found.Rejections[0], more)
}

func newInspect(program options.Program) *cobra.Command {
	c := &choices{program: program, output: printers.Table}
	formats := []string{printers.Table, printers.JSON, printers.YAML}
	cmd := &cobra.Command{
		Use:   "inspect FILE|URL|oci://REGISTRY/REPOSITORY:TAG",
		Short: "Show what an OVA or OVF is, and what an import of it would create",
		Long: `Show what an OVA or OVF is, and what an import of it would create.

The command lists each part that is dropped or guessed, and all reasons to reject the package. It checks the digests of the
manifest, and decodes the disks. Of a URL it reads only headers, by ranges, unless you set --verify, and also of an artifact of a registry
that is an OVA, as template push writes it.

The exit code is 0 if the package is importable, and 1 if it is rejected or a virtual system must be chosen.`,
		Example: program.Examples(`  # Show what an appliance becomes
  PROGRAM ova inspect appliance.ova

  # Read an appliance on a web server without downloading it
  PROGRAM ova inspect https://example.com/appliance.ova

  # Read an appliance in a registry without downloading it
  PROGRAM ova inspect oci://quay.io/templates/appliance:v1

  # Choose a virtual system of several, and print JSON
  PROGRAM ova inspect suite.ovf --virtual-system database -o json`),
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := options.OneOf("output", c.output, formats); err != nil {
				return err
			}
			found, err := c.read(cmd, args[0])
			if err != nil {
				return err
			}
			if c.output == printers.Table {
				err = printAppliance(program.Streams.Out, found)
			} else {
				err = printers.Document(program.Streams.Out, c.output, found)
			}
			return errors.Join(err, verdict(shown(args[0]), found))
		},
	}
	c.add(cmd)
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: "+strings.Join(formats, ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": formats})
	return cmd
}

// convert has the flags of ova convert.
type convert struct {
	choices
	name, namespace string
	networks        map[string]string
	macs            bool
}

func newConvert(program options.Program) *cobra.Command {
	c := &convert{choices: choices{program: program, output: printers.YAML}}
	cmd := &cobra.Command{
		Use:   "convert FILE|URL|oci://REGISTRY/REPOSITORY:TAG",
		Short: "Convert an OVA or OVF into a VirtualMachineTemplate",
		Long: `Convert an OVA or OVF into a VirtualMachineTemplate.

The template clones a PersistentVolumeClaim for each disk of the package. The command names these claims on standard error:
upload the disks to them. It also names each part that is dropped or guessed.

The first network adapter is connected to the pod network. Map each further network with --network.`,
		Example: program.Examples(`  # Convert an appliance with two networks
  PROGRAM ova convert appliance.ova -n templates --network Storage=lab/storage > template.yaml`),
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := options.OneOf("output", c.output, []string{printers.YAML, printers.JSON}); err != nil {
				return err
			}
			return c.run(cmd, args[0])
		},
	}
	c.add(cmd)
	cmd.Flags().StringVar(&c.name, "name", "", "Name of the template instead of that of the virtual system")
	cmd.Flags().StringVarP(&c.namespace, "namespace", "n", "default", "Namespace of the template and of its PersistentVolumeClaims")
	cmd.Flags().StringToStringVar(&c.networks, "network", nil, "`NETWORK=VALUE`: pod, none, or a NetworkAttachmentDefinition as NAME or NAMESPACE/NAME; can be repeated")
	cmd.Flags().BoolVar(&c.macs, "preserve-macs", false, "Keep the MAC addresses of the network adapters")
	cmd.Flags().StringVarP(&c.output, "output", "o", c.output, "What to print: yaml, json")
	options.CompleteFlags(cmd, map[string][]string{"output": {printers.YAML, printers.JSON}})
	return cmd
}

// shown is a file or a URL in messages.
func shown(name string) string {
	if isURL(name) {
		return sources.Redact(name)
	}
	return name
}

// check rejects flags that make no valid template, and networks that the virtual system does not have.
func (c *convert) check(system *ovf.System) error {
	if problems := validation.IsDNS1123Subdomain(c.name); c.name != "" && len(problems) > 0 {
		return options.Usagef("--name %s: %s", c.name, problems[0])
	}
	if problems := validation.IsDNS1123Label(c.namespace); len(problems) > 0 {
		return options.Usagef("--namespace %s: %s", c.namespace, problems[0])
	}
	for _, network := range slices.Sorted(maps.Keys(c.networks)) {
		if !slices.ContainsFunc(system.NICs, func(n ovf.NIC) bool { return n.Network == network }) {
			return options.Usagef("--network %s: no network adapter of the virtual system is in this network", network)
		}
	}
	return nil
}

func (c *convert) run(cmd *cobra.Command, name string) error {
	found, err := c.read(cmd, name)
	if err != nil {
		return err
	}
	name = shown(name)
	if err := verdict(name, found); err != nil {
		return err
	}
	if err := c.check(found.VirtualSystem); err != nil {
		return err
	}
	named := c.name
	if named == "" && found.Mapping.System.Name == "" && found.Mapping.System.ID == "" {
		named = ovf.Name(ovf.FileName(name))
	}
	before := len(found.Mapping.Warnings)
	template, err := found.Mapping.Template(ovf.TemplateOptions{Name: named, Namespace: c.namespace, Networks: c.networks, PreserveMACs: c.macs})
	if err != nil {
		return fmt.Errorf("%s: %w: use --network", name, err)
	}
	warnings := slices.Concat(found.Warnings, found.Mapping.Warnings[before:]) // Template adds its own
	for _, w := range warnings {
		fmt.Fprintf(c.program.Streams.ErrOut, "warning: %s: %s\n", texts.OneLine(w.Element), texts.OneLine(w.Message))
	}
	findings := templates.Check(&template.Spec, randomness.Source{})
	if templates.Denied(findings) {
		return fmt.Errorf("%s: the template is not valid: %s", name, findings[0].Error.Error())
	}
	for _, claim := range template.Claims {
		size := ""
		if claim.CapacityBytes > 0 {
			size = fmt.Sprintf(" with at least %d bytes", claim.CapacityBytes)
		}
		fmt.Fprintf(c.program.Streams.ErrOut, "upload %s to the PersistentVolumeClaim %s/%s%s\n", texts.OneLine(claim.Href), c.namespace, claim.Name, size)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template.VirtualMachineTemplate)
	if err != nil {
		return err
	}
	delete(object, "status")
	return printers.Document(c.program.Streams.Out, c.output, object)
}
