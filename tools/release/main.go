package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// commands of the program, by name.
var commands = map[string]func(ctx context.Context, args []string, out io.Writer) error{
	"build":  buildCommand,
	"images": imagesCommand,
	"push":   pushCommand,
	"serve":  serveCommand,
}

var errUsage = errors.New("usage: release build|images|push|serve [flags]")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	command, found := commands[args[0]]
	if !found {
		return errUsage
	}
	return command(ctx, args[1:], out)
}

// list is a flag with values that commas separate.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = strings.Split(s, ","); return nil }

// folderOf returns the only argument of a command: the folder of a release.
func folderOf(set *flag.FlagSet, args []string) (string, error) {
	if err := set.Parse(args); err != nil {
		return "", err
	}
	if set.NArg() != 1 {
		return "", fmt.Errorf("release %s needs the folder of a release", set.Name())
	}
	return set.Arg(0), nil
}
