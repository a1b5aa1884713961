package policy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// completionTimeout bounds how long a shell waits for names.
const completionTimeout = 2 * time.Second

// machinePrefix marks the virtual machines among the arguments.
const machinePrefix = "vm/"

// exemption has the flags and the arguments of policy exempt.
type exemption struct {
	program options.Program
	config  *genericclioptions.ConfigFlags
	now     func() time.Time

	policies, machines                   []string
	reason, length, name, dryRun, output string
	lasts                                time.Duration
}

func exemptCommand(program options.Program) *cobra.Command {
	e := &exemption{program: program, config: genericclioptions.NewConfigFlags(true), now: time.Now, dryRun: options.DryRunNone}
	cmd := &cobra.Command{
		Use:   "exempt POLICY ... vm/NAME ... --for DURATION --reason TEXT",
		Short: "Exempt virtual machines from policies for some time",
		Long: `Exempt virtual machines from policies for some time.

exempt creates a VirtualMachinePolicyException in the namespace of the virtual machines, which do not have to exist yet. It
ends by itself. kubectl get vmpolex shows whether it is active.

You need the verb exempt on each policy, and permission to create virtualmachinepolicyexceptions in the namespace. Without
them, print the exception with --dry-run=client -o yaml, and ask an admin to apply it.`,
		Example: program.Examples(`  # Exempt a virtual machine from a policy for a month
  PROGRAM policy exempt memory-limit vm/analytics -n finance --for 30d --reason "the reports of the year's end need 32Gi"

  # Print the exception, and change nothing
  PROGRAM policy exempt memory-limit vm/analytics --for 30d --reason "year's end" --dry-run=client -o yaml`),
		Args: func(cmd *cobra.Command, args []string) error { return e.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return e.run(cmd.Context()) },
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return e.complete(cmd.Context(), args, word)
		},
	}
	options.AddClusterFlags(cmd, e.config, "", "Namespace of the virtual machines")
	flags := cmd.Flags()
	flags.StringVar(&e.length, "for", "", "Time until the exception ends, such as 30d, 2w or 12h (required)")
	flags.StringVar(&e.reason, "reason", "", "Why the exception exists (required)")
	flags.StringVar(&e.name, "name", "", "Name of the exception; by default, those of the first virtual machine and the first policy")
	flags.StringVar(&e.dryRun, "dry-run", e.dryRun, "none, client (print the object), or server (let the API server check it)")
	flags.StringVarP(&e.output, "output", "o", "", "What to print: "+strings.Join(exemptOutputs(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"output": exemptOutputs(), "dry-run": options.DryRuns(), "for": {"7d", "30d", "90d"}})
	return cmd
}

func exemptOutputs() []string {
	return []string{printers.YAML, printers.JSON, printers.Name}
}

func (e *exemption) validate(cmd *cobra.Command, args []string) (err error) {
	help := options.SeeHelp(cmd)
	e.policies, e.machines = nil, nil
	for _, arg := range args {
		name, ofMachine := strings.CutPrefix(arg, machinePrefix)
		if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
			return options.Usagef("%q: must be the name of a policy, or vm/NAME%s", arg, help)
		}
		if ofMachine {
			e.machines = append(e.machines, name)
		} else {
			e.policies = append(e.policies, name)
		}
	}
	switch {
	case len(e.policies) == 0:
		return options.Usagef("add the name of a policy%s", help)
	case len(e.machines) == 0:
		return options.Usagef("add the virtual machine as vm/NAME%s", help)
	case len(e.policies) > policyv1alpha1.MaxExceptionPolicies || len(e.machines) > policyv1alpha1.MaxExceptionMachines:
		return options.Usagef("an exception has at most %d policies and %d virtual machines", policyv1alpha1.MaxExceptionPolicies, policyv1alpha1.MaxExceptionMachines)
	case strings.TrimSpace(e.reason) == "":
		return options.Usagef("--reason is required: say why the exception exists%s", help)
	}
	if e.lasts, err = duration(e.length); err != nil {
		return options.Usagef("%w%s", err, help)
	}
	if e.name == "" {
		e.name = nameOf(e.machines[0], e.policies[0])
	}
	if wrong := validation.IsDNS1123Subdomain(e.name); len(wrong) > 0 {
		return options.Usagef("--name %q: %s", e.name, wrong[0])
	}
	if err := options.OptionalOneOf("output", e.output, exemptOutputs()); err != nil {
		return err
	}
	return options.OneOf("value of --dry-run", e.dryRun, options.DryRuns())
}

// nameOf returns the default name of an exception.
func nameOf(machine, policy string) string {
	name := machine + "-" + policy
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength)], "-.")
}

// maxDuration is that of the chart's value policies.exceptions.maxDays.
const maxDuration = 3650 * 24 * time.Hour

var days = regexp.MustCompile(`^([0-9]{1,4})([dw])$`)

// duration reads a time such as 30d, 2w or 12h30m.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if found := days.FindStringSubmatch(text); found != nil {
		n, _ := strconv.Atoi(found[1]) // at most four digits
		d, err = time.Duration(n)*map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[found[2]], nil
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("--for is required: the time until the exception ends, such as 30d")
	case err != nil:
		return 0, fmt.Errorf("--for %q: must be a time such as 30d, 2w or 12h", text)
	case d < time.Minute || d > maxDuration:
		return 0, fmt.Errorf("--for %s: must be from 1m to %dd", text, maxDuration/(24*time.Hour))
	}
	return d, nil
}

func (e *exemption) run(ctx context.Context) error {
	if e.dryRun == options.DryRunClient {
		namespace, _, err := e.config.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return fmt.Errorf("reading the kubeconfig: %w", err)
		}
		object, err := e.object(namespace)
		if err != nil {
			return err
		}
		return e.print(object, " (dry run)")
	}
	cluster, err := options.ConnectWarning(e.config, e.program.Streams.ErrOut)
	if err != nil {
		return err
	}
	object, err := e.object(cluster.Namespace)
	if err != nil {
		return err
	}
	how, note := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}, ""
	if e.dryRun == options.DryRunServer {
		how.DryRun, note = []string{metav1.DryRunAll}, " (server dry run)"
	}
	created, err := cluster.Client.Resource(apikinds.PolicyExceptions.GroupVersionResource()).Namespace(cluster.Namespace).Create(ctx, object, how)
	if err != nil {
		return e.failed(cluster.Namespace, err)
	}
	return e.print(created, note)
}

// object returns the exception.
func (e *exemption) object(namespace string) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policyv1alpha1.VirtualMachinePolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: e.name},
		Spec: policyv1alpha1.VirtualMachinePolicyExceptionSpec{
			Policies: unique(e.policies), VirtualMachines: unique(e.machines), Reason: e.reason,
			Expires: metav1.NewTime(e.now().Add(e.lasts).UTC().Truncate(time.Second)),
		},
	})
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(apikinds.PolicyExceptions.GroupVersionKind)
	return object, nil
}

// unique returns names in their order, each once.
func unique(names []string) (all []string) {
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

func (e *exemption) print(object *unstructured.Unstructured, note string) error {
	return printers.Object(e.program.Streams.Out, object, e.output, "virtualmachinepolicyexception.policy.virtward.io", "created"+note)
}

// withoutVerb matches the guard's answer to a user who may not exempt from a policy.
var withoutVerb = regexp.MustCompile(`exception-exempt: .*virtualmachinepolicies\.policy\.virtward\.io/(\S+)$`)

// failed returns the error of the API server, with what to do.
func (e *exemption) failed(namespace string, err error) error {
	named := fmt.Sprintf("%s %s/%s", apikinds.VirtualMachinePolicyException, namespace, e.name)
	const ask = "ask an admin to apply what --dry-run=client -o yaml prints"
	switch {
	case apierrors.IsNotFound(err) && !strings.Contains(err.Error(), "namespaces "), meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster has no %s: Virtward is not installed there", apikinds.VirtualMachinePolicyException)
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s exists already: choose another name with --name, or change it with kubectl edit", named)
	case apierrors.IsForbidden(err):
		if found := withoutVerb.FindStringSubmatch(err.Error()); found != nil {
			return fmt.Errorf("you need the verb exempt on the policy %s: %s", texts.OneLine(found[1]), ask)
		}
		return fmt.Errorf("creating %s: %w: %s", named, err, ask)
	}
	return fmt.Errorf("creating %s: %w", named, err)
}

// complete completes the names of policies, and after vm/ those of virtual machines.
func (e *exemption) complete(ctx context.Context, args []string, word string) ([]string, cobra.ShellCompDirective) {
	const plain = cobra.ShellCompDirectiveNoFileComp
	cluster, err := options.Connect(e.config)
	if err != nil {
		return nil, plain
	}
	resource, namespace, prefix := apikinds.Policies.GroupVersionResource(), metav1.NamespaceAll, ""
	if strings.HasPrefix(word, machinePrefix) {
		resource, namespace, prefix = apikinds.VirtualMachines.GroupVersionResource(), cluster.Namespace, machinePrefix
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	list, err := cluster.Client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, plain
	}
	var names []string
	for i := range list.Items {
		if name := prefix + list.Items[i].GetName(); !slices.Contains(args, name) {
			names = append(names, name)
		}
	}
	if prefix == "" && len(args) > 0 {
		return append(names, machinePrefix), plain | cobra.ShellCompDirectiveNoSpace
	}
	return names, plain
}
