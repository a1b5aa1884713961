package glances

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtward/virtward/test/ports"
)

// Identity is what the middleware of Keystone would tell Glance about the account. Without a project, Glance has no tasks.
var Identity = map[string]string{"X-Identity-Status": "Confirmed", "X-User-Id": "virtward", "X-Project-Id": "images", "X-Roles": "admin,member,reader"}

// ErrNotInstalled is the error of Run where glance-api is not installed.
var ErrNotInstalled = errors.New("no glance-api: apt-get install glance-api")

// Glance is a glance-api that runs.
type Glance struct {
	// URL is that of its API.
	URL string

	dir     string
	ports   *ports.Set
	process *exec.Cmd
	ended   chan struct{}
}

// Start starts the glance-api of Debian until the test ends. It returns its URL.
func Start(t testing.TB) string {
	t.Helper()
	return started(t, Run)
}

// StartStrict is Start with the policies of Glance's defaults: members change what is of their project, and admins publish.
func StartStrict(t testing.TB) string {
	t.Helper()
	return started(t, func(ctx context.Context, dir string) (*Glance, error) { return run(ctx, dir, nil) })
}

func started(t testing.TB, run func(context.Context, string) (*Glance, error)) string {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a Glance")
	}
	g, err := run(t.Context(), t.TempDir())
	if errors.Is(err, ErrNotInstalled) {
		t.Skipf("%v, and the tests run against it too", err)
	}
	must(t, err)
	t.Cleanup(func() {
		g.Stop()
		if t.Failed() {
			t.Logf("the log of Glance ends with:\n%s", g.log())
		}
	})
	return g.URL
}

// Run starts the glance-api of Debian: without Keystone, with a database and a store of files in a folder that is empty.
func Run(ctx context.Context, dir string) (*Glance, error) {
	return run(ctx, dir, []string{"publicize_image", "communitize_image", "add_image", "get_image", "get_images", "modify_image", "delete_image", "upload_image", "deactivate", "tasks_api_access"})
}

// run starts a Glance that permits calls of policies to each account.
func run(ctx context.Context, dir string, permitted []string) (*Glance, error) {
	program, err := exec.LookPath("glance-api")
	if err != nil {
		return nil, ErrNotInstalled
	}
	reserved, err := ports.New(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("choosing a port: %w", err)
	}
	g := &Glance{dir: dir, ports: reserved, ended: make(chan struct{})}
	if err := g.start(ctx, program, permitted); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func (g *Glance) start(ctx context.Context, program string, permitted []string) error {
	port, err := g.ports.Take()
	if err != nil {
		return fmt.Errorf("choosing a port: %w", err)
	}
	file, err := configure(g.dir, port, permitted)
	if err != nil {
		return fmt.Errorf("configuring Glance: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "glance-manage", "--config-file", file, "db_sync").CombinedOutput(); err != nil {
		return fmt.Errorf("creating the database of Glance: %w: %s", err, out)
	}
	output := &bytes.Buffer{}
	process := exec.Command(program, "--config-file", file)
	process.Dir, process.Stdout, process.Stderr, process.SysProcAttr = g.dir, output, output, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return fmt.Errorf("starting Glance: %w", err)
	}
	g.URL, g.process = fmt.Sprintf("http://127.0.0.1:%d/", port), process
	go func() {
		defer close(g.ended)
		_ = process.Wait()
	}()
	if err := g.ready(ctx); err != nil {
		g.Stop()
		return fmt.Errorf("Glance does not start: %w\n%s\n%s", err, tail(output.Bytes()), g.log())
	}
	return nil
}

// log is the end of the log.
func (g *Glance) log() []byte {
	log, _ := os.ReadFile(filepath.Join(g.dir, "glance.log"))
	return tail(log)
}

func tail(text []byte) []byte { return text[max(0, len(text)-6000):] }

// Stop ends the process.
func (g *Glance) Stop() {
	if g.process != nil {
		_ = g.process.Process.Kill()
		<-g.ended
	}
	g.ports.Release()
}

// Identified passes requests on with an Identity, as the middleware of Keystone does.
func (g *Glance) Identified() (http.Handler, error) {
	target, err := url.Parse(g.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL of Glance: %w", err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		for name, value := range Identity {
			r.Out.Header.Set(name, value)
		}
	}}, nil
}

// configure writes the files of Glance, and returns the name of the configuration.
func configure(dir string, port int, permitted []string) (string, error) {
	for _, name := range []string{"images", "staging", "tasks", "etc"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return "", err
		}
	}
	paste, err := os.ReadFile("/etc/glance/glance-api-paste.ini")
	if err != nil {
		return "", err
	}
	policy := strings.Builder{}
	for _, rule := range permitted {
		fmt.Fprintf(&policy, "%q: \"\"\n", rule)
	}
	file := filepath.Join(dir, "glance-api.conf")
	for name, content := range map[string]string{
		filepath.Join(dir, "etc", "glance-api-paste.ini"): string(paste) + "\n[pipeline:glance-api-headers]\npipeline = versionnegotiation context rootapp\n",
		filepath.Join(dir, "etc", "policy.yaml"):          policy.String(),
		file:                                              strings.NewReplacer("DIR", dir, "PORT", fmt.Sprint(port)).Replace(configuration),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return file, nil
}

// configuration lets Glance read the sources of the tests. Since the corrections of CVE-2026-71196, it reads loopback addresses
// only if they are allowed by name.
const configuration = `[DEFAULT]
bind_host = 127.0.0.1
bind_port = PORT
workers = 0
log_file = DIR/glance.log
enabled_import_methods = [glance-direct,web-download]
node_staging_uri = file://DIR/staging
[database]
connection = sqlite:///DIR/glance.sqlite
[glance_store]
stores = file,http
default_store = file
filesystem_store_datadir = DIR/images
[paste_deploy]
flavor = headers
config_file = DIR/etc/glance-api-paste.ini
[oslo_policy]
policy_file = DIR/etc/policy.yaml
enforce_scope = false
enforce_new_defaults = false
[task]
work_dir = DIR/tasks
[import_filtering_opts]
allowed_ports = []
allowed_hosts = [127.0.0.1]
`

// ready waits until Glance answers.
func (g *Glance) ready(ctx context.Context) error {
	for deadline := time.Now().Add(3 * time.Minute); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.URL+"v2/images", nil)
		if err != nil {
			return fmt.Errorf("the URL of Glance: %w", err)
		}
		for name, value := range Identity {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-g.ended:
			return fmt.Errorf("the process ended: %s", g.process.ProcessState)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
