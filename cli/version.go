package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
)

func versionCommand(program options.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of its KubeVirt API",
		Args:  options.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(program.Streams.Out, versions(program.Version))
			return err
		},
	}
}

// versions returns the versions of this program, of the KubeVirt API and of Go.
func versions(version string) string {
	return fmt.Sprintf("virtward %s, KubeVirt API %s, %s %s/%s", version, kubevirtVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// kubevirtVersion returns the version of the module kubevirt.io/api.
func kubevirtVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == "kubevirt.io/api" {
				return dependency.Version
			}
		}
	}
	return "unknown"
}
