package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/audit"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
)

// installOptions are the flags of policy install.
type installOptions struct {
	applyOptions

	list        bool
	enforcement string
	params      []string
}

func enforcements() []string {
	return []string{string(policyv1alpha1.PolicyAudit), string(policyv1alpha1.PolicyWarn), string(policyv1alpha1.PolicyDeny)}
}

func installCommand(program options.Program) *cobra.Command {
	o := &installOptions{applyOptions: applyOptions{Options: audit.NewOptions(program)}}
	cmd := &cobra.Command{
		Use:   "install (NAME | --list)",
		Short: "Apply a policy of Virtward's library",
		Long: `Apply a policy of Virtward's library.

The enforcement of a new policy is Audit by default: findings appear only in reports. --list lists the policies; with
-o json, also their parameters. --params sets a parameter to a value in YAML.

An installed policy keeps its enforcement and its parameters, except those that you set.

With --dry-run, install changes nothing, and shows what the policy would find, as policy apply does.`,
		Example: program.Examples(`  # List the policies
  PROGRAM policy install --list

  # Show what a policy would find
  PROGRAM policy install memory-cap --params max=8Gi --enforcement Deny --dry-run

  # Start with reports, and deny later
  PROGRAM policy install memory-cap --params max=8Gi
  PROGRAM policy install memory-cap --enforcement Deny`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validateInstall(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return o.writeList()
			}
			return o.install(cmd.Context(), args[0])
		},
	}
	o.addApplyFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.list, "list", false, "List the policies of the library")
	flags.StringVar(&o.enforcement, "enforcement", "", "Enforcement of the policy: "+strings.Join(enforcements(), ", ")+" (default "+enforcements()[0]+" for a new policy)")
	flags.StringArrayVar(&o.params, "params", nil, "Set a parameter: NAME=VALUE")
	options.CompleteFlags(cmd, map[string][]string{"enforcement": enforcements()})
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, entry := range library.All() {
			names = append(names, entry.Name+"\t"+entry.Title)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

func (o *installOptions) validateInstall(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	switch {
	case o.list && len(args) > 0:
		return options.Usagef("NAME and --list exclude each other%s", help)
	case o.list && o.Output != printers.Table && o.Output != printers.JSON:
		return options.Usagef("unknown output %q: --list supports %s and %s", o.Output, printers.Table, printers.JSON)
	case o.list:
		return nil
	case len(args) != 1:
		return options.Usagef("add the name of one policy: --list lists them%s", help)
	}
	if err := options.OptionalOneOf("enforcement", o.enforcement, enforcements()); err != nil {
		return err
	}
	if _, known := library.Find(args[0]); !known {
		return options.Usagef("there is no policy %q in the library: %s --list lists them", args[0], cmd.CommandPath())
	}
	for _, param := range o.params {
		if name, _, ok := strings.Cut(param, "="); !ok || name == "" {
			return options.Usagef("--params %s: must have the form NAME=VALUE", param)
		}
	}
	return o.validateApply(cmd)
}

// listed is a policy of the library in JSON.
type listed struct {
	Name       string                        `json:"name"`
	Title      string                        `json:"title"`
	Category   string                        `json:"category"`
	Severity   policyv1alpha1.PolicySeverity `json:"severity"`
	Language   library.Language              `json:"language"`
	Parameters []parameter                   `json:"parameters"`
}

type parameter struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description"`
	Default     json.RawMessage `json:"default,omitempty"`
}

func (o *installOptions) writeList() error {
	if o.Output == printers.JSON {
		all := []listed{}
		for _, e := range library.All() {
			l := listed{Name: e.Name, Title: e.Title, Category: e.Category, Severity: e.Severity, Language: e.Language, Parameters: []parameter{}}
			for _, p := range e.Parameters {
				l.Parameters = append(l.Parameters, parameter{p.Name, p.Schema.Type, p.Schema.Description, json.RawMessage(p.Default)})
			}
			all = append(all, l)
		}
		return printers.Document(o.Streams.Out, o.Output, all)
	}
	return entryPrinter.Table(o.Streams.Out, printers.Table, library.All())
}

// entryPrinter prints the policies of the library.
var entryPrinter = printers.Printer[library.Entry]{
	Columns: []string{"NAME", "CATEGORY", "SEVERITY", "LANGUAGE", "TITLE"},
	Row: func(e *library.Entry) []string {
		return []string{e.Name, e.Category, string(e.Severity), string(e.Language), e.Title}
	},
	Spacing: printers.Narrow,
}

// install applies a policy of the library.
func (o *installOptions) install(ctx context.Context, name string) error {
	entry, _ := library.Find(name)
	read, err := manifests.Read("the library", bytes.NewReader(entry.YAML))
	if err != nil {
		return err
	}
	d := manifests.Document{Source: "the library", Object: read[0].Object}
	before, err := o.installed(ctx, name)
	if err != nil {
		return err
	}
	if err := o.adapt(d.Object, before, entry.Parameters); err != nil {
		return err
	}
	if err := o.apply(ctx, &offline.Files{Configuration: []manifests.Document{d}}, "policy install "+name); err != nil || o.dryRun {
		return err
	}
	enforcement, _, _ := unstructured.NestedString(d.Object.Object, "spec", "enforcement")
	if enforcement == string(policyv1alpha1.PolicyAudit) {
		fmt.Fprintf(o.Streams.ErrOut, "note: the enforcement is Audit: findings appear only in reports and in %s audit. To deny: %s policy install %s --enforcement Deny\n", o.Name, o.Name, name)
	}
	return nil
}

// installed returns the spec of the policy in the cluster; nil if there is none.
func (o *installOptions) installed(ctx context.Context, name string) (map[string]any, error) {
	c, err := options.Connect(o.Config)
	if err != nil {
		return nil, err
	}
	object, err := c.Client.Resource(offline.Resources[apikinds.VirtualMachinePolicy]).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s, to keep its enforcement and parameters: %w", apikinds.VirtualMachinePolicy, name, err)
	}
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	return spec, err
}

// adapt sets the enforcement and the parameters: those of the command line, else those of the installed policy, else
// Audit and those of the library.
func (o *installOptions) adapt(object *unstructured.Unstructured, before map[string]any, known []library.Parameter) error {
	enforcement := string(policyv1alpha1.PolicyAudit)
	if was, ok := before["enforcement"].(string); ok {
		enforcement = was
	}
	if o.enforcement != "" {
		enforcement = o.enforcement
	}
	if err := unstructured.SetNestedField(object.Object, enforcement, "spec", "enforcement"); err != nil {
		return fmt.Errorf("setting the enforcement: %w", err)
	}
	if len(known) == 0 && len(o.params) > 0 {
		return options.Usagef("--params %s: the policy has no parameters", o.params[0])
	}
	values, _, err := unstructured.NestedMap(object.Object, "spec", "params", "values")
	if err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	if values == nil {
		values = map[string]any{}
	}
	kept, _, _ := unstructured.NestedMap(before, "params", "values")
	for _, p := range known { // parameters of an older version may not exist any more
		if value, ok := kept[p.Name]; ok {
			values[p.Name] = value
		}
	}
	given, err := o.given(known)
	if err != nil {
		return err
	}
	maps.Copy(values, given)
	if len(values) == 0 {
		return nil
	}
	if err := unstructured.SetNestedMap(object.Object, values, "spec", "params", "values"); err != nil {
		return fmt.Errorf("setting the parameters: %w", err)
	}
	return nil
}

// given returns the parameters of the command line.
func (o *installOptions) given(known []library.Parameter) (map[string]any, error) {
	values := map[string]any{}
	for _, param := range o.params {
		name, text, _ := strings.Cut(param, "=")
		i := slices.IndexFunc(known, func(p library.Parameter) bool { return p.Name == name })
		if i < 0 {
			var names []string
			for _, p := range known {
				names = append(names, p.Name)
			}
			return nil, options.Usagef("--params %s: unknown parameter: the known ones are %s", param, strings.Join(names, ", "))
		}
		if known[i].Schema.Type == "string" { // also if it is a number in YAML
			values[name] = text
			continue
		}
		value, err := policies.ReadValue(text)
		if err != nil {
			return nil, options.Usagef("--params %s: the value must be YAML: %w", param, err)
		}
		values[name] = value
	}
	return values, nil
}
