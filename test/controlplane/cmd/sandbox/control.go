package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/virtward/virtward/test/controlplane"
)

// socketName is the socket of a sandbox, beside its kubeconfig.
const socketName = "control.sock"

// maxAnswer bounds the answer of a sandbox.
const maxAnswer = 64 << 10

// control ends and starts processes of a sandbox.
type control struct{ cluster *controlplane.ControlPlane }

// serveControl serves the commands of users of this machine that may read the sandbox's folder.
func serveControl(cluster *controlplane.ControlPlane) (*http.Server, error) {
	listener, err := net.Listen("unix", filepath.Join(cluster.Dir(), socketName))
	if err != nil {
		return nil, fmt.Errorf("listening for commands: %w", err)
	}
	c := &control{cluster}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /kill/{name}", c.handler(c.kill))
	mux.HandleFunc("POST /start/{name}", c.handler(c.start))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Shutdown
	return server, nil
}

// handler finds the process, and answers with the line to print.
func (c *control) handler(do func(context.Context, *controlplane.Virtward, string) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		all := c.cluster.Workloads()
		process, found := all[name]
		if !found {
			http.Error(w, fmt.Sprintf("there is no process %q: the processes are %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", ")), http.StatusNotFound)
			return
		}
		line, err := do(r.Context(), process, name)
		if err = errors.Join(err, c.cluster.Sync(r.Context())); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, line)
	}
}

func (c *control) kill(_ context.Context, process *controlplane.Virtward, name string) (string, error) {
	if process.PID() == 0 {
		return "", fmt.Errorf("%s does not run", name)
	}
	process.Kill()
	return fmt.Sprintf("%s is down until you start it: %s start %[1]s", name, program), nil
}

func (c *control) start(ctx context.Context, process *controlplane.Virtward, name string) (string, error) {
	if err := process.Start(ctx); err != nil {
		return "", err
	}
	return name + " is ready", nil
}

// command sends a command to the sandbox of a kubeconfig, and prints the answer.
func command(ctx context.Context, kubeconfig, verb string, words []string, out io.Writer) error {
	if len(words) != 1 {
		return fmt.Errorf("%s needs the name of one process, such as %s", verb, controlplane.VirtwardService)
	}
	socket := filepath.Join(filepath.Dir(kubeconfig), socketName)
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sandbox/"+verb+"/"+url.PathEscape(words[0]), nil) //nolint:gosec // the socket of the sandbox
	if err != nil {
		return err
	}
	response, err := client.Do(request) //nolint:gosec // the socket of the sandbox
	if err != nil {
		return errors.New("KUBECONFIG is not that of a running sandbox: copy the lines that make sandbox prints")
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(answer)))
	}
	_, err = out.Write(answer)
	return err
}
