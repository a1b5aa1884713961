package virtualimages

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// create has the flags of image create.
type create struct {
	program options.Program
	options.Sources
	specFlags

	dryRun, output string
	wait           bool
	timeout        time.Duration
}

func newCreate(program options.Program) *cobra.Command {
	c := &create{program: program, Sources: options.NewSources(), dryRun: options.DryRunNone}
	cmd := &cobra.Command{
		Use:   "create NAME --src URL",
		Short: "Create a VirtualImage, which is imported from a URL",
		Long: `Create a VirtualImage, which is imported from a URL.

With --wait, create shows the progress of the import until virtual machines can use the image. The exit code is 1 if the import
fails, if it cannot begin, or if --timeout has passed. If you interrupt the command, the import continues in the cluster.

You need permission to create virtualimages and datavolumes in the namespace, and to get the Secret and the ConfigMap that you
name. --wait needs permission to get virtualimages.`,
		Example: program.Examples(`  # Import an image, and wait until virtual machines can use it
  PROGRAM image create fedora --src https://example.com/fedora.qcow2 --wait

  # Import a file whose name does not state its format, and check it
  PROGRAM image create ubuntu --src https://example.com/noble.img --format qcow2 --checksum sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

  # Print the object, and change nothing
  PROGRAM image create fedora --src https://example.com/fedora.qcow2 --dry-run=client -o yaml`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.addSource(cmd)
	c.specFlags.add(cmd, &c.Sources)
	c.addCommon(cmd)
	return cmd
}

// addCommon adds the flags that create and upload have.
func (c *create) addCommon(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&c.wait, "wait", false, "Show the progress of the import until virtual machines can use the image")
	flags.DurationVar(&c.timeout, "timeout", 0, "Time to wait with --wait, such as 10m; 0 waits without a limit")
	flags.StringVar(&c.dryRun, "dry-run", c.dryRun, "none, client (print the object), or server (let the API server check it)")
	flags.StringVarP(&c.output, "output", "o", "", "What to print: "+strings.Join(createOutputs(), ", "))
	options.AddClusterFlags(cmd, c.Config, "", "Namespace of the image")
	options.CompleteFlags(cmd, map[string][]string{"output": createOutputs(), "dry-run": options.DryRuns()})
}

func createOutputs() []string {
	return []string{printers.YAML, printers.JSON, printers.Name}
}

func (c *create) validate(cmd *cobra.Command, args []string) error {
	if err := c.specFlags.validate(cmd, args, c.src); err != nil && c.src != "" {
		return err
	}
	if err := c.validateSource(); err != nil {
		return err
	}
	if c.timeout != 0 && !c.wait {
		return options.Usagef("--timeout needs --wait")
	}
	return c.validateCommon()
}

// validateCommon checks the flags that create and upload have.
func (c *create) validateCommon() error {
	switch {
	case c.timeout < 0:
		return options.Usagef("--timeout %s: must not be negative", c.timeout)
	case c.wait && c.dryRun != options.DryRunNone:
		return options.Usagef("--wait and --dry-run exclude each other: nothing is imported")
	}
	if err := options.OptionalOneOf("output", c.output, createOutputs()); err != nil {
		return err
	}
	return options.OneOf("value of --dry-run", c.dryRun, options.DryRuns())
}

func (c *create) run(ctx context.Context) error {
	if c.dryRun == options.DryRunClient {
		namespace, _, err := c.Config.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
		object, err := encoded(c.image(namespace))
		if err != nil {
			return err
		}
		return c.print(object, " (dry run)")
	}
	in, err := connect(&c.Sources)
	if err != nil {
		return err
	}
	created, err := c.create(ctx, in)
	if err != nil {
		return err
	}
	if !c.wait {
		return c.print(created, map[string]string{options.DryRunServer: " (server dry run)"}[c.dryRun])
	}
	w := newWatcher(in, created, c.program.Streams, c.timeout)
	image, err := w.run(ctx)
	if err != nil {
		return err
	}
	return c.print(image, "")
}

// create creates the image.
func (c *create) create(ctx context.Context, in *connected) (*unstructured.Unstructured, error) {
	object, err := encoded(c.image(in.namespace))
	if err != nil {
		return nil, err
	}
	how := metav1.CreateOptions{FieldManager: manager, FieldValidation: metav1.FieldValidationStrict}
	if c.dryRun == options.DryRunServer {
		how.DryRun = []string{metav1.DryRunAll}
	}
	created, err := in.Create(ctx, object, how)
	if err != nil {
		return nil, fmt.Errorf("creating VirtualImage %s/%s: %w", in.namespace, c.name, named(err))
	}
	return created, nil
}

// print writes the image. Without --output, it writes what was done.
func (c *create) print(object *unstructured.Unstructured, note string) error {
	if c.output == "" && c.wait {
		image, err := decoded(object)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.program.Streams.Out, "%s ready%s\n", nameOf(object.GetName()), sized(image))
		return err
	}
	return printed(c.program, object, c.output, "created"+note)
}

// sized is the size of an image, if it is known.
func sized(image *v1alpha1.VirtualImage) string {
	if image.Status.Size == "" {
		return ""
	}
	return " (" + texts.OneLine(image.Status.Size) + ")"
}

const resourceName = "virtualimage.kupenstack.io"

func nameOf(name string) string { return resourceName + "/" + texts.OneLine(name) }

// printed writes an image in a form of kubectl.
func printed(program options.Program, object *unstructured.Unstructured, output, done string) error {
	return printers.Object(program.Streams.Out, object, output, resourceName, done)
}
