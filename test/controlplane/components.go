package controlplane

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// Sockets of etcd, relative to the folder that every component runs in. etcd wants a port in each address,
// and takes it as a part of the socket's name.
const (
	etcdSocket = "unix://etcd.sock:0"
	etcdPeer   = "unix://peer.sock:0"
)

// startAttempts is the number of attempts to start the API server, in case another process takes its port meanwhile.
const startAttempts = 5

// apiServerStopTimeout is how long the API server may take to end. It would wait a minute for clients that watch.
const apiServerStopTimeout = 5 * time.Second

// controllers are the controllers of kube-controller-manager that a cluster without nodes needs.
var controllers = []string{
	"garbage-collector-controller",
	"persistentvolumeclaim-protection-controller",
	"namespace-controller",
	"serviceaccount-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
	"validatingadmissionpolicy-status-controller",
}

// auditPolicy logs the user, the verb and the object of each request, with the annotations of admission, but no bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Metadata
`

func (c *ControlPlane) startEtcd() (*process, error) {
	return c.run("etcd", []string{
		"--name=sandbox",
		"--data-dir=etcd",
		"--listen-client-urls=" + etcdSocket,
		"--advertise-client-urls=" + etcdSocket,
		"--listen-peer-urls=" + etcdPeer,
		"--initial-advertise-peer-urls=" + etcdPeer,
		"--initial-cluster=sandbox=" + etcdPeer,
		"--unsafe-no-fsync", // the data does not outlive the process
		"--log-level=warn",
	})
}

func (c *ControlPlane) startAPIServer(ctx context.Context) (*process, error) {
	for attempt := 1; ; attempt++ {
		port, err := c.ports.Take()
		if err != nil {
			return nil, err
		}
		c.port = port
		p, err := c.run("kube-apiserver", c.apiServerArgs(port))
		if err != nil {
			return nil, err
		}
		err = p.await(ctx, c.apiServerReady())
		if err == nil {
			return p, nil
		}
		p.kill()
		if attempt == startAttempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
	}
}

// RestartAPIServer stops the API server as a kubelet would and starts it again on the same port, with args after those
// that it has; they stay for later restarts. It returns when the API server is ready. While it is down, clients see
// rejected connections.
func (c *ControlPlane) RestartAPIServer(ctx context.Context, args ...string) error {
	if err := c.StopAPIServer(); err != nil {
		return err
	}
	return c.StartAPIServer(ctx, args...)
}

// StopAPIServer stops the API server: SIGTERM first, and SIGKILL after five seconds.
func (c *ControlPlane) StopAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), apiServerStopTimeout)
	defer cancel()
	_ = c.apiServer.terminate(ctx) // the error only tells that it was killed
	if c.apiServer.running() {
		return errors.New("kube-apiserver does not end")
	}
	return nil
}

// StartAPIServer starts the API server again after StopAPIServer; see RestartAPIServer.
func (c *ControlPlane) StartAPIServer(ctx context.Context, args ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer.running() {
		return errors.New("kube-apiserver is running already")
	}
	c.options.APIServerArgs = slices.Concat(c.options.APIServerArgs, args)
	p, err := c.run("kube-apiserver", c.apiServerArgs(c.port))
	if err != nil {
		return err
	}
	c.apiServer = p
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return p.await(ctx, c.apiServerReady())
}

func (c *ControlPlane) apiServerArgs(port int) []string {
	args := []string{
		"--etcd-servers=" + etcdSocket,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none", // loopback is no address for the Service "kubernetes"
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--tls-cert-file=apiserver.crt",
		"--tls-private-key-file=apiserver.key",
		"--client-ca-file=ca.crt",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=service-accounts.pub",
		"--service-account-signing-key-file=service-accounts.key",
		"--requestheader-client-ca-file=ca.crt",
		"--requestheader-allowed-names=" + aggregator,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=aggregator.crt",
		"--proxy-client-key-file=aggregator.key",
		"--profiling=false",
	}
	if c.options.Audit {
		args = append(args, "--audit-policy-file=audit-policy.yaml", "--audit-log-path=audit.log", "--audit-log-maxsize=10000")
	}
	return append(args, c.options.APIServerArgs...)
}

func (c *ControlPlane) startControllerManager() (*process, error) {
	return c.run("kube-controller-manager", []string{
		"--kubeconfig=controller-manager.kubeconfig",
		"--controllers=" + strings.Join(controllers, ","),
		"--use-service-account-credentials",
		"--service-account-private-key-file=service-accounts.key",
		"--root-ca-file=ca.crt",
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
	})
}

// StartScheduler starts a kube-scheduler, which ends with the control plane. It needs the program kube-scheduler, which only soak tests
// build.
func (c *ControlPlane) StartScheduler() error {
	config, err := c.UserConfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	file, err := c.WriteKubeconfig("scheduler", config)
	if err != nil {
		return err
	}
	p, err := c.run("kube-scheduler", []string{"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0", "--profiling=false"})
	if err != nil {
		return err
	}
	c.own(killed{p})
	return nil
}

// killed is a process that ends at once.
type killed struct{ *process }

func (k killed) end() { k.kill() }

// components is the folder of the programs of Kubernetes in bin/. The environment variable VIRTWARD_SANDBOX has another one, with
// programs of another version.
func components() string { return cmp.Or(os.Getenv("VIRTWARD_SANDBOX"), "sandbox") }

// run starts a program of Kubernetes in the home folder.
func (c *ControlPlane) run(name string, args []string) (*process, error) {
	return c.starter.start(command{
		name: name,
		path: c.binary(components(), name),
		args: args,
		env:  append(c.environment(), frugal),
		dir:  c.home.path,
		log:  c.home.file(name + ".log"),
	})
}

// frugal is for the programs of others: there is memory, and the machine has few cores.
const frugal = "GOGC=400"

// environment of every child, without the user's configuration.
func (c *ControlPlane) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.home.path, "TMPDIR=" + c.home.path}
}

// Environment is that of a client's command with a kubeconfig. All commands share what they know of the server's kinds, as those of
// a user do: a Helm that knows nothing of them spends half of its time on them.
func (c *ControlPlane) Environment(kubeconfig string) []string {
	return append(c.environment(), frugal, "KUBECONFIG="+kubeconfig)
}

// apiServerReady requests /readyz, which includes the bootstrap of RBAC.
func (c *ControlPlane) apiServerReady() func(context.Context) error {
	roots := x509.NewCertPool()
	roots.AddCert(c.authority.certificate)
	client := &http.Client{
		Timeout:   2 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error { return answersOK(ctx, client, c.host()+"/readyz") }
}

func answersOK(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10)) // only to say more in the error
		return fmt.Errorf("%s answered %s: %s", url, response.Status, strings.TrimSpace(string(body)))
	}
	return nil
}
