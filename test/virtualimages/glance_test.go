package virtualimages

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/glances"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/virtualimages"
)

// cloud is a Glance behind a proxy, which adds what Keystone's middleware states about the account, and can be interrupted.
type cloud struct {
	*httptest.Server

	direct string
	mu     sync.Mutex
	// intercept sees each call before it is forwarded, and can end its connection.
	intercept func(r *http.Request) (forward bool)
	// after sees each call after its answer is known, and can make it get lost.
	after func(r *http.Request) (answer bool)
}

func newCloud(t *testing.T, endpoint string) *cloud {
	t.Helper()
	target, err := url.Parse(endpoint)
	must(t, err)
	c := &cloud{direct: strings.TrimSuffix(endpoint, "/")}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			for name, value := range glances.Identity {
				r.Out.Header.Set(name, value)
			}
		},
		FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error {
			if after := c.hook(false); after != nil && !after(response.Request) {
				panic(http.ErrAbortHandler)
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if intercept := c.hook(true); intercept != nil && !intercept(r) {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *cloud) hook(before bool) func(*http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before {
		return c.intercept
	}
	return c.after
}

func (c *cloud) on(intercept, after func(*http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept, c.after = intercept, after
}

// images are those in Glance, as an admin of the cloud sees them.
func (c *cloud) images(t *testing.T) map[string]map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.direct+"/v2/images", nil)
	must(t, err)
	for name, value := range glances.Identity {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	var list struct{ Images []map[string]any }
	must(t, json.NewDecoder(response.Body).Decode(&list))
	found := map[string]map[string]any{}
	for _, image := range list.Images {
		id, _ := image["id"].(string)
		found[id] = image
	}
	return found
}

// remove deletes an image, as an admin of the cloud.
func (c *cloud) remove(t *testing.T, id string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, c.direct+"/v2/images/"+id, nil)
	must(t, err)
	for name, value := range glances.Identity {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, response.Body.Close())
	if response.StatusCode != http.StatusNoContent {
		t.Fatal(response.Status)
	}
}

// openstack is a cluster whose class openstack stores images in a cloud. The class locked has credentials that are rejected.
type openstack struct {
	*fixture

	cloud *cloud
	// nova has the servers and the volumes of the cloud.
	nova *glances.Users
	// copied counts the bytes of the last copy that CDI read.
	mu     sync.Mutex
	copied []byte
}

func startOpenStack(t *testing.T, endpoint string) *openstack {
	t.Helper()
	c := newCloud(t, endpoint)
	k := glances.NewKeystone(t, (*httptest.Server).Start, glances.Endpoint{Region: "one", Interface: "public", URL: c.URL})
	f := &openstack{cloud: c, nova: glances.NewUsers(t)}
	f.fixture = startWith(t, map[string]any{
		"cloudsSecret": "openstack", "defaultClass": "openstack", "copies": map[string]any{"enabled": true},
		"classes": map[string]any{
			"cluster":   map[string]any{"backend": "CDI"},
			"openstack": map[string]any{"backend": "Glance", "cloud": "images", "visibility": "public"},
			"locked":    map[string]any{"backend": "Glance", "cloud": "locked"},
		},
	}, func(plane *controlplane.ControlPlane) {
		must(t, plane.Client().Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: "openstack"},
			StringData: map[string]string{"clouds.yaml": fmt.Sprintf(`clouds:
  images: {auth_type: none, image_endpoint_override: %q, compute_endpoint_override: %q, block_storage_endpoint_override: %q}
  locked: {auth: {auth_url: %q, username: virtward, password: wrong-password, project_name: images, user_domain_name: Default, project_domain_name: Default}}
`, c.URL, f.nova.Nova(), f.nova.Cinder(), k.URL+"/v3")},
		}))
	})
	f.cdi.Follow(func(o client.Object) simulators.Verdict {
		dv, ok := o.(*cdiv1beta1.DataVolume)
		if !ok || dv.Spec.Source == nil || dv.Spec.Source.HTTP == nil || !strings.Contains(dv.Spec.Source.HTTP.URL, "virtward-copies") {
			return simulators.Verdict{}
		}
		data, err := f.read(t, dv)
		if err != nil {
			return simulators.Verdict{Failure: err.Error()}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.copied = data
		return simulators.Verdict{}
	})
	return f
}

// read reads the source of a DataVolume as an importer of CDI does: with its Secret, and with its ConfigMap only.
func (f *openstack) read(t *testing.T, dv *cdiv1beta1.DataVolume) ([]byte, error) {
	from, secret, authorities := dv.Spec.Source.HTTP, &corev1.Secret{}, &corev1.ConfigMap{}
	if err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: dv.Namespace, Name: from.SecretRef}, secret); err != nil {
		return nil, err
	}
	if err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: dv.Namespace, Name: from.CertConfigMap}, authorities); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authorities.Data["ca.crt"]))
	at, err := url.Parse(from.URL)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { // the name of the Service leads to this machine
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", at.Port()))
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, from.URL, nil)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(string(secret.Data["accessKeyId"]), string(secret.Data["secretKey"]))
	response, err := (&http.Client{Transport: transport, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", response.Status)
	}
	return io.ReadAll(response.Body)
}

func glanceOf(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("glance-api"); err != nil {
		t.Logf("%v: a fake of Glance is used", glances.ErrNotInstalled)
		return glances.NewFake(t).URL
	}
	return glances.Start(t)
}

// TestGlance: images in the glance-api of Debian, or in a fake where that is not installed.
func TestGlance(t *testing.T) {
	t.Parallel()
	f := startOpenStack(t, glanceOf(t))
	t.Run("import, copy, use and deletion", f.stores)
	t.Run("faults", f.faults)
	t.Run("credentials of a source", f.private)
	t.Run("drift", f.drift)
	t.Run("the limits of the account", f.account)
	t.Run("uploads", f.noUploads)
	t.Run("users in OpenStack", f.users)
	t.Run("an outage", f.outage)
}

func (f *openstack) always(s *v1alpha1.VirtualImageSpec) { s.ClusterCopy = v1alpha1.ClusterCopyAlways }

// stores: an image is stored in Glance and copied into the cluster; a virtual machine holds both.
func (f *openstack) stores(t *testing.T) {
	data := qcow2(1 << 30)
	sum, stored := sha256.Sum256(data), sha512.Sum512(data)
	image := f.image(t, "fedora", f.web.serve("fedora.qcow2", data), func(s *v1alpha1.VirtualImageSpec) {
		f.always(s)
		s.Checksum, s.MinDisk, s.MinRAM = fmt.Sprintf("sha256:%x", sum), new(int32(2)), new(int32(512))
	})
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
	s := image.Status
	if s.ID == "" || !s.Ready || s.SizeBytes != int64(len(data)) || s.Checksum != fmt.Sprintf("sha512:%x", stored) || s.ImageClassName != "openstack" || s.Attempt != 1 {
		t.Errorf("%+v", s)
	}
	in := f.cloud.images(t)
	if got := in[s.ID]; len(in) != 1 || got["name"] != "fedora" || got["visibility"] != "public" || got["min_disk"] != 2.0 || got["min_ram"] != 512.0 {
		t.Errorf("images in Glance: %v", in)
	}
	f.mu.Lock()
	if string(f.copied) != string(data) {
		t.Errorf("CDI read %d bytes", len(f.copied))
	}
	f.mu.Unlock()
	source := &cdiv1beta1.DataSource{}
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), source))
	if pvc := source.Spec.Source.PVC; pvc == nil || pvc.Name != virtualimages.VolumeName(image.Name, image.UID) {
		t.Errorf("%+v", source.Spec)
	}
	dv := &cdiv1beta1.DataVolume{}
	must(t, f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}, dv))
	f.eventually(t, "the end of the token of a copy that is complete", func() error {
		if _, err := f.read(t, dv); err == nil || !strings.Contains(err.Error(), "404") {
			return fmt.Errorf("error %v", err) //nolint:errorlint // it can be nil
		}
		return nil
	})
	vm := f.machine(t, "web", "fedora")
	f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
	must(t, f.owner.Delete(t.Context(), image))
	f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "InUse")
	if n := len(f.cloud.images(t)); n != 1 {
		t.Errorf("%d images in Glance while one is in use", n)
	}
	must(t, f.Client().Delete(t.Context(), vm))
	f.gone(t, image)
	f.empty(t)
	f.eventually(t, "the collection of tokens", func() error {
		secrets, authorities := &corev1.SecretList{}, &corev1.ConfigMapList{}
		must(t, f.Client().List(t.Context(), secrets, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelImage}))
		must(t, f.Client().List(t.Context(), authorities, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelImage}))
		if n := len(secrets.Items) + len(authorities.Items); n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

// empty holds that Glance has no image.
func (f *openstack) empty(t *testing.T) {
	t.Helper()
	if in := f.cloud.images(t); len(in) != 0 {
		t.Errorf("images are left in Glance: %v", in)
	}
}

func (f *openstack) faults(t *testing.T) {
	src := f.web.serve("disk.qcow2", qcow2(1<<30))
	tests := map[string]struct {
		change         func(*v1alpha1.VirtualImageSpec)
		reason, within string
	}{
		"checksum": {func(s *v1alpha1.VirtualImageSpec) { s.Checksum = "sha256:" + strings.Repeat("0", 64) }, "ChecksumMismatch", "the file has the checksum sha256:"},
		"class":    {func(s *v1alpha1.VirtualImageSpec) { s.ImageClassName = "unknown" }, "ClassNotFound", `there is no class "unknown"`},
		"locked":   {func(s *v1alpha1.VirtualImageSpec) { s.ImageClassName = "locked" }, "CredentialsRejected", "class locked: the cloud rejects the credentials of clouds.yaml"},
		"format":   {func(s *v1alpha1.VirtualImageSpec) { s.Format = v1alpha1.FormatISO }, "FormatMismatch", "qcow2"},
		"ami":      {func(s *v1alpha1.VirtualImageSpec) { s.Format = v1alpha1.FormatAMI; f.always(s) }, "Unsupported", "set clusterCopy to Never"},
		"cluster": {func(s *v1alpha1.VirtualImageSpec) {
			s.ImageClassName, s.ClusterCopy = "cluster", v1alpha1.ClusterCopyNever
		}, "Unsupported", "remove spec.clusterCopy"},
		"never": {func(s *v1alpha1.VirtualImageSpec) { s.ClusterCopy = v1alpha1.ClusterCopyNever }, "Ready", ""},
	}
	images := map[string]*v1alpha1.VirtualImage{}
	for name, test := range tests {
		images[name] = f.image(t, "fault-"+name, src, test.change)
	}
	for name, test := range tests {
		image := f.becomes(t, images[name].Name, v1alpha1.ConditionReady, test.reason)
		status := fmt.Sprint(image.Status)
		if !strings.Contains(status, test.within) || strings.Contains(status, "wrong-password") {
			t.Errorf("%s: %s, want %q", name, status, test.within)
		}
		volumes := &cdiv1beta1.DataVolumeList{}
		must(t, f.Client().List(t.Context(), volumes, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelImage: string(image.UID)}))
		if len(volumes.Items) > 0 {
			t.Errorf("%s has a DataVolume", name)
		}
		must(t, f.owner.Delete(t.Context(), image))
	}
	for name, image := range images {
		if name == "locked" { // its backend cannot say whether it has the image
			f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "Blocked")
			continue
		}
		f.gone(t, image)
	}
	f.empty(t)
}

// private: a source with credentials, which an admin permits the account to read. The image is private.
func (f *openstack) private(t *testing.T) {
	data := qcow2(1 << 30)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hidden" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), strings.NewReader(string(data)))
	}))
	defer server.Close()
	must(t, f.Client().Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"}, StringData: map[string]string{"accessKeyId": "me", "secretKey": "hidden"},
	}))
	image := f.image(t, "private", server.URL, func(s *v1alpha1.VirtualImageSpec) { s.SecretRef = "source" })
	f.eventually(t, "the reason", func() error {
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image))
		if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionImported); c == nil || !strings.Contains(c.Message, "an admin permits it with a Role") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"source"}, Verbs: []string{"get"},
	}}}
	must(t, f.Client().Create(t.Context(), role))
	must(t, f.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardVirtualImages}},
	}))
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
	if got := f.cloud.images(t)[image.Status.ID]; got["visibility"] != "private" {
		t.Errorf("%v", got)
	}
	must(t, f.owner.Delete(t.Context(), image))
	f.gone(t, image)
	f.empty(t)
}

// drift: an image that was deleted in Glance while its copy is left. Another image that is deleted is deleted all the same.
func (f *openstack) drift(t *testing.T) {
	image := f.image(t, "drift", f.web.serve("drift.qcow2", qcow2(1<<30)), f.always)
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
	f.cloud.remove(t, image.Status.ID)
	vm := f.machine(t, "drifter", "drift") // its event makes the image be observed
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Removed")
	if c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionReady); !strings.Contains(c.Message, "only its copy in the cluster is left") {
		t.Errorf("%+v", c)
	}
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), &cdiv1beta1.DataSource{}))
	must(t, f.Client().Delete(t.Context(), vm))
	must(t, f.owner.Delete(t.Context(), image))
	f.gone(t, image)
	f.empty(t)
}

// account: RBAC permits the account to create Secrets, and a guard limits them.
func (f *openstack) account(t *testing.T) {
	config, err := f.ServiceAccountConfig(t.Context(), controlplane.VirtwardNamespace, controlplane.VirtwardVirtualImages)
	must(t, err)
	account, err := client.New(config, client.Options{Scheme: f.Client().Scheme()})
	must(t, err)
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "any", UID: "any"}}
	labels := map[string]string{v1alpha1.LabelImage: "any"}
	own := metav1.ObjectMeta{Namespace: namespace, Name: "any", OwnerReferences: owner, Labels: labels}
	system := *own.DeepCopy()
	system.Namespace = metav1.NamespaceSystem
	for name, object := range map[string]client.Object{
		"token of nodes":     &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token"},
		"without an owner":   &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "any", Labels: labels}, Immutable: &yes},
		"other keys":         &corev1.Secret{ObjectMeta: own, Immutable: &yes, Data: map[string][]byte{"other": nil}},
		"mutable":            &corev1.Secret{ObjectMeta: own},
		"type":               &corev1.Secret{ObjectMeta: own, Immutable: &yes, Type: "example.com/other"},
		"system":             &corev1.Secret{ObjectMeta: system, Immutable: &yes},
		"keys of ConfigMaps": &corev1.ConfigMap{ObjectMeta: own, Immutable: &yes, Data: map[string]string{"other": ""}},
		"binary data":        &corev1.ConfigMap{ObjectMeta: own, Immutable: &yes, BinaryData: map[string][]byte{"ca.crt": nil}},
	} {
		t.Run(name, func(t *testing.T) { denied(t, account.Create(t.Context(), object), "virtual-image-copies") })
	}
	denied(t, account.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "source"}, &corev1.ConfigMap{}), "cannot get resource")
	denied(t, account.List(t.Context(), &corev1.SecretList{}), "cannot list resource")
	denied(t, account.Delete(t.Context(), &corev1.Secret{ObjectMeta: own}), "cannot delete resource")
}

// noUploads: an image whose class stores it in OpenStack is denied, also where that is the default.
func (f *openstack) noUploads(t *testing.T) {
	for class, want := range map[string]string{
		"openstack": "virtual-image-upload: spec.upload: the class openstack is none that stores images in the cluster: set spec.imageClassName to one that does (cluster), or set spec.src",
		"absent":    "virtual-image-upload: spec.upload: the class absent is none",
		"cluster":   "",
		"":          "the class openstack is none that stores images in the cluster",
	} {
		image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "upload"}}
		image.Spec = v1alpha1.VirtualImageSpec{Upload: &v1alpha1.VirtualImageUpload{}, Format: v1alpha1.FormatRaw, ImageClassName: class}
		if err := f.owner.Create(t.Context(), image, client.DryRunAll); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", class, err, want)
		}
	}
}

// outage: Glance does not answer for a moment.
func (f *openstack) outage(t *testing.T) { f.outageOf(t, 0) }

// TestSoakGlanceOutage: Glance does not answer for ten minutes.
func TestSoakGlanceOutage(t *testing.T) {
	soak.Only(t)
	lasts := 10 * time.Minute
	if text := os.Getenv("VIRTWARD_OUTAGE"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		must(t, err)
	}
	startOpenStack(t, glances.NewFake(t).URL).outageOf(t, lasts)
}

// outageOf: Glance does not answer for a while. An image that is ready stays ready, and another one is imported afterwards. The
// calls become rare meanwhile.
func (f *openstack) outageOf(t *testing.T, lasts time.Duration) {
	ready := f.image(t, "before", f.web.serve("before.qcow2", qcow2(1<<30)), nil)
	ready = f.becomes(t, ready.Name, v1alpha1.ConditionReady, "Ready")
	var calls atomic.Int64
	f.cloud.on(func(*http.Request) bool {
		calls.Add(1)
		return false
	}, nil)
	during := f.image(t, "during", f.web.serve("during.qcow2", qcow2(1<<30)), nil)
	during = f.becomes(t, during.Name, v1alpha1.ConditionReady, "BackendUnreachable")
	inCluster := f.image(t, "cluster", f.web.serve("cluster.qcow2", qcow2(1<<30)), func(s *v1alpha1.VirtualImageSpec) { s.ImageClassName = "cluster" })
	f.becomes(t, inCluster.Name, v1alpha1.ConditionReady, "Ready") // classes do not wait for each other
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(ready), ready))
	if !ready.Status.Ready {
		t.Errorf("%+v", ready.Status)
	}
	time.Sleep(lasts)
	if n := calls.Load(); n > 30+int64(lasts/(10*time.Second)) {
		t.Errorf("%d calls in an outage of %s", n, lasts)
	}
	f.cloud.on(nil, nil)
	for deadline := time.Now().Add(2 * time.Minute); lasts > 0 && !during.Status.Ready && time.Now().Before(deadline); time.Sleep(time.Second) {
		must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(during), during)) // after a long outage, the next call is up to a minute away
	}
	during = f.becomes(t, during.Name, v1alpha1.ConditionReady, "Ready")
	if in := f.cloud.images(t); len(in) != 2 || during.Status.Attempt != 1 {
		t.Errorf("attempt %d, images in Glance: %v", during.Status.Attempt, in)
	}
	for _, image := range []*v1alpha1.VirtualImage{ready, during, inCluster} {
		must(t, f.owner.Delete(t.Context(), image))
	}
	for _, image := range []*v1alpha1.VirtualImage{ready, during, inCluster} {
		f.gone(t, image)
	}
	f.empty(t)
}
