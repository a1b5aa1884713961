package templates

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/archive"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/vmdk"
)

// exportServer is the program that the pods of exports run.
const exportServer = "virtward-export-server"

// vault is a namespace with volumes that templates of other namespaces clone.
const vault = "vault"

// TestExportProcess exports a template with the chart's Deployment: its process, with the rights of its account, and the real program of the
// pod. What runs pods and clones volumes is simulated.
func TestExportProcess(t *testing.T) {
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", exportServer))
	must(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skipf("bin/%s is not built: run make build", exportServer)
	}
	f := newFixture(t)
	_, err = f.InstallVirtward(t.Context(), map[string]any{"templates": map[string]any{
		"mode": "manage", "exports": map[string]any{"enabled": true, "ttl": "1h", "maxTTL": "2h", "ingress": map[string]any{
			"domain": "exports.example.com", "annotations": map[string]any{"example.com/backend": "HTTPS, always"}, "namespaces": []any{machines},
		}},
	}}, controlplane.Workload{})
	must(t, err)
	process, err := f.RunVirtward(t.Context(), controlplane.Workload{Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardExports})
	must(t, err)
	t.Cleanup(func() {
		if log, err := os.ReadFile(process.Log()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", controlplane.VirtwardExports, log)
		}
	})
	must(t, f.EnsureNamespace(t.Context(), vault))
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test
	root, data := make([]byte, 5<<20), make([]byte, 2<<20)
	for i := range 1 << 20 {
		root[i+3<<19], data[i] = byte(random.IntN(256)), byte(i) //nolint:gosec // bytes
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	x := &exporting{
		fixture: f, process: process, root: root, data: data,
		pods: simulators.StartExports(ctx, f.ControlPlane, program, t.TempDir(), map[string][]byte{vault + "/root": root, catalogue + "/data": data}),
	}
	f.claim(t, vault, "root", "")
	f.claim(t, catalogue, "data", "")
	source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "debian"}}
	source.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: vault, Name: "root"}
	must(t, f.Client().Create(t.Context(), source))
	x.template(t, "lighthouse")
	t.Run("users", x.users)
	t.Run("definition", x.definition)
	t.Run("account may not clone", x.forbidden)
	// The account of the process may clone from the namespace, as an admin permits it.
	permit(t, f, vault, "clone-for-exports", "create", "cdi.kubevirt.io", "datavolumes/source", rbacv1.Subject{
		Kind: rbacv1.ServiceAccountKind, Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardExports,
	})
	t.Run("export", x.exports)
	t.Run("artifact", x.artifact)
	t.Run("failures", x.failures)
	t.Run("account", x.account)
}

// exporting has a template of two volumes.
type exporting struct {
	*fixture

	process    *controlplane.Virtward
	pods       *simulators.Exports
	root, data []byte
}

// template creates the template: a disk of a DataSource in another namespace, a disk of a claim whose name is a parameter, and a blank one.
func (x *exporting) template(t *testing.T, name string) {
	t.Helper()
	const machine = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted",
"dataVolumeTemplates":[
 {"metadata":{"name":"${NAME}-root"},"spec":{"sourceRef":{"kind":"DataSource","namespace":"vault","name":"debian"},"storage":{"resources":{"requests":{"storage":"5Mi"}}}}},
 {"metadata":{"name":"${NAME}-data"},"spec":{"source":{"pvc":{"name":"${DATA}"}},"storage":{"resources":{"requests":{"storage":"2Mi"}}}}},
 {"metadata":{"name":"${NAME}-scratch"},"spec":{"source":{"blank":{}},"storage":{"resources":{"requests":{"storage":"1Gi"}}}}}],
"template":{"spec":{"domain":{"cpu":{"cores":2},"memory":{"guest":"1Gi"},"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}},{"name":"data","disk":{"bus":"virtio"}},{"name":"scratch","disk":{"bus":"virtio"}}]}},
"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}},{"name":"data","dataVolume":{"name":"${NAME}-data"}},{"name":"scratch","dataVolume":{"name":"${NAME}-scratch"}}]}}}}`
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}}
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(machine)}
	template.Spec.Parameters = []v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "DATA", Value: "data"}}
	must(t, x.Client().Create(t.Context(), template))
}

// of is an export of the template.
func (x *exporting) of(name string, change ...func(*v1beta1.VirtualMachineTemplateExportSpec)) *v1beta1.VirtualMachineTemplateExport {
	made := &v1beta1.VirtualMachineTemplateExport{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}}
	made.Spec.TemplateRef.Name, made.Spec.SourceNamespaces = "lighthouse", []string{vault}
	for _, c := range change {
		c(&made.Spec)
	}
	return made
}

// permit lets a subject do something in a namespace.
func permit(t *testing.T, f *fixture, namespace, name, verb, group, resource string, subject rbacv1.Subject) {
	t.Helper()
	must(t, f.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: []rbacv1.PolicyRule{allow(verb, group, resource)}}))
	must(t, f.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{subject},
	}))
}

// users: an author needs the rights of what is read for them.
func (x *exporting) users(t *testing.T) {
	create := allow("create", "template.kubevirt.io", "virtualmachinetemplateexports")
	read, volumes := allow("get", "template.kubevirt.io", "virtualmachinetemplates", "lighthouse"), allow("create", "cdi.kubevirt.io", "datavolumes")
	clone := allow("create", "cdi.kubevirt.io", "datavolumes/source")
	for name, c := range map[string]struct {
		rules  []rbacv1.PolicyRule
		vault  bool
		denied string
	}{
		"exporter":                {rules: []rbacv1.PolicyRule{read, volumes, clone}, vault: true},
		"export-without-template": {rules: []rbacv1.PolicyRule{volumes, clone}, vault: true, denied: "template-export-template: spec.templateRef.name: this template is read for you: you need get on the virtualmachinetemplate lighthouse in the namespace catalogue"},
		"export-without-volumes":  {rules: []rbacv1.PolicyRule{read, clone}, vault: true, denied: "template-export-datavolumes: "},
		"export-without-clones":   {rules: []rbacv1.PolicyRule{read, volumes}, vault: true, denied: "template-export-sources: spec.sourceNamespaces: volumes are read for you: you need create on datavolumes/source in each of the namespaces catalogue, vault"},
		"export-without-vault":    {rules: []rbacv1.PolicyRule{read, volumes, clone}, denied: "template-export-sources: spec.sourceNamespaces: volumes are read for you: you need create on datavolumes/source in each of the namespaces catalogue, vault"},
	} {
		i := &importing{fixture: x.fixture}
		user := i.user(t, name, append(c.rules, create)...)
		if c.vault {
			permit(t, x.fixture, vault, name, "create", "cdi.kubevirt.io", "datavolumes/source", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name})
		}
		await.Until(t, func() error { // the authorizer of the API server reads roles after they are created
			err := user.Create(t.Context(), x.of(name), client.DryRunAll)
			if c.denied == "" && err != nil || c.denied != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.denied)) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
}

// definition: what is not built is rejected, and nothing is changed afterwards.
func (x *exporting) definition(t *testing.T) {
	for want, change := range map[string]func(*v1beta1.VirtualMachineTemplateExportSpec){
		`Unsupported value: "ISO"`:                      func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.Format = "ISO" },
		"keepUserData: must be true for the format OCI": func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.Format = v1beta1.ExportOCI },
		"spec.ttl: Invalid value: \"1s\": must be 1m":   func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TTL = &metav1.Duration{Duration: time.Second} },
		"spec.sourceNamespaces[0] in body should match": func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.SourceNamespaces = []string{"a/b"} },
	} {
		err := x.Client().Create(t.Context(), x.of("invalid", change), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

// is waits until an export is ready, or has failed for a reason.
func (x *exporting) is(t *testing.T, of *v1beta1.VirtualMachineTemplateExport, reason string) {
	t.Helper()
	await.Until(t, func() error {
		if err := x.Client().Get(t.Context(), client.ObjectKeyFromObject(of), of); err != nil {
			return err
		}
		c := meta.FindStatusCondition(of.Status.Conditions, v1beta1.RequestReady)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("the export is %+v; faults of the simulation: %q", of.Status, x.pods.Faults())
		}
		return nil
	})
}

// forbidden: a namespace whose admin does not permit the account to clone says so, and it is tried again.
func (x *exporting) forbidden(t *testing.T) {
	made := x.of("forbidden")
	must(t, x.Client().Create(t.Context(), made))
	await.Until(t, func() error {
		must(t, x.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
		c := meta.FindStatusCondition(made.Status.Conditions, v1beta1.RequestProgressing)
		if c == nil || c.Reason != v1beta1.ReasonBlocked || !strings.Contains(c.Message, "clone") {
			return fmt.Errorf("the export is %+v", made.Status)
		}
		return nil
	})
	must(t, x.Client().Delete(t.Context(), made))
}

// exports: from a template to an OVA with the bytes of the volumes, also after the process and the pod ended.
func (x *exporting) exports(t *testing.T) {
	made := x.of("lighthouse")
	must(t, x.Client().Create(t.Context(), made))
	x.is(t, made, v1beta1.ReasonServing)
	s := made.Status
	if s.Size == 0 || len(s.Digest) != 32 || s.FileName != "lighthouse.ova" || len(s.Disks) != 2 || s.Disks[0].Source != (v1beta1.ExportSource{Kind: "PersistentVolumeClaim", Namespace: vault, Name: "root"}) ||
		s.Disks[1].Source.Name != "data" || s.Disks[1].Progress != "100%" || s.Expires.Sub(made.CreationTimestamp.Time) < time.Hour {
		t.Errorf("got the status %+v", s)
	}
	suffix := strings.TrimSuffix(strings.TrimPrefix(s.TokenSecretRef, exports.Servers.Prefix), "-token")
	ingress := &networkingv1.Ingress{}
	must(t, x.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: exports.Servers.Name(suffix)}, ingress))
	if s.Links.External.URL != "https://"+suffix+".exports.example.com/export.ova" || ingress.Spec.Rules[0].Host != suffix+".exports.example.com" || ingress.Annotations["example.com/backend"] != "HTTPS, always" {
		t.Errorf("got the link %+v and the Ingress %+v", s.Links.External, ingress)
	}
	first := x.download(t, made, 0)
	x.compare(t, first)
	x.process.Kill()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: exports.Servers.PodName(made.UID)}}
	must(t, x.Client().Delete(t.Context(), pod))
	must(t, x.process.Start(t.Context()))
	await.Until(t, func() error {
		must(t, x.Client().Get(t.Context(), client.ObjectKeyFromObject(made), made))
		if made.Status.TokenSecretRef == s.TokenSecretRef || !meta.IsStatusConditionTrue(made.Status.Conditions, v1beta1.RequestReady) {
			return fmt.Errorf("the export is %+v; faults of the simulation: %q", made.Status, x.pods.Faults())
		}
		return nil
	})
	if made.Status.Digest != s.Digest || made.Status.Size != s.Size || !made.Status.Expires.Equal(s.Expires) {
		t.Errorf("the second pod serves %+v, the first one %+v", made.Status, s)
	}
	if rest := x.download(t, made, len(first)/2); !bytes.Equal(rest, first[len(first)/2:]) {
		t.Error("the second pod serves other bytes")
	}
	must(t, x.Client().Delete(t.Context(), made))
	await.Until(t, func() error { // the garbage collector
		left := 0
		for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{}, &networkingv1.IngressList{}, &cdiv1beta1.DataVolumeList{}} {
			must(t, x.Client().List(t.Context(), list, client.InNamespace(catalogue), client.MatchingLabels{v1beta1.LabelExportUID: string(made.UID)}))
			left += meta.LenList(list)
		}
		if left > 0 {
			return fmt.Errorf("%d objects of the export are left", left)
		}
		return nil
	})
}

// artifact: from a template to an OCI artifact, with the disk of a claim. That of a DataSource is not in it, as in KubeVirt's.
func (x *exporting) artifact(t *testing.T) {
	made := x.of("artifact", func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.Format, s.KeepUserData = v1beta1.ExportOCI, true })
	must(t, x.Client().Create(t.Context(), made))
	x.is(t, made, v1beta1.ReasonServing)
	s := made.Status
	if s.FileName != "lighthouse.oci.tar" || len(s.Disks) != 1 || s.Disks[0].Source.Name != "data" || !strings.HasSuffix(s.Links.External.URL, ".exports.example.com/export.oci.tar") ||
		!strings.Contains(strings.Join(s.Warnings, "\n"), "no disk of the volume root") {
		t.Errorf("got the status %+v", s)
	}
	whole := x.download(t, made, 0)
	verified, err := archive.Verify(bytes.NewReader(whole))
	must(t, err)
	if verified.Tag != s.Digest || len(verified.Files) != 5 {
		t.Fatalf("got %+v", verified)
	}
	r := tar.NewReader(bytes.NewReader(whole))
	for range verified.Files {
		_, err := r.Next()
		must(t, err)
	}
	layer, err := zstd.NewReader(r)
	must(t, err)
	defer layer.Close()
	if disk, err := io.ReadAll(layer); err != nil || !bytes.Equal(disk, x.data) {
		t.Errorf("the layer has %d other bytes: %v", len(disk), err)
	}
	if rest := x.download(t, made, len(whole)/2); !bytes.Equal(rest, whole[len(whole)/2:]) {
		t.Error("a range has other bytes")
	}
	must(t, x.Client().Delete(t.Context(), made))
}

// download reads the file from an offset on, as a client in the cluster does. Other tokens than that of the Secret are not enough.
func (x *exporting) download(t *testing.T, of *v1beta1.VirtualMachineTemplateExport, from int) []byte {
	t.Helper()
	secret := &corev1.Secret{}
	must(t, x.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: of.Status.TokenSecretRef}, secret))
	link := of.Status.Links.Internal
	at, err := url.Parse(link.URL)
	must(t, err)
	name, _, _ := strings.Cut(at.Hostname(), ".")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(link.Cert)) {
		t.Fatal("the link has no certificate")
	}
	dialer := &net.Dialer{Timeout: time.Second}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, x.pods.Address(name)) // as the DNS of the cluster and the Service lead to it
	}}
	defer transport.CloseIdleConnections()
	get := func(header http.Header) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link.URL, nil)
		must(t, err)
		request.Header = header
		response, err := transport.RoundTrip(request)
		must(t, err)
		return response
	}
	pod := &corev1.Pod{}
	must(t, x.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: exports.Servers.PodName(of.UID)}, pod))
	for _, token := range []string{"", pod.Annotations[exports.AnnotationStatusToken]} {
		response := get(http.Header{transfer.TokenHeader: {token}})
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Errorf("the token %q is enough", token)
		}
	}
	response := get(http.Header{transfer.TokenHeader: {string(secret.Data[exports.KeyToken])}, "Range": {fmt.Sprintf("bytes=%d-", from)}})
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusPartialContent || response.Header.Get("ETag") != `"`+of.Status.Digest+`"` || int64(from+len(body)) != of.Status.Size {
		t.Errorf("the server answers %s with %d bytes and the tag %s", response.Status, len(body), response.Header.Get("ETag"))
	}
	return body
}

// compare holds that an OVA has the volumes.
func (x *exporting) compare(t *testing.T, ova []byte) {
	t.Helper()
	want := map[string][]byte{"lighthouse-root.vmdk": x.root, "lighthouse-data.vmdk": x.data}
	var names []string
	for r := tar.NewReader(bytes.NewReader(ova)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		names = append(names, header.Name)
		content, has := want[header.Name]
		if !has {
			continue
		}
		file, err := io.ReadAll(r)
		must(t, err)
		image, err := vmdk.Inspect(bytes.NewReader(file), int64(len(file)))
		must(t, err)
		decoded := make([]byte, image.Size)
		must(t, image.VMDK.Walk(func(offset int64, part []byte) error {
			copy(decoded[offset:], part)
			return nil
		}))
		if !bytes.Equal(decoded, content) {
			t.Errorf("%s has other bytes", header.Name)
		}
		delete(want, header.Name)
	}
	if len(want) > 0 || len(names) != 4 || names[0] != "lighthouse.ovf" {
		t.Errorf("the OVA has %v", names)
	}
}

// failures: what cannot be exported is said, and leaves nothing but the export.
func (x *exporting) failures(t *testing.T) {
	source := `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","spec":{"dataVolumeTemplates":[{"metadata":{"name":"a"},"spec":{%s,"storage":{}}}],"template":{"spec":{"domain":{"devices":{"disks":[{"name":"a","disk":{}}]}},"volumes":[{"name":"a","dataVolume":{"name":"a"}}]}}}}`
	for name, text := range map[string]string{"web": `"source":{"http":{"url":"https://example.com/a"}}`, "chosen": `"source":{"pvc":{"name":"${FROM}"}}`, "missing": `"sourceRef":{"kind":"DataSource","name":"nothing"}`} {
		template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: name}}
		template.Spec.VirtualMachine = &runtime.RawExtension{Raw: fmt.Appendf(nil, source, text)}
		template.Spec.Parameters = []v1beta1.Parameter{{Name: "FROM", Required: true}}
		must(t, x.Client().Create(t.Context(), template))
	}
	for name, c := range map[string]struct {
		change       func(*v1beta1.VirtualMachineTemplateExportSpec)
		reason, want string
	}{
		"absent":      {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TemplateRef.Name = "absent" }, v1beta1.ReasonTemplateNotFound, "VirtualMachineTemplate catalogue/absent does not exist"},
		"unnamed":     {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.SourceNamespaces = nil }, v1beta1.ReasonSourceNotPermitted, "the volume root is cloned from the DataSource vault/debian: create an export with vault in spec.sourceNamespaces"},
		"long":        {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TTL = &metav1.Duration{Duration: 3 * time.Hour} }, v1beta1.ReasonInvalidConfiguration, "spec.ttl: 3h0m0s is longer than 2h0m0s"},
		"from-web":    {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TemplateRef.Name = "web" }, v1beta1.ReasonNotExportable, "dataVolumeTemplates[0].spec.source.http: the content is not in the cluster"},
		"of-a-choice": {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TemplateRef.Name = "chosen" }, v1beta1.ReasonNotExportable, "depends on the parameter FROM"},
		"no-source":   {func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TemplateRef.Name = "missing" }, v1beta1.ReasonNotExportable, "the DataSource catalogue/nothing does not exist"},
	} {
		made := x.of(name, c.change)
		must(t, x.Client().Create(t.Context(), made))
		x.is(t, made, c.reason)
		ready := meta.FindStatusCondition(made.Status.Conditions, v1beta1.RequestReady)
		if !strings.Contains(ready.Message, c.want) || made.Status.Expires == nil || made.Status.Links != nil {
			t.Errorf("%s: %+v", name, made.Status)
		}
		must(t, x.Client().Delete(t.Context(), made))
	}
}

// account: the account of the process creates nothing but the objects of exports.
func (x *exporting) account(t *testing.T) {
	config, err := x.ServiceAccountConfig(t.Context(), controlplane.VirtwardNamespace, controlplane.VirtwardExports)
	must(t, err)
	stolen, err := client.New(config, client.Options{Scheme: x.Client().Scheme()})
	must(t, err)
	of := x.of("stolen")
	of.UID = "a-b"
	deployment := &appsv1.Deployment{}
	must(t, x.Client().Get(t.Context(), client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardExports}, deployment))
	image := ""
	for _, flag := range deployment.Spec.Template.Spec.Containers[0].Args {
		if value, is := strings.CutPrefix(flag, "--server-image="); is {
			image = value
		}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: exports.CloneName(of, 0)}}
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		made := exports.Pod(of, &servers.Program{Image: image}, "0123", "token", []*corev1.PersistentVolumeClaim{claim})
		for _, c := range change {
			c(made)
		}
		return made
	}
	volume := func(change func(*cdiv1beta1.DataVolume)) *cdiv1beta1.DataVolume {
		made := exports.Clone(of, &v1beta1.ExportDisk{Name: exports.CloneName(of, 0), Source: v1beta1.ExportSource{Kind: "PersistentVolumeClaim", Namespace: vault, Name: "root"}})
		change(made)
		return made
	}
	ingress := func(host, service string) *networkingv1.Ingress {
		material := &servers.Material{Suffix: "0123"}
		owner := pod()
		owner.UID = "c-d"
		objects, err := exports.Objects(owner, &exportserver.Plan{}, material, controlplane.VirtwardNamespace, &exports.Outside{Domain: "exports.example.com"})
		must(t, err)
		made, _ := objects[3].(*networkingv1.Ingress)
		made.Spec.Rules[0].Host, made.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = host, service
		return made
	}
	for name, object := range map[string]client.Object{"Ingress": ingress("0123.exports.example.com", "virtward-ova-0123"), "pod": pod(), "clone": volume(func(*cdiv1beta1.DataVolume) {})} {
		if err := stolen.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("the %s of an export: %v", name, err)
		}
	}
	for name, object := range map[string]client.Object{
		"another image":        pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/other" }),
		"a command":            pod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} }),
		"other arguments":      pod(func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil }),
		"a token":              pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = new(true) }),
		"the host's processes": pod(func(p *corev1.Pod) { p.Spec.HostPID = true }),
		"root":                 pod(func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsUser = new(int64(0)) }),
		"a claim of others":    pod(func(p *corev1.Pod) { p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "data" }),
		"a path of the host": pod(func(p *corev1.Pod) {
			p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}),
		"another Secret":    pod(func(p *corev1.Pod) { p.Spec.Volumes[0].Secret.SecretName = "login" }),
		"no owner":          pod(func(p *corev1.Pod) { p.OwnerReferences = nil }),
		"another name":      pod(func(p *corev1.Pod) { p.Name = "web" }),
		"kube-system":       pod(func(p *corev1.Pod) { p.Namespace = metav1.NamespaceSystem }),
		"another namespace": volume(func(v *cdiv1beta1.DataVolume) { v.Spec.Source.PVC.Namespace = machines }),
		"a web server": volume(func(v *cdiv1beta1.DataVolume) {
			v.Spec.Source = &cdiv1beta1.DataVolumeSource{HTTP: &cdiv1beta1.DataVolumeSourceHTTP{URL: "https://example.com/a"}}
		}),
		"another host":    ingress("www.example.com", "virtward-ova-0123"),
		"another Service": ingress("0123.exports.example.com", "web"),
		"a Secret":        &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "a"}},
	} {
		err := stolen.Create(t.Context(), object, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template-export-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := stolen.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "login"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("it reads Secrets: %v", err)
	}
	user := (&importing{fixture: x.fixture}).user(t, "export-operator", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}})
	if err := user.Create(t.Context(), pod(func(p *corev1.Pod) { p.Name = exports.Servers.Prefix + "0123456789" }), client.DryRunAll); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "template-export-") {
		t.Errorf("a user replaces the server of an export: %v", err)
	}
}
