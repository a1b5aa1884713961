package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	dir := flag.String("dir", ".", "the folder to run the command in")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: baseimage [-dir FOLDER] -- COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dir, flag.Args())
	stop()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.Exited():
		os.Exit(failed.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "baseimage:", err)
		os.Exit(1)
	}
}

// run serves the base image for as long as the command runs.
func run(ctx context.Context, dir string, command []string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("opening a port for the registry: %w", err)
	}
	server := &http.Server{
		Handler:           registry.New(registry.Logger(log.New(io.Discard, "", 0))),
		ReadHeaderTimeout: 10 * time.Second,
	}
	defer server.Close()
	go func() { _ = server.Serve(listener) }() // ends with Close

	reference, err := name.NewTag(listener.Addr().String() + "/base:latest")
	if err != nil {
		return fmt.Errorf("naming the base image: %w", err)
	}
	if err := push(ctx, reference); err != nil {
		return fmt.Errorf("making the base image: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KO_DEFAULTBASEIMAGE="+reference.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

func push(ctx context.Context, reference name.Tag) error {
	index, err := base([]v1.Platform{
		{OS: "linux", Architecture: "amd64"},
		{OS: "linux", Architecture: "arm64"},
		{OS: "linux", Architecture: "s390x"},
	})
	if err != nil {
		return err
	}
	return remote.WriteIndex(reference, index, remote.WithContext(ctx))
}
