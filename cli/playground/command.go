package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/cli/playground/copies"
	"github.com/virtward/virtward/cli/playground/lessons"
)

// command has the flags of playground.
type command struct {
	program options.Program
	files   []string
	lesson  string
	port    int

	fromCluster bool
	config      *genericclioptions.ConfigFlags
}

// NewCommand returns the command.
func NewCommand(program options.Program) *cobra.Command {
	c := &command{program: program, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "playground [-f FILE ...] [--from-cluster]",
		Short: "Write virtual machines and policies in a browser, and see at once how they are evaluated",
		Long: `Write virtual machines and policies in a browser, and see at once how they are evaluated.

playground serves a page on 127.0.0.1, and prints its link. The page has the virtual machines, the objects that they refer to, the
policies and their suites. It shows the effective virtual machine with the source of each field, for several hypervisors and
architectures side by side; the findings at their lines; and the results of the suites. They are those of explain, policy lint
and policy test. Twelve lessons teach policies: each has a task, and the page checks its solution.

With --from-cluster, the page begins with copies of objects of the cluster that you are logged in to: the virtual machines of a
namespace, the instancetypes and preferences that they name, and the configuration of KubeVirt and Virtward. The command reads
them once, with your rights, and names what it cannot read. Secrets and ConfigMaps are not read. Cloud-init data, headers, and users and
queries in addresses are left out. Changes in the page do not change the cluster.

The link works once, in one browser. Nothing leaves this machine: the page reads no cluster, no other site, and no files but
those of -f, which it does not change. It ends with Ctrl+C.`,
		Example: program.Examples(`  # Begin with an example
  PROGRAM playground

  # Begin with a virtual machine, its instancetype and a policy
  PROGRAM playground -f vm.yaml -f u1.yaml -f policy.yaml

  # Begin with the virtual machines and the policies of the cluster
  PROGRAM playground --from-cluster -n shop

  # Begin with a lesson
  PROGRAM playground --lesson first-policy`),
		Args: func(cmd *cobra.Command, args []string) error { return c.validate(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringSliceVarP(&c.files, "filename", "f", nil, "Files to begin with")
	options.AddClusterFlags(cmd, c.config, ", for --from-cluster", "Namespace of the virtual machines, for --from-cluster")
	cmd.Flags().BoolVar(&c.fromCluster, "from-cluster", false, "Begin with virtual machines, and what they refer to, of the cluster")
	cmd.Flags().StringVar(&c.lesson, "lesson", "", "Lesson to begin with: "+strings.Join(lessons.Names(), ", "))
	options.CompleteFlags(cmd, map[string][]string{"lesson": lessons.Names()})
	cmd.Flags().IntVar(&c.port, "port", 0, "Port of the page; 0 for a free one")
	return cmd
}

func (c *command) validate(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return options.Usagef("playground has no arguments: %q: use -f for files%s", strings.Join(args, " "), options.SeeHelp(cmd))
	}
	if c.lesson != "" && lessons.Find(c.lesson) == nil {
		return options.Usagef("--lesson %s: unknown lesson: the known ones are %s", c.lesson, strings.Join(lessons.Names(), ", "))
	}
	if c.lesson != "" && (len(c.files) > 0 || c.fromCluster) {
		return options.Usagef("--lesson has files of its own: leave out -f and --from-cluster%s", options.SeeHelp(cmd))
	}
	if c.port < 0 || c.port > 65535 {
		return options.Usagef("--port %d: must be from 0 to 65535", c.port)
	}
	return nil
}

func (c *command) run(ctx context.Context) error {
	start := answers.NewStart()
	if len(c.files) > 0 || c.fromCluster {
		start.Files = nil
	}
	start.Lesson = c.lesson
	if c.fromCluster {
		if err := c.copies(ctx, &start); err != nil {
			return err
		}
	}
	for _, name := range c.files {
		text, err := read(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		start.Files = append(start.Files, answers.File{Name: filepath.Base(name), Text: text})
	}
	if err := answers.CheckFiles(start.Files); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)))
	if err != nil {
		return fmt.Errorf("serving the page: %w", err)
	}
	s := newServer(listener.Addr().String(), start)
	fmt.Fprintf(c.program.Streams.Out, "Open this link in a browser. It works once. Press Ctrl+C to end.\n\n  %s\n", s.link())
	return serve(ctx, listener, s.handler())
}

// copies adds copies of objects of the cluster.
func (c *command) copies(ctx context.Context, start *answers.Start) error {
	cluster, err := options.Connect(c.config)
	if err != nil {
		return err
	}
	copied, err := copies.Read(ctx, cluster.Client, cluster.Namespace)
	if err != nil {
		return err
	}
	for _, note := range copied.Notes {
		fmt.Fprintln(c.program.Streams.ErrOut, "note:", note)
	}
	if len(copied.Files) == 0 && len(c.files) == 0 {
		return fmt.Errorf("--from-cluster: nothing could be read of the cluster and its namespace %s: use files with -f, or another namespace with -n", cluster.Namespace)
	}
	start.Files, start.Notes = copied.Files, copied.Notes
	return nil
}

// serve serves until the context is done.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	h := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	if err := h.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	return nil
}

// read reads a file of the command line.
func read(name string) (string, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("must be a regular file")
	}
	if err != nil {
		return "", err
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, answers.MaxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > answers.MaxFile {
		return "", fmt.Errorf("must be no larger than %d KiB", answers.MaxFile>>10)
	}
	return string(data), nil
}
