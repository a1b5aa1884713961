package policy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/inspect"
	"github.com/virtward/virtward/texts"
)

// evalOptions are the flags of policy eval.
type evalOptions struct {
	program  options.Program
	sources  options.Sources
	language string
	output   string
	// name selects one of several virtual machines, policy a policy with parameters and variables.
	name, policy string
	params       string
	old          string
	user         string
	groups       []string
	// breakpoint is a variable of the policy.
	breakpoint string
	// trace reports whether the parts of an expression are shown too.
	trace bool
}

// outputText is the output for people.
const outputText = "text"

func evalCommand(program options.Program) *cobra.Command {
	o := &evalOptions{program: program, sources: options.NewSources(), language: inspect.CEL, output: outputText, user: "eval"}
	outputs := []string{outputText, printers.JSON}
	cmd := &cobra.Command{
		Use:   "eval [EXPRESSION] -f FILE",
		Short: "Show the value of an expression for a virtual machine, and of each of its parts",
		Long: `Show the value of an expression for a virtual machine, and of each of its parts.

eval computes the documents that policies read, such as vm, object, instancetype and platform, as explain does. It evaluates
the expression with the budget of a policy, and prints its value, its type, its cost, and the values of its parts, unless
--trace=false is set. With --policy, the expression can also read the params and the variables of a policy of the files or of the
cluster.

With --break VARIABLE, eval evaluates the policy of --policy instead. It stops where the variable gets a value, and shows the value
and its inputs. In CEL, it is one of spec.variables, and it gets its value when an expression reads it first. In Rego, it is a
variable or a rule of the module, and it can get several values. In a terminal, eval waits after each stop: write expressions, or
:next. Otherwise, it prints all stops.

Without an expression, eval reads expressions from standard input: one from each line, or in a terminal, with a history, and
completion of names by Tab.

The exit code is 1 if an expression has no value because of an error, or if a document cannot be read.`,
		Example: program.Examples(`  # Show the memory that a virtual machine will have
  PROGRAM policy eval vm.spec.domain.memory.guest -f vm.yaml

  # Find out why a policy denies it
  PROGRAM policy eval 'quantity(variables.memory).compareTo(quantity(params.limit)) <= 0' -f vm.yaml -f policy.yaml --policy memory-limit

  # Show the value of a variable of a policy when it gets it, and its inputs
  PROGRAM policy eval -f vm.yaml -f policy.yaml --policy memory-limit --break memory

  # Try expressions in a terminal
  PROGRAM policy eval -f vm.yaml --from-cluster`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return options.Usagef("write the expression as one argument, in quotes%s", options.SeeHelp(cmd))
			}
			if !o.sources.HasFiles() {
				return options.Usagef("add a file with a virtual machine with -f%s", options.SeeHelp(cmd))
			}
			if err := o.sources.ValidateFiles(cmd); err != nil {
				return err
			}
			if o.breakpoint != "" && o.policy == "" {
				return options.Usagef("--break needs the name of a policy: add --policy%s", options.SeeHelp(cmd))
			}
			if o.breakpoint != "" && len(args) > 0 {
				return options.Usagef("--break stops in the policy: leave out the expression%s", options.SeeHelp(cmd))
			}
			if err := options.OneOf("language", o.language, inspect.Languages()); err != nil {
				return err
			}
			if err := options.OneOf("output", o.output, outputs); err != nil {
				return err
			}
			return o.sources.ValidateFacts()
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	options.AddClusterFlags(cmd, o.sources.Config, ", for --from-cluster", "Namespace of objects that name none")
	o.sources.AddFileFlags(cmd, "the virtual machine, and objects that it refers to")
	o.sources.AddFactsFlags(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.sources.Instancetypes, "instancetype", nil, "Files with instancetypes, or other objects that virtual machines refer to")
	flags.StringSliceVar(&o.sources.Preferences, "preference", nil, "Files with preferences, or other objects that virtual machines refer to")
	flags.BoolVar(&o.sources.FromCluster, "from-cluster", false, "Read the configuration, and objects that the files lack, from the cluster")
	flags.StringVar(&o.language, "language", o.language, "Language of the expression: "+strings.Join(inspect.Languages(), ", "))
	flags.StringVar(&o.name, "name", "", "Name of the virtual machine, if there are several")
	flags.StringVar(&o.policy, "policy", "", "Policy whose params and variables the expression can read")
	flags.StringVar(&o.breakpoint, "break", "", "Variable of the policy to stop at, to show its value and its inputs")
	flags.BoolVar(&o.trace, "trace", true, "Show the values of the parts of an expression too")
	flags.StringVar(&o.params, "params", "", "Values of params, as a YAML or JSON object")
	flags.StringVar(&o.old, "old-filename", "", "File with the object before an update, which the expression reads as oldObject")
	flags.StringVar(&o.user, "requester", o.user, "Name of the user who sends the request")
	flags.StringSliceVar(&o.groups, "requester-group", nil, "Groups of the user who sends the request")
	flags.StringVarP(&o.output, "output", "o", o.output, "What to print: "+strings.Join(outputs, ", "))
	options.CompleteFlags(cmd, map[string][]string{"language": inspect.Languages(), "output": outputs})
	return cmd
}

func (o *evalOptions) run(ctx context.Context, args []string) error {
	s, err := o.session(ctx)
	if err != nil {
		return err
	}
	return options.JoinErrors(s.read(ctx, args), s.unreadable)
}

// read evaluates the expression of the arguments, or those of standard input.
func (s *session) read(ctx context.Context, args []string) error {
	if len(args) == 1 {
		return s.show(ctx, args[0])
	}
	var stops *inspect.Break
	if s.breakpoint != "" {
		var err error
		if stops, err = s.stops(ctx); err != nil {
			return err
		}
	}
	if in, ok := s.program.Streams.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) && (stops == nil || s.output == outputText) {
		return s.terminal(ctx, in, stops)
	}
	if stops != nil {
		return s.showStops(stops)
	}
	return s.lines(ctx)
}

// lines evaluates the lines of standard input.
func (s *session) lines(ctx context.Context) error {
	lines := bufio.NewScanner(io.LimitReader(s.program.Streams.In, manifests.MaxFile))
	without := 0
	var failed error
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		if err := s.show(ctx, line); errors.Is(err, errNoValue) {
			without++
		} else {
			failed = errors.Join(failed, err)
		}
	}
	switch {
	case without == 1:
		failed = errors.Join(errNoValue, failed)
	case without > 1:
		failed = errors.Join(fmt.Errorf("%d expressions have no value", without), failed)
	}
	return errors.Join(failed, lines.Err())
}

// errNoValue is the error of an expression of which the output says what is wrong.
var errNoValue = errors.New("the expression has no value")

// session is a virtual machine, and what expressions can read of it.
type session struct {
	*evalOptions

	evaluator *offline.Evaluator
	subject   manifests.Document
	// unreadable is the error of other documents, which are not evaluated.
	unreadable error
	old        *manifests.Document
	inspector  *inspect.Inspector
	// chosen is the policy of --policy.
	chosen *policies.Policy
	// matching is a policy that matches the virtual machine.
	matching *policies.Policy
}

// session reads the files, and the cluster if the flags select it.
func (o *evalOptions) session(ctx context.Context) (*session, error) {
	stdin := options.Once(o.program.Streams.In)
	files, err := o.sources.ReadFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	files.NeedNodes = true
	s := &session{evalOptions: o}
	var cluster *offline.Cluster
	if o.sources.FromCluster {
		if cluster, err = options.Connect(o.sources.Config); err != nil {
			return nil, err
		}
	}
	facts, err := o.sources.ReadFacts(ctx, files, cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = o.sources.Assume(facts); err != nil {
		return nil, err
	}
	if s.evaluator, err = o.sources.NewEvaluator(ctx, files, cluster, facts); err != nil {
		return nil, err
	}
	s.unreadable = explanation.UnreadableError(explanation.Unreadables(slices.Concat(files.Unreadable, s.evaluator.Unreadable)))
	if s.subject, err = o.choose(files.Subjects); err != nil {
		return nil, options.JoinErrors(err, s.unreadable)
	}
	if o.old != "" {
		if err := s.readOld(ctx, stdin); err != nil {
			return nil, err
		}
	}
	return s, s.prepare()
}

// readOld reads the old object.
func (s *session) readOld(ctx context.Context, stdin io.Reader) error {
	found, err := manifests.ReadAll(ctx, []string{s.evalOptions.old}, false, stdin)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0].Object.GroupVersionKind() != s.subject.Object.GroupVersionKind() {
		return fmt.Errorf("%s: must have one object, of the kind of the virtual machine", s.evalOptions.old)
	}
	s.old = &found[0]
	return nil
}

// choose returns the virtual machine to evaluate expressions on.
func (o *evalOptions) choose(all []manifests.Document) (manifests.Document, error) {
	var found []manifests.Document
	var names []string
	for _, d := range all {
		names = append(names, d.Object.GetName())
		if o.name == "" || d.Object.GetName() == o.name {
			found = append(found, d)
		}
	}
	switch {
	case len(all) == 0:
		return manifests.Document{}, fmt.Errorf("%s: no virtual machine", o.sources.Names())
	case len(found) == 0:
		return manifests.Document{}, fmt.Errorf("%s: no virtual machine %q: there are %s", o.sources.Names(), o.name, texts.Shorten(strings.Join(names, ", "), 200))
	case len(found) > 1:
		return manifests.Document{}, options.Usagef("%s: there are %d virtual machines: choose one with --name: %s", o.sources.Names(), len(found), texts.Shorten(strings.Join(names, ", "), 200))
	}
	return found[0], nil
}

// everyPreview reads all previews, so that they are prepared for any expression. It computes none of them.
const everyPreview = "true || dyn(pod) == dyn(domain) || migrationTargets > 0"

// prepare compiles the variables, and a policy that matches the virtual machine.
func (s *session) prepare() error {
	env, err := cel.Shared()
	if err != nil {
		return err
	}
	kind := s.subject.Object.GetKind()
	in := inspect.Options{Kind: kind}
	if s.policy != "" {
		policy := s.evaluator.Policies().Find(s.policy)
		if policy == nil {
			return fmt.Errorf("there is no valid policy %q in the files, nor in the cluster with --from-cluster", s.policy)
		}
		in.Params, in.Variables = policy.Params(), policy.Spec().Variables
		s.chosen = policy
	}
	if s.params != "" {
		in.Params = nil
		if err := yaml.Unmarshal([]byte(s.params), &in.Params); err != nil || in.Params == nil {
			return options.Usagef("--params must be a YAML or JSON object")
		}
	}
	if s.chosen != nil && s.params != "" {
		if err := s.withParams(env, in.Params); err != nil {
			return err
		}
	}
	inspector, problems := inspect.New(env, in)
	if inspector == nil {
		return fmt.Errorf("the variables of the policy: %s", problems[0])
	}
	matching := &policyv1alpha1.VirtualMachinePolicy{}
	matching.Name = "eval"
	matching.Spec.Enforcement = policyv1alpha1.PolicyAudit
	matching.Spec.Match.Kinds = []policyv1alpha1.PolicyKind{policyv1alpha1.PolicyKind(kind)}
	matching.Spec.Validations = []policyv1alpha1.PolicyValidation{{Expression: everyPreview, Message: "eval"}}
	s.inspector = inspector
	s.matching, _ = policies.Compile(env, matching, nil)
	if s.matching.Broken() != "" {
		return fmt.Errorf("policies are not evaluated on a %s", kind)
	}
	return nil
}

// evaluate evaluates an expression.
func (s *session) evaluate(ctx context.Context, expression string) (r *inspect.Result, err error) {
	err = s.documents(ctx, func(d *cel.Documents) {
		if s.language == inspect.Rego {
			r = s.inspector.Rego(expression, d)
			return
		}
		r = s.inspector.CEL(expression, d)
	})
	if r != nil && !s.trace {
		r.Parts = nil
	}
	return r, err
}

// documents hands the documents to a function, with a request.
func (s *session) documents(ctx context.Context, use func(*cel.Documents)) error {
	var failed error
	err := s.evaluator.Observe(ctx, s.subject, s.matching, func(d *cel.Documents) {
		own := *d
		own.Requester = s.user
		own.Request.Operation = string(policyv1alpha1.PolicyCreate)
		own.Request.UserInfo = authenticationv1.UserInfo{Username: s.user, Groups: s.groups}
		if s.old != nil && d.Object != nil {
			own.Request.Operation = string(policyv1alpha1.PolicyUpdate)
			old := reflect.New(reflect.TypeOf(d.Object).Elem())
			if _, failed = manifests.Decode(s.old.Object.Object, old.Interface()); failed != nil {
				return
			}
			own.OldObject = old.Interface()
		}
		use(&own)
	})
	return errors.Join(err, failed)
}

// show evaluates an expression, and prints the result.
func (s *session) show(ctx context.Context, expression string) error {
	r, err := s.evaluate(ctx, expression)
	if err != nil {
		return err
	}
	if s.output == printers.JSON {
		err = texts.WriteJSON(s.program.Streams.Out, r)
	} else {
		_, err = io.WriteString(s.program.Streams.Out, describe(r, s.language))
	}
	if err == nil && len(r.Problems) > 0 {
		err = errNoValue
	}
	return err
}

// maxShown bounds a value that is shown in a line, in bytes.
const maxShown = 2000

// describe returns a result for people: the value, and its parts as a tree; or what is wrong, and where.
func describe(r *inspect.Result, language string) string {
	var out strings.Builder
	for _, p := range r.Problems {
		out.WriteString("error: " + texts.OneLine(p.Message) + "\n")
		if lines := strings.Split(r.Expression, "\n"); p.Line > 0 && p.Line <= len(lines) {
			line := []rune(strings.ReplaceAll(lines[p.Line-1], "\t", " "))
			fmt.Fprintf(&out, "    %s\n    %s^\n", texts.OneLine(string(line)), strings.Repeat(" ", max(0, min(p.Column-1, len(line)))))
		}
	}
	unit := "units"
	if language == inspect.Rego {
		unit = "steps"
	}
	switch {
	case len(r.Problems) > 0:
	case r.Undefined:
		fmt.Fprintf(&out, "undefined (cost: %d %s)\n", r.Cost, unit)
	default:
		fmt.Fprintf(&out, "%s (%s, cost: %d %s)\n", texts.Shorten(string(r.Value), maxShown), r.Type, r.Cost, unit)
	}
	for i := range r.Parts {
		out.WriteString("  " + describePart(&r.Parts[i]))
	}
	return out.String()
}

// describePart returns a part and its value in a line, indented by its depth.
func describePart(part *inspect.Part) string {
	value := texts.Shorten(string(part.Value), maxShown)
	switch {
	case part.Error != "":
		value = "error: " + texts.OneLine(part.Error)
	case part.Large:
		value = "(too long to be shown)"
	case part.Undefined:
		value = "undefined"
	}
	return fmt.Sprintf("%s%s = %s\n", strings.Repeat("  ", part.Depth), texts.OneLine(part.Expression), value)
}
