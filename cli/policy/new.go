package policy

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/options"
)

// scaffold has a policy and its suite for each language. NAME is replaced by the name of the policy.
//
//go:embed scaffold
var scaffold embed.FS

// newOptions are the flags of policy new.
type newOptions struct {
	program   options.Program
	cel, rego bool
	dir       string
}

func newCommand(program options.Program) *cobra.Command {
	o := &newOptions{program: program, dir: "."}
	cmd := &cobra.Command{
		Use:   "new NAME (--cel | --rego)",
		Short: "Write a new policy with a suite",
		Long: `Write a new policy with a suite.

new creates a directory with the name of the policy. Its policy limits memory, and its suite tests that. Change both to
your needs. new never overwrites files.`,
		Example: program.Examples(`  # Write a new policy in CEL
  PROGRAM policy new memory-cap --cel --dir policies

  # Run its suite
  PROGRAM policy test policies/memory-cap`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(_ *cobra.Command, args []string) error { return o.write(args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.cel, "cel", false, "Write the policy in CEL, the language of ValidatingAdmissionPolicies")
	flags.BoolVar(&o.rego, "rego", false, "Write the policy in Rego")
	flags.StringVar(&o.dir, "dir", o.dir, "Parent of the new directory")
	return cmd
}

func (o *newOptions) validate(cmd *cobra.Command, args []string) error {
	help := options.SeeHelp(cmd)
	switch {
	case len(args) != 1:
		return options.Usagef("add the name of one policy%s", help)
	case o.cel == o.rego:
		return options.Usagef("add a language, --cel or --rego%s", help)
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
	language := "cel"
	if o.rego {
		language = "rego"
	}
	for _, file := range []string{"policy.yaml", "suite.yaml"} {
		data, err := scaffold.ReadFile(path.Join("scaffold", language, file))
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(string(data), "NAME", name)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
		fmt.Fprintln(o.program.Streams.Out, filepath.Join(dir, file))
	}
	fmt.Fprintf(o.program.Streams.Out, "Try it: %s policy test %s\n", o.program.Name, dir)
	return nil
}
