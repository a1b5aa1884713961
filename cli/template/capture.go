package template

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
)

// capture has the flags of template create.
type capture struct {
	program options.Program
	options.Sources

	name, fromVM, vmName, vmNamespace, template, output string
	labels                                              map[string]string
	ttl                                                 time.Duration
	hasTTL, watch                                       bool
	timeout                                             time.Duration
	policy, state                                       string
}

func newCapture(program options.Program) *cobra.Command {
	c := &capture{program: program, Sources: options.NewSources(), output: printers.YAML}
	cmd := &cobra.Command{
		Use:   "create [NAME] --from-vm NAMESPACE/VM",
		Short: "Make a template of a virtual machine",
		Long: `Make a template of a virtual machine.

create prints a VirtualMachineTemplateRequest: apply it with kubectl create. The cluster then snapshots the virtual machine,
clones the volumes of the snapshot into the namespace of the request, and creates the template there. The template has the
name of the request, unless you name another with --template-name.

With --watch, create sends the request itself, and shows the progress until the template is complete. The exit code is 1 if
the capture fails. If you interrupt the command, the capture continues in the cluster.

You need permission to create virtualmachinetemplaterequests, virtualmachinetemplates and datavolumes in the namespace of
the request. In the namespace of the virtual machine, you need permission to get the virtual machine and to create
virtualmachinesnapshots.`,
		Example: program.Examples(`  # Make the template web of a virtual machine of another namespace, and wait for it
  PROGRAM template create web --from-vm=shop/web-1 -n templates | kubectl create -f -
  kubectl wait -n templates virtualmachinetemplaterequest/web --for condition=Completed

  # The same with the progress, and delete the request an hour after it is complete
  PROGRAM template create web --from-vm=shop/web-1 -n templates --ttl 1h --watch`),
		Args: func(cmd *cobra.Command, args []string) error {
			c.hasTTL = cmd.Flags().Changed("ttl")
			return c.validate(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&c.fromVM, "from-vm", "", "The virtual machine: NAMESPACE/NAME, or NAME of the same namespace")
	flags.StringVar(&c.vmName, "vm-name", "", "Name of the virtual machine, instead of --from-vm")
	flags.StringVar(&c.vmNamespace, "vm-namespace", "", "Namespace of the virtual machine, with --vm-name")
	flags.StringVar(&c.template, "template-name", "", "Name of the template; that of the request if empty")
	flags.StringVar(&c.template, "name", "", "The same as --template-name")
	flags.StringToStringVar(&c.labels, "label", nil, "Labels of the template: KEY=VALUE")
	flags.StringVar(&c.policy, "instancetype-policy", "", "What the template has of the instancetype and the preference: "+strings.Join(instancetypePolicies(), " (their fields), ")+" (the references); Expand if empty")
	flags.StringVar(&c.state, "source-state", "", "State that the virtual machine must have during the snapshot: "+strings.Join(sourceStates(), ", ")+"; Any if empty")
	flags.DurationVar(&c.ttl, "ttl", 0, "Delete the completed request after this time, such as 1h; by default it is kept")
	flags.BoolVar(&c.watch, "watch", false, "Send the request, and show the progress until the template is complete")
	flags.DurationVar(&c.timeout, "timeout", 0, "Time to wait with --watch; 0 waits without a limit")
	flags.StringVarP(&c.output, "output", "o", c.output, "What to print: yaml, json")
	options.AddClusterFlags(cmd, c.Config, ", for --watch and the namespace", "Namespace of the request and of the template")
	options.CompleteFlags(cmd, map[string][]string{"output": {printers.YAML, printers.JSON}, "instancetype-policy": instancetypePolicies(), "source-state": sourceStates()})
	return cmd
}

// instancetypePolicies are the values of --instancetype-policy.
func instancetypePolicies() []string {
	return []string{string(v1beta1.InstancetypeExpand), string(v1beta1.InstancetypeKeep)}
}

// sourceStates are the values of --source-state.
func sourceStates() []string {
	return []string{string(v1beta1.SourceAny), string(v1beta1.SourceQuiesced), string(v1beta1.SourceStopped)}
}

func (c *capture) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	switch {
	case len(args) > 1:
		return options.Usagef("name one template%s", help)
	case (c.fromVM == "") == (c.vmName == ""):
		return options.Usagef("name the virtual machine with --from-vm NAMESPACE/NAME%s", help)
	case c.fromVM != "" && c.vmNamespace != "":
		return options.Usagef("--vm-namespace needs --vm-name: with --from-vm, write NAMESPACE/NAME")
	case c.ttl < 0 || c.ttl%time.Second != 0 || c.ttl > math.MaxInt32*time.Second:
		return options.Usagef("--ttl %s: use whole seconds, from 0 to %d", c.ttl, math.MaxInt32)
	case c.timeout != 0 && !c.watch:
		return options.Usagef("--timeout needs --watch")
	case c.timeout < 0:
		return options.Usagef("--timeout %s: must not be negative", c.timeout)
	}
	if c.vmName = c.vmNameOf(); c.vmName == "" || strings.Contains(c.vmName, "/") {
		return options.Usagef("--from-vm %s: write NAMESPACE/NAME", c.fromVM)
	}
	if len(args) == 1 {
		c.name = args[0]
	}
	if err := options.OptionalOneOf("instancetype policy", c.policy, instancetypePolicies()); err != nil {
		return err
	}
	if err := options.OptionalOneOf("source state", c.state, sourceStates()); err != nil {
		return err
	}
	return options.OneOf("output", c.output, []string{printers.YAML, printers.JSON})
}

// vmNameOf splits --from-vm, and returns the name.
func (c *capture) vmNameOf() string {
	if c.fromVM == "" {
		return c.vmName
	}
	namespace, name, qualified := strings.Cut(c.fromVM, "/")
	if !qualified {
		return namespace
	}
	if namespace == "" {
		return ""
	}
	c.vmNamespace = namespace
	return name
}

func (c *capture) run(ctx context.Context) error {
	namespace, _, err := c.Config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	request, err := c.request(namespace)
	if err != nil {
		return err
	}
	if !c.watch {
		return printers.Document(c.program.Streams.Out, c.output, request.Object)
	}
	cluster, err := options.Connect(c.Config)
	if err != nil {
		return err
	}
	requests := cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplaterequests")).Namespace(namespace)
	created, err := requests.Create(ctx, request, metav1.CreateOptions{FieldManager: "kubectl-virtward"})
	if err != nil {
		return fmt.Errorf("creating the request: %w", err)
	}
	w := &watcher{requests: requests, created: created, streams: c.program.Streams, timeout: c.timeout, pause: watchPause, object: "request", work: "capture"}
	return w.run(ctx)
}

// request is the request that the flags describe.
func (c *capture) request(namespace string) (*unstructured.Unstructured, error) {
	request := &v1beta1.VirtualMachineTemplateRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: apikinds.VirtualMachineTemplateRequest},
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: namespace},
		Spec: v1beta1.VirtualMachineTemplateRequestSpec{
			VirtualMachineRef: v1beta1.VirtualMachineReference{Namespace: c.vmNamespace, Name: c.vmName},
			TemplateName:      c.template, TemplateLabels: c.labels,
			InstancetypePolicy: v1beta1.InstancetypePolicy(c.policy), SourceState: v1beta1.SourceState(c.state),
		},
	}
	if c.name == "" {
		request.GenerateName = c.vmName + "-"
	}
	if c.vmNamespace == "" {
		request.Spec.VirtualMachineRef.Namespace = namespace
	}
	if c.hasTTL {
		request.Spec.TTLSecondsAfterFinished = new(int32(c.ttl / time.Second)) //nolint:gosec // validate bounds it
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(request)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	return &unstructured.Unstructured{Object: object}, nil
}
