// Command kubectl-virtward is the command line of Virtward, also as `kubectl virtward`. See package cli.
package main

import (
	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/programs"
)

// version is set by the linker.
var version = "development"

func main() { programs.Main(version, cli.Run) }
