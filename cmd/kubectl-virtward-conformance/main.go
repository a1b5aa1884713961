// Command kubectl-virtward-conformance compares Virtward with recorded answers of KubeVirt. kubectl finds it as
// `kubectl virtward conformance`.
//
// Its input is files of recorded cases. Its output is a table that shows how many answers are equal. It is a program of its own
// because it has Virtward's aggregated API and its controllers in it: kubectl-virtward compiles in half the time without them.
package main

import (
	"context"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli/programs"
)

// version is set by the linker.
var version = "development"

func main() { programs.Main(version, run) }

// run executes a command line and returns the exit code.
func run(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams) int {
	return programs.Run(ctx, version, args, streams, newCommand)
}
