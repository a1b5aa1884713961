package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

var errUsage = errors.New("usage: signing sign|verify [flags] FOLDER")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "signing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	set := flag.NewFlagSet(args[0], flag.ContinueOnError)
	key := set.String("key", "", "the file of the private key to sign with, or of the public key to verify with")
	keyless := set.Bool("keyless", false, "sign with an identity of GitHub Actions, a certificate of Fulcio and an entry of Rekor")
	identity := set.String("identity", "", "the identity that must have signed")
	issuer := set.String("issuer", "https://token.actions.githubusercontent.com", "the issuer of that identity")
	if err := set.Parse(args[1:]); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return errUsage
	}
	dist := set.Arg(0)
	switch args[0] {
	case "sign":
		return signCommand(ctx, dist, *key, *keyless, out)
	case "verify":
		return verifyCommand(dist, *key, *identity, *issuer, out)
	}
	return errUsage
}
