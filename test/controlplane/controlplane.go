package controlplane

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/ports"
)

// startTimeout bounds Start; a quiet machine needs a few seconds.
const startTimeout = 2 * time.Minute

// Options of a control plane. The zero value has the defaults.
type Options struct {
	// Root is the folder of the repository; empty finds it from the working directory.
	Root string
	// Parent is the folder for the temporary folder; empty for the system's.
	Parent string
	// CRDs are installed before Start returns; nil means those of KubeVirt and CDI. An empty
	// list that is not nil means none.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Audit writes an audit log of everything but reads; see AuditLog.
	Audit bool
	// Supervise keeps the processes of Deployments as a cluster does: one that ends starts again after a moment, and the status
	// of the Deployments and the EndpointSlices follow the processes.
	Supervise bool
	// Images runs the programs of the images that Deployments and Jobs name, from their registries, and not those of bin/.
	Images bool
	// APIServerArgs are added to those of kube-apiserver.
	APIServerArgs []string
}

// ControlPlane is a running Kubernetes control plane on loopback. Its methods may be used concurrently,
// except Stop.
type ControlPlane struct {
	options   Options
	home      *home
	ports     *ports.Set
	starter   *starter
	authority *authority
	port      int
	admin     *rest.Config
	client    client.WithWatch

	mu                sync.Mutex
	etcd              *process
	apiServer         *process
	controllerManager *process
	others            []stopper // in the order of their start
	controller        *Virtward // of InstallVirtward

	apiServerOfTemplates *Virtward // of InstallVirtward

	supervisor *supervisor
}

type stopper interface{ end() }

// Start starts etcd, the API server and the controller manager, installs the definitions, and returns when all are ready.
// After a failure it removes everything, and the error ends with the log of the component that failed.
func Start(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Parent == "" {
		options.Parent = os.TempDir()
	}
	if options.Root == "" {
		root, err := repository()
		if err != nil {
			return nil, err
		}
		options.Root = root
	}
	sweep(options.Parent)
	c, err := newControlPlane(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func newControlPlane(options Options) (*ControlPlane, error) {
	reserved, err := ports.New(options.Parent)
	if err != nil {
		return nil, fmt.Errorf("reserving ports: %w", err)
	}
	authority, err := newAuthority()
	if err != nil {
		return nil, err
	}
	home, err := newHome(options.Parent)
	if err != nil {
		return nil, err
	}
	return &ControlPlane{options: options, home: home, ports: reserved, starter: newStarter(), authority: authority}, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.writeServerFiles(); err != nil {
		return fmt.Errorf("preparing the sandbox: %w", err)
	}
	var err error
	if c.etcd, err = c.startEtcd(); err != nil {
		return err
	}
	if c.apiServer, err = c.startAPIServer(ctx); err != nil {
		return c.blame(err)
	}
	if err := c.writeClients(); err != nil {
		return fmt.Errorf("preparing the sandbox's clients: %w", err)
	}
	definitions := c.options.CRDs
	if definitions == nil {
		if definitions, err = crds.All(); err != nil {
			return err
		}
	}
	if err := c.InstallCRDs(ctx, definitions...); err != nil {
		return err
	}
	c.supervisor = c.startSupervisor()
	return nil
}

// blame adds the log of etcd when it is etcd that has died.
func (c *ControlPlane) blame(err error) error {
	if c.etcd.running() {
		return err
	}
	return fmt.Errorf("etcd ended (%w); the end of its log:\n%s\n%w", c.etcd.ending(), c.etcd.tail(), err)
}

// Stop ends everything that was started, newest first, and removes the data. It may be called again.
func (c *ControlPlane) Stop() error {
	if c.supervisor != nil {
		c.supervisor.end()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starter == nil {
		return nil
	}
	for i := len(c.others) - 1; i >= 0; i-- {
		c.others[i].end()
	}
	for _, p := range []*process{c.controllerManager, c.apiServer, c.etcd} {
		if p != nil {
			p.kill() // gracefully would only mean waiting for clients; the data is thrown away
		}
	}
	c.starter.stop()
	c.starter = nil
	c.ports.Release()
	if err := c.home.remove(); err != nil {
		return fmt.Errorf("removing the sandbox's folder: %w", err)
	}
	return nil
}

// Dir is the sandbox's folder: logs and kubeconfigs.
func (c *ControlPlane) Dir() string { return c.home.path }

// AuditLog is the file of audit events, one JSON object a line; there is one only with Options.Audit.
func (c *ControlPlane) AuditLog() string { return c.home.file("audit.log") }

// Processes returns the ids of the running processes, by name.
func (c *ControlPlane) Processes() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]int{}
	for _, p := range []*process{c.etcd, c.apiServer, c.controllerManager} {
		if p != nil && p.running() {
			ids[p.name] = p.cmd.Process.Pid
		}
	}
	return ids
}

// TakePort reserves a loopback port until Stop; no other sandbox on this machine gets it.
func (c *ControlPlane) TakePort() (int, error) { return c.ports.Take() }

// Binary is the path of one of our own binaries, such as "virtward".
func (c *ControlPlane) Binary(name string) string { return c.binary(name) }

func (c *ControlPlane) binary(parts ...string) string {
	return filepath.Join(append([]string{c.options.Root, "bin"}, parts...)...)
}

// own ends s with the control plane.
func (c *ControlPlane) own(s stopper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others = append(c.others, s)
}

func (c *ControlPlane) host() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

// writeServerFiles writes the keys and certificates that the components read, by the names in their flags.
func (c *ControlPlane) writeServerFiles() error {
	server, err := c.authority.server("kube-apiserver", "localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.96.0.1")
	if err != nil {
		return err
	}
	proxy, err := c.authority.client(aggregator)
	if err != nil {
		return err
	}
	accountKey, err := newKey()
	if err != nil {
		return err
	}
	private, err := encodeKey(accountKey)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accountKey.Public())
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt":               c.authority.pem,
		"apiserver.crt":        server.certificate,
		"apiserver.key":        server.key,
		"aggregator.crt":       proxy.certificate,
		"aggregator.key":       proxy.key,
		"service-accounts.key": private,
		"service-accounts.pub": encode("PUBLIC KEY", public),
		"audit-policy.yaml":    []byte(auditPolicy),
	} {
		if _, err := c.home.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// aggregator is the name under which the API server calls aggregated servers.
const aggregator = "front-proxy-client"

// repository is the folder above the working directory that holds our go.mod and the sandbox's module.
func repository() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "test", "sandbox", "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("the working directory is not inside the repository: set Options.Root")
		}
		folder = parent
	}
}
