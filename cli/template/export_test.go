package template_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
)

const (
	exportToken = "a token of more than 16 bytes"
	exportsPath = "/apis/template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplateexports"
	exportHost  = "virtward-export.templates.svc"
)

// exportCluster is an API server with exports, and the real server of one of them.
type exportCluster struct {
	*clitest.Forwarding

	server *httptest.Server
	// path is that of the file.
	path        string
	certificate []byte
	// cut is the number of bytes after which the first download that has as many breaks; 0 for none.
	cut int

	mu sync.Mutex
	// object is the export; nil if there is none.
	object map[string]any
	// status is that of the export after its first read.
	status map[string]any
	reads  int
	// spec is that of the export that was created last.
	spec any
	// requests are METHOD PATH.
	requests []string
}

func newExportCluster(t *testing.T) *exportCluster {
	t.Helper()
	return newExportClusterOf(t, v1beta1.ExportOVA)
}

func newExportClusterOf(t *testing.T, format v1beta1.ExportFormat) *exportCluster {
	t.Helper()
	disk := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(disk[:6<<20])
	name := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(name, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := yaml.UnmarshalStrict([]byte(`
metadata: {name: mill}
spec:
  virtualMachine:
    spec:
      template:
        spec:
          domain: {memory: {guest: 1Gi}, devices: {disks: [{name: root, disk: {}}]}}
          volumes: [{name: root, persistentVolumeClaim: {claimName: root}}]
`), template); err != nil {
		t.Fatal(err)
	}
	s, err := exportserver.New(exportserver.Options{
		Plan:  &exportserver.Plan{Format: format, Template: template, Disks: []exportserver.Disk{{Volume: "root", Path: name}}},
		Token: exportToken, Log: logr.Discard(), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := &exportCluster{path: map[v1beta1.ExportFormat]string{v1beta1.ExportOVA: "/export.ova", v1beta1.ExportOCI: "/export.oci.tar"}[format]}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := s.Route(r)
		if h == nil {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(&breaking{ResponseWriter: w, cluster: c}, r)
	}))
	pair, certificate := certificateFor(t)
	c.certificate = certificate
	c.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	c.server.StartTLS()
	t.Cleanup(c.server.Close)
	c.Forwarding = clitest.NewForwarding(t, c.server.Listener.Addr().String())
	c.Answer = c.answer
	c.Objects["/api/v1/namespaces/templates/secrets/token"] = map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "token"}, "data": map[string]any{"token": base64.StdEncoding.EncodeToString([]byte(exportToken))}}
	c.Objects["/api/v1/namespaces/templates/services/virtward-export"] = map[string]any{
		"kind": "Service", "apiVersion": "v1", "metadata": map[string]any{"name": "virtward-export"},
		"spec": map[string]any{"selector": map[string]any{"a": "b"}, "ports": []any{map[string]any{"port": 443, "targetPort": 8443}}},
	}
	c.Objects["/apis/template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates/mill"] = map[string]any{
		"kind": "VirtualMachineTemplate", "apiVersion": "template.kubevirt.io/v1beta1", "metadata": map[string]any{"name": "mill", "namespace": "templates"},
		"spec": map[string]any{"virtualMachine": map[string]any{"spec": map[string]any{
			"dataVolumeTemplates": []any{
				map[string]any{"metadata": map[string]any{"name": "root"}, "spec": map[string]any{"sourceRef": map[string]any{"kind": "DataSource", "namespace": "images", "name": "debian"}}},
				map[string]any{"metadata": map[string]any{"name": "data"}, "spec": map[string]any{"source": map[string]any{"pvc": map[string]any{"namespace": "templates", "name": "data"}}}},
			},
			"template": map[string]any{"spec": map[string]any{"domain": map[string]any{"devices": map[string]any{}}, "volumes": []any{
				map[string]any{"name": "root", "dataVolume": map[string]any{"name": "root"}}, map[string]any{"name": "data", "dataVolume": map[string]any{"name": "data"}},
			}}},
		}}},
	}
	c.Objects["/apis/cdi.kubevirt.io/v1beta1/namespaces/images/datasources/debian"] = map[string]any{
		"kind": "DataSource", "apiVersion": "cdi.kubevirt.io/v1beta1", "metadata": map[string]any{"name": "debian", "namespace": "images"},
		"spec": map[string]any{"source": map[string]any{"snapshot": map[string]any{"namespace": "vault", "name": "debian-1"}}},
	}
	c.Objects["/api/v1/namespaces/templates/pods"] = map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{map[string]any{"metadata": map[string]any{"name": "server"}, "status": map[string]any{"phase": "Running"}}}}
	c.status = c.ready(map[string]any{"internal": map[string]any{"url": "https://" + exportHost + c.path, "cert": string(certificate)}})
	return c
}

// breaking ends all connections of the API server once a response has some bytes.
type breaking struct {
	http.ResponseWriter

	cluster *exportCluster
	written int
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.written += len(p); b.cluster.breaks(b.written) {
		b.cluster.Break()
		panic(http.ErrAbortHandler)
	}
	return b.ResponseWriter.Write(p) //nolint:wrapcheck // it is a writer of a test
}

// breaks reports whether a response of some bytes is the one that breaks.
func (c *exportCluster) breaks(written int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut == 0 || written < c.cut {
		return false
	}
	c.cut = 0
	return true
}

// certificateFor returns a certificate for the Service.
func certificateFor(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	model := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{exportHost}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(crand.Reader, model, model, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func conditions(pairs ...string) (all []any) {
	for _, p := range pairs {
		words := strings.SplitN(p, " ", 4)
		all = append(all, map[string]any{"type": words[0], "status": words[1], "reason": words[2], "message": words[3]})
	}
	return all
}

// ready is the status of an export with links.
func (c *exportCluster) ready(links map[string]any) map[string]any {
	return map[string]any{
		"conditions": conditions("Ready True Ready ", "Progressing False Ready "), "links": links, "tokenSecretRef": "token",
		"warnings": []any{"the MAC address of the interface a is removed"},
	}
}

// answer serves exports.
func (c *exportCluster) answer(w http.ResponseWriter, r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
	if !strings.HasPrefix(r.URL.Path, exportsPath) {
		return false
	}
	switch {
	case r.Method == http.MethodPost && c.object != nil:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409,"message":"it exists"}`)
	case r.Method == http.MethodPost:
		_ = json.NewDecoder(r.Body).Decode(&c.object)      // it is absent otherwise
		c.object["metadata"].(map[string]any)["uid"] = "u" //nolint:forcetypeassert // of the command
		c.spec = c.object["spec"]
		_ = json.NewEncoder(w).Encode(c.object)
	case c.object == nil:
		return false
	case r.Method == http.MethodDelete:
		_ = json.NewEncoder(w).Encode(c.object)
		c.object = nil
	default:
		if c.reads++; c.reads == 1 {
			c.object["status"] = map[string]any{"conditions": conditions("Ready False Measuring ", "Progressing True Measuring the disks are read"), "progress": "42%"}
		} else {
			c.object["status"] = c.status
		}
		_ = json.NewEncoder(w).Encode(c.object)
	}
	return true
}

// existing is an export that was created before.
func (c *exportCluster) existing(template string, annotations map[string]any) {
	c.object = map[string]any{
		"apiVersion": "template.kubevirt.io/v1beta1", "kind": "VirtualMachineTemplateExport",
		"metadata": map[string]any{"name": "mill", "namespace": "templates", "uid": "u", "annotations": annotations},
		"spec":     map[string]any{"templateRef": map[string]any{"name": template}, "format": "OVA"},
	}
}

func (c *exportCluster) call(t *testing.T, to string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append([]string{"template", "export", "mill", "--to", to, "--server", c.URL, "-n", "templates"}, args...)...)
}

// whole is the OVA.
func (c *exportCluster) whole(t *testing.T) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.server.URL+c.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+exportToken)
	response, err := c.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestExport downloads a template through the API server, although its connections break, and deletes the export.
func TestExport(t *testing.T) {
	c := newExportCluster(t)
	whole := c.whole(t)
	c.cut = 3 << 20
	to := filepath.Join(t.TempDir(), "mill.ova")
	got := c.call(t, to, "--ttl", "1h")
	file, err := os.ReadFile(to)
	if err != nil || got.Code != 0 || !bytes.Equal(file, whole) {
		t.Fatalf("%+v, %d bytes, %v", got, len(file), err)
	}
	if !strings.HasPrefix(got.Out, to+"\nsize: ") || !strings.Contains(got.Out, "\nsha256: ") {
		t.Errorf("got %s", got.Out)
	}
	for _, want := range []string{"created the export templates/mill\nMeasuring: the disks are read\n", "warning: the MAC address of the interface a is removed\n", ": continuing in 1s\n"} {
		if !strings.Contains(got.ErrOut, want) {
			t.Errorf("no %q in %s", want, got.ErrOut)
		}
	}
	if spec := fmt.Sprint(c.spec); spec != "map[format:OVA sourceNamespaces:[images vault] templateRef:map[name:mill] ttl:1h0m0s]" {
		t.Errorf("got the export of %s", spec)
	}
	if c.object != nil || c.Forwards() != 2 || c.Forwarded() != "/api/v1/namespaces/templates/pods/server/portforward 8443" {
		t.Errorf("got the export %v and %d connections to %s", c.object, c.Forwards(), c.Forwarded())
	}
}

// TestExportOfOthers holds which exports are taken, and which of them stay.
func TestExportOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]any
		args        []string
		stays       bool
	}{
		"of a user":                    {nil, nil, true},
		"of an interrupted call":       {map[string]any{"cli.virtward.io/delete-after-download": "true"}, nil, false},
		"of an interrupted call, kept": {map[string]any{"cli.virtward.io/delete-after-download": "true"}, []string{"--keep"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newExportCluster(t)
			cluster.existing("mill", c.annotations)
			got := cluster.call(t, filepath.Join(t.TempDir(), "mill.ova"), c.args...)
			if got.Code != 0 || !strings.HasPrefix(got.ErrOut, "using the export templates/mill\n") || (cluster.object != nil) != c.stays || strings.Contains(got.ErrOut, "kept the export templates/mill\n") != c.stays {
				t.Errorf("%+v, and the export %v", got, cluster.object)
			}
		})
	}
}

// TestExportArtifact asks for an artifact by the name of the file, and needs a confirmation of its secrets.
func TestExportArtifact(t *testing.T) {
	c := newExportCluster(t)
	to := filepath.Join(t.TempDir(), "mill.oci.tar")
	if got := c.call(t, to); got.Code != 2 || !strings.Contains(got.ErrOut, "confirm it with --keep-user-data") || c.spec != nil {
		t.Errorf("without a confirmation: %+v, and the export of %v", got, c.spec)
	}
	if got := c.call(t, to, "--keep-user-data"); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if spec := fmt.Sprint(c.spec); !strings.HasPrefix(spec, "map[format:OCI keepUserData:true ") {
		t.Errorf("got the export of %s", spec)
	}
	c.existing("mill", nil)
	if got := c.call(t, to+"2.tar", "--keep-user-data"); got.Code != 1 || !strings.Contains(got.ErrOut, "has the format OVA, not OCI") {
		t.Errorf("an export of an OVA: %+v", got)
	}
}

// TestExportToRegistry sends the artifact to a registry over connections that break. What the registry has is not downloaded again.
func TestExportToRegistry(t *testing.T) {
	c, registry := newExportClusterOf(t, v1beta1.ExportOCI), artifactstest.New(t)
	to := "oci://" + registry.Host + "/templates/mill:1"
	if got := c.call(t, to); got.Code != 2 || !strings.Contains(got.ErrOut, "confirm it with --keep-user-data") || c.spec != nil {
		t.Errorf("without a confirmation: %+v, and the export of %v", got, c.spec)
	}
	c.cut = 2 << 20 // if it breaks before the client has read anything, net/http sends the request again silently
	got := c.call(t, to, "--keep-user-data", "--registry-plain-http")
	if got.Code != 0 || !strings.HasPrefix(got.Out, "pushed "+to+"\ndigest: sha256:") || c.object != nil || c.cut != 0 {
		t.Fatalf("%+v, the export %v, a connection is still to break: %t", got, c.object, c.cut != 0)
	}
	reference, err := artifacts.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	repository, err := artifacts.Open(t.Context(), reference, artifacts.Options{Transport: http.DefaultTransport, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	top, _, err := repository.Top(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	manifest, _, err := repository.Manifest(t.Context(), &top.Variants[0])
	if err != nil || len(manifest.Disks) != 1 {
		t.Fatalf("%+v %v", manifest, err)
	}
	layer, err := io.ReadAll(repository.Stream(t.Context(), &manifest.Disks[0].Descriptor, 0))
	if err != nil || !bytes.Contains(c.whole(t), layer) {
		t.Errorf("the layer of %d bytes is not that of the artifact: %v", len(layer), err)
	}
	registry.Requests()
	got = c.call(t, strings.TrimSuffix(to, "1")+"2", "--keep-user-data", "--registry-plain-http")
	if uploads := slices.DeleteFunc(registry.Requests(), func(r string) bool { return !strings.Contains(r, "/blobs/uploads/") }); got.Code != 0 || len(uploads) > 0 {
		t.Errorf("again: %+v, uploads %v", got, uploads)
	}
	if got := c.call(t, "oci://"+registry.Host+"/templates/mill", "--keep-user-data"); got.Code != 2 || !strings.Contains(got.ErrOut, "name a tag or a digest") {
		t.Errorf("without a tag: %+v", got)
	}
}

// TestExportOutside downloads from a link outside of the cluster.
func TestExportOutside(t *testing.T) {
	c := newExportCluster(t)
	c.status = c.ready(map[string]any{"external": map[string]any{"url": c.server.URL + "/export.ova", "cert": string(c.certificate)}})
	to := filepath.Join(t.TempDir(), "mill.ova")
	got := c.call(t, to)
	if file, err := os.ReadFile(to); err != nil || got.Code != 0 || !bytes.Equal(file, c.whole(t)) || c.Forwards() != 0 {
		t.Errorf("%+v, %d bytes, %v, %d connections", got, len(file), err, c.Forwards())
	}
	got = c.call(t, to+"2", "--port-forward")
	if got.Code != 1 || !strings.HasSuffix(got.ErrOut, "the export has no link\n") {
		t.Errorf("without a link inside: %+v", got)
	}
}

// TestExportErrors holds the messages.
func TestExportErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(*exportCluster)
		args []string
		code int
		want string
	}{
		"it failed": {func(c *exportCluster) {
			c.status = map[string]any{"conditions": conditions("Ready False VolumeInUse ", "Progressing False VolumeInUse the claim root is in use")}
		}, nil, 1, "error: the export templates/mill: the export failed: VolumeInUse: the claim root is in use\n"},
		"it does not end": {func(c *exportCluster) {
			c.status = map[string]any{"conditions": conditions("Ready False Measuring ", "Progressing True Measuring ")}
		}, []string{"--timeout", "3s"}, 1, "error: the export templates/mill: it is not ready after 3s: call the command again to wait longer\n"},
		"another template": {func(c *exportCluster) { c.existing("other", nil) }, nil, 1, "error: the export templates/mill is of the template other: name another one with --name\n"},
		"no token":         {func(c *exportCluster) { c.status["tokenSecretRef"] = "absent" }, nil, 1, "error: the export templates/mill: reading the token of the export: not found\n"},
		"a wrong token": {func(c *exportCluster) {
			c.Objects["/api/v1/namespaces/templates/secrets/token"] = map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "token"}, "data": map[string]any{"token": "eA=="}}
		}, nil, 1, "the server answered 404 Not Found: it has no such export, or the token is not the right one\n"},
		"a Service elsewhere": {func(c *exportCluster) {
			c.status = c.ready(map[string]any{"internal": map[string]any{"url": "https://a.kube-system.svc/export.ova"}})
		}, nil, 1, "the link of the export is a.kube-system.svc: it must be a Service of its namespace\n"},
		"a link without TLS": {func(c *exportCluster) {
			c.status = c.ready(map[string]any{"internal": map[string]any{"url": "http://a.templates.svc/export.ova"}})
		}, nil, 1, "it must be a URL with https\n"},
		"another authority": {func(c *exportCluster) {
			c.status = c.ready(map[string]any{"external": map[string]any{"url": c.server.URL + "/export.ova"}})
		}, nil, 1, "certificate signed by unknown authority\n"},
		"no template": {func(c *exportCluster) {
			delete(c.Objects, "/apis/template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates/mill")
		}, nil, 1, "error: reading the template: not found\n"},
		"no file":         {nil, []string{"--to", ""}, 2, "error: --to is required: the file to write, or oci:// and a repository with a tag\n"},
		"a negative time": {nil, []string{"--ttl", "-1s"}, 2, "error: --ttl -1s: use whole seconds\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newExportCluster(t)
			if c.set != nil {
				c.set(cluster)
			}
			folder := t.TempDir()
			got := cluster.call(t, filepath.Join(folder, "mill.ova"), c.args...)
			if got.Code != c.code || !strings.HasSuffix(got.ErrOut, c.want) {
				t.Errorf("%+v", got)
			}
			if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
				t.Errorf("%v is left, %v", entries, err)
			}
		})
	}
	cluster := newExportCluster(t)
	cluster.Answer = nil
	if got := cluster.call(t, filepath.Join(t.TempDir(), "mill.ova")); got.Code != 1 || !strings.Contains(got.ErrOut, "error: creating the export: the cluster exports no templates, or the namespace templates does not exist: ") {
		t.Errorf("%+v", got)
	}
}
