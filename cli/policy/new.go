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

// scaffold holds a policy and its suite for each language. NAME stands for the policy's.
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
		Short: "Begin a policy: write one that works, with its suite",
		Long: `Begin a policy: write one that works, with its suite.

It makes a directory of the policy's name, with a policy that limits memory and a suite that tests it. Change both, and
run the suite as you go. Nothing that exists is overwritten.`,
		Example: program.Examples(`  # Begin a policy in CEL
  PROGRAM policy new memory-cap --cel --dir policies

  # And see it pass
  PROGRAM policy test policies/memory-cap`),
		Args: func(cmd *cobra.Command, args []string) error { return o.validate(cmd, args) },
		RunE: func(_ *cobra.Command, args []string) error { return o.write(args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.cel, "cel", false, "Write it in CEL, as the API server's own policies are")
	flags.BoolVar(&o.rego, "rego", false, "Write it in Rego")
	flags.StringVar(&o.dir, "dir", o.dir, "Directory in which the policy's own is made")
	return cmd
}

func (o *newOptions) validate(cmd *cobra.Command, args []string) error {
	help := ": see " + cmd.CommandPath() + " --help"
	switch {
	case len(args) != 1:
		return options.Usagef("name one policy%s", help)
	case o.cel == o.rego:
		return options.Usagef("choose a language: --cel or --rego%s", help)
	case len(args[0]) > policyv1alpha1.MaxPolicyNameLength:
		return options.Usagef("%q: the name of a policy has %d characters at most", args[0], policyv1alpha1.MaxPolicyNameLength)
	}
	if wrong := validation.IsDNS1123Subdomain(args[0]); len(wrong) > 0 {
		return options.Usagef("%q is no name of a policy: %s", args[0], wrong[0])
	}
	return nil
}

// write writes the files, or none of them.
func (o *newOptions) write(name string) error {
	dir := filepath.Join(o.dir, name)
	if err := os.MkdirAll(o.dir, 0o755); err != nil { //nolint:gosec // files for everybody to read, as an editor makes them
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as above
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists: nothing was written", dir)
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
