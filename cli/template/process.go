package template

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/templates/randomness"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// process has the flags of template process.
type process struct {
	program options.Program
	source
	options.Parameters

	output, target              string
	local, create, printsParams bool
}

func newProcess(program options.Program) *cobra.Command {
	p := &process{program: program, source: source{Sources: options.NewSources()}, output: printers.YAML}
	cmd := &cobra.Command{
		Use:   "process [NAME]",
		Short: "Render a template with values for its parameters",
		Long: `Render a template with values for its parameters, and print the VirtualMachine.

The template is in a file, or in the cluster. One of the cluster is rendered there, so you need no permission to read
it; with --local it is read and rendered here. --create also creates the VirtualMachine there: you only need permission to
create virtualmachinetemplates/create of subresources.template.kubevirt.io. The cluster must serve that API.

Warnings, and the template's message, are written to standard error.`,
		Example: program.Examples(`  # Which parameters has the template?
  PROGRAM template parameters fedora -n templates

  # Render it, and create the virtual machine as yourself
  PROGRAM template process fedora -n templates -p NAME=web | kubectl create -f -

  # Create the virtual machine in another namespace
  PROGRAM template process fedora -n templates -p NAME=web --create --target-namespace shop

  # Try a template before it is applied
  PROGRAM template process -f template.yaml -p NAME=web`),
		Args: func(cmd *cobra.Command, args []string) error { return p.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd.Context()) },
	}
	p.source.addFlags(cmd)
	p.Parameters.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&p.output, "output", "o", p.output, "What to print: yaml, json, name")
	flags.BoolVar(&p.local, "local", false, "Read a template of the cluster and render it here")
	flags.BoolVar(&p.create, "create", false, "Create the virtual machine too")
	flags.StringVar(&p.target, "target-namespace", "", "Namespace of the virtual machine; that of the template if empty")
	flags.BoolVar(&p.printsParams, "print-params", false, "List the parameters of the template instead")
	options.CompleteFlags(cmd, map[string][]string{"output": processOutputs()})
	return cmd
}

// processOutputs are the values of --output.
func processOutputs() []string {
	return []string{printers.YAML, printers.JSON, printers.Name}
}

func (p *process) validate(cmd *cobra.Command, args []string) error {
	if err := p.take(cmd, args); err != nil {
		return err
	}
	if p.create && (p.local || p.file != "") {
		return options.Usagef("--create needs a template of the cluster that is rendered there: create the printed VirtualMachine with kubectl create -f -")
	}
	return options.OneOf("output", p.output, processOutputs())
}

func (p *process) run(ctx context.Context) error {
	values, err := p.Values()
	if err != nil {
		return err
	}
	if p.printsParams {
		return printParameters(ctx, p.program, &p.source, printers.Table)
	}
	if p.file == "" && !p.local {
		return p.remote(ctx, values)
	}
	template, err := p.read(ctx, p.program.Streams.In)
	if err != nil {
		return err
	}
	rendered, findings := templates.Render(&template.Spec, values, templates.Options{Random: randomness.Source{}})
	printFindings(p.program.Streams.ErrOut, findings)
	if rendered == nil {
		return fmt.Errorf("the template %s cannot be rendered", texts.OneLine(template.Name))
	}
	if p.target != "" {
		rendered.VirtualMachine.Namespace = p.target
	}
	return p.print(rendered.VirtualMachine, rendered.Message)
}

// printFindings writes each finding on a line.
func printFindings(w io.Writer, findings []validators.Finding) {
	for i := range findings {
		f := &findings[i]
		kind := "warning"
		if f.Severity == validators.Deny {
			kind = "error"
		}
		fmt.Fprintf(w, "%s: %s [virtward/%s] %s\n", kind, texts.OneLine(f.Error.Error()), f.Rule, f.Remedy)
	}
}

// remote renders the template in the cluster.
func (p *process) remote(ctx context.Context, values map[string]string) error {
	cluster, err := options.Connect(p.Config)
	if err != nil {
		return err
	}
	api, err := newAPI(p.Config, p.Namespace(cluster), p.program.Streams.ErrOut)
	if err != nil {
		return err
	}
	subresource := subresources.Process
	if p.create {
		subresource = subresources.Create
	}
	var processed subresources.ProcessedVirtualMachineTemplate
	if err := api.post(ctx, p.name, subresource, false, &subresources.ProcessOptions{Parameters: values, TargetNamespace: p.target}, &processed); err != nil {
		return err
	}
	return p.print(processed.VirtualMachine, processed.Message)
}

// print writes the VirtualMachine, and the message to standard error.
func (p *process) print(vm *kubevirtv1.VirtualMachine, message string) error {
	if p.output == printers.Name {
		fmt.Fprintf(p.program.Streams.Out, "virtualmachine.kubevirt.io/%s\n", texts.OneLine(vm.Name))
	} else if err := printWithoutStatus(p.program.Streams.Out, vm, p.output); err != nil {
		return err
	}
	if message != "" {
		fmt.Fprintln(p.program.Streams.ErrOut, texts.Printable(message))
	}
	return nil
}

// printWithoutStatus writes an object of the API as YAML or JSON. Its status says nothing yet.
func printWithoutStatus(w io.Writer, typed any, output string) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return err
	}
	delete(object, "status")
	unstructured.RemoveNestedField(object, "metadata", "managedFields")
	return printers.Document(w, output, object)
}
