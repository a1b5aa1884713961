package policy

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/policies/library"
)

// scaffold has a policy and its suite for each language. NAME is replaced by the name of the policy.
//
//go:embed scaffold
var scaffold embed.FS

// newOptions are the flags of policy new.
type newOptions struct {
	program   options.Program
	cel, rego bool
	// from is a policy of the library.
	from string
	dir  string
}

func newCommand(program options.Program) *cobra.Command {
	o := &newOptions{program: program, dir: "."}
	cmd := &cobra.Command{
		Use:   "new (NAME (--cel | --rego) | [NAME] --from POLICY)",
		Short: "Write a new policy with a suite",
		Long: `Write a new policy with a suite.

new creates a directory with the name of the policy. Its policy limits memory, and its suite tests that. Change both to
your needs. new never overwrites files.

With --from, new writes a policy of Virtward's library with its suite instead, and explains each parameter above its value.
The new policy has the name of the one in the library, unless you name it. policy install --list lists the library.`,
		Example: program.Examples(`  # Write a new policy in CEL
  PROGRAM policy new memory-cap --cel --dir policies

  # Run its suite
  PROGRAM policy test policies/memory-cap

  # Start from a policy of the library
  PROGRAM policy new our-registries --from container-disk-registries --dir policies`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(_ *cobra.Command, args []string) error { return o.write(cmp.Or(strings.Join(args, ""), o.from)) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.cel, "cel", false, "Write the policy in CEL, the language of ValidatingAdmissionPolicies")
	flags.BoolVar(&o.rego, "rego", false, "Write the policy in Rego")
	flags.StringVar(&o.from, "from", "", "Write this policy of the library")
	flags.StringVar(&o.dir, "dir", o.dir, "Parent of the new directory")
	options.CompleteFlags(cmd, map[string][]string{"from": library.Names()})
	return cmd
}

func (o *newOptions) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	switch _, known := library.Find(o.from); {
	case o.from != "" && (o.cel || o.rego):
		return options.Usagef("--from and a language exclude each other: a policy of the library has its language%s", help)
	case o.from != "" && !known:
		return options.Usagef("there is no policy %q in the library: policy install --list lists them", o.from)
	case o.from != "" && len(args) == 0:
		return nil
	case len(args) != 1:
		return options.Usagef("add the name of one policy%s", help)
	case o.from == "" && o.cel == o.rego:
		return options.Usagef("add a language, --cel or --rego, or a policy of the library, --from%s", help)
	case len(args[0]) > policyv1alpha1.MaxPolicyNameLength:
		return options.Usagef("%q: the name of a policy must have at most %d characters", args[0], policyv1alpha1.MaxPolicyNameLength)
	}
	if wrong := validation.IsDNS1123Subdomain(args[0]); len(wrong) > 0 {
		return options.Usagef("%q is not a valid name of a policy: %s", args[0], wrong[0])
	}
	return nil
}

// write writes the files, or none of them.
func (o *newOptions) write(name string) error {
	dir := filepath.Join(o.dir, name)
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // readable for all users, as editors create files
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as above
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already", dir)
		}
		return err
	}
	files, err := o.files(name)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(files[file]), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
		fmt.Fprintln(o.program.Streams.Out, filepath.Join(dir, file))
	}
	fmt.Fprintf(o.program.Streams.Out, "Try it: %s policy test %s\n", o.program.Name, dir)
	return nil
}

// files returns the files of the new policy.
func (o *newOptions) files(name string) (map[string]string, error) {
	from, folder, change := fs.FS(scaffold), "scaffold/cel", func(_, text string) (string, error) {
		return strings.ReplaceAll(text, "NAME", name), nil
	}
	if o.rego {
		folder = "scaffold/rego"
	}
	if o.from != "" {
		from, folder = library.Files(), o.from
		change = func(file, text string) (string, error) {
			text = renamed(text, o.from, name)
			if file != library.PolicyFile {
				return text, nil
			}
			entry, _ := library.Find(o.from)
			return explained(text, &entry)
		}
	}
	all := map[string]string{}
	found, err := fs.ReadDir(from, folder)
	if err != nil {
		return nil, err
	}
	for _, file := range found {
		data, err := fs.ReadFile(from, path.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		if all[file.Name()], err = change(file.Name(), string(data)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// renamed returns a policy of the library, or its suite, with another name.
func renamed(text, from, name string) string {
	return strings.Replace(text, "\n  name: "+from+"\n", "\n  name: "+name+"\n", 1)
}

// maxComment is the length of a line of a comment.
const maxComment = 120

// explained returns a policy of the library with a comment above each of its parameters.
func explained(text string, entry *library.Entry) (string, error) {
	text = fmt.Sprintf("# Started from the policy %s of Virtward's library: docs/policy-library.md#%s\n", entry.Name, entry.Name) + text
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return "", fmt.Errorf("reading the policy %s of the library: %w", entry.Name, err)
	}
	params := document.Content[0]
	for _, step := range []string{"spec", "params"} {
		if params = member(params, step); params == nil {
			return text, nil
		}
	}
	values, schema := member(params, "values"), keyOf(params, "schema")
	if values == nil || schema == nil || len(values.Content) == 0 {
		return text, nil
	}
	lines := strings.Split(text, "\n")
	indent := strings.Repeat(" ", values.Content[0].Column-1)
	for i := range entry.Parameters { // those without a value, below the values: the schema follows them
		if p := &entry.Parameters[i]; member(values, p.Name) == nil {
			lines = slices.Insert(lines, schema.Line-1, comment(p, indent, p.Name+": ")...)
		}
	}
	for i := len(values.Content) - 2; i >= 0; i -= 2 { // from the end, so that the positions stay
		key := values.Content[i]
		at := slices.IndexFunc(entry.Parameters, func(p library.Parameter) bool { return p.Name == key.Value })
		if at >= 0 && strings.TrimSpace(lines[key.Line-1][:key.Column-1]) == "" {
			lines = slices.Insert(lines, key.Line-1, comment(&entry.Parameters[at], indent, "")...)
		}
	}
	return strings.Join(lines, "\n"), nil
}

// keyOf returns the node of the name of a field; nil if there is none.
func keyOf(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i]
		}
	}
	return nil
}

// member returns the value of a field; nil if there is none.
func member(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// comment explains a parameter, after a name: its description, its type, its default, and what it can be.
func comment(p *library.Parameter, indent, name string) []string {
	words := strings.Fields(name + p.Schema.Description)
	facts := []string{"Type: " + p.Schema.Type}
	if items := p.Schema.Items; items != nil && items.Schema != nil {
		facts[0] += " of " + items.Schema.Type
	}
	if p.Default != "" {
		facts = append(facts, "default: "+p.Default)
	}
	if len(p.Schema.Enum) > 0 {
		var allowed []string
		for _, value := range p.Schema.Enum {
			allowed = append(allowed, string(value.Raw))
		}
		facts = append(facts, "allowed: "+strings.Join(allowed, ", "))
	}
	if p.Schema.Minimum != nil {
		facts = append(facts, fmt.Sprintf("at least %v", *p.Schema.Minimum))
	}
	if p.Schema.Maximum != nil {
		facts = append(facts, fmt.Sprintf("at most %v", *p.Schema.Maximum))
	}
	var lines []string
	line := indent + "#"
	for _, word := range append(words, strings.Fields(strings.Join(facts, "; ")+".")...) {
		if len(line)+1+len(word) > maxComment && line != indent+"#" {
			lines, line = append(lines, line), indent+"#"
		}
		line += " " + word
	}
	return append(lines, line)
}
