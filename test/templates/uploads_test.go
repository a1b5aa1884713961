package templates

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/simulators/uploads"
	"github.com/virtward/virtward/vmdk"
)

// fleet is the descriptor of an appliance with two disks.
var fleet = strings.NewReplacer(
	`</References>`, `<File ovf:id="g" ovf:href="harbour-disk2.vmdk"/></References>`,
	`</DiskSection>`, `<Disk ovf:diskId="e" ovf:fileRef="g" ovf:capacity="2" ovf:capacityAllocationUnits="byte * 2^20" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/></DiskSection>`,
	`</VirtualHardwareSection>`, `<Item><AddressOnParent>1</AddressOnParent><HostResource>ovf:/disk/e</HostResource><InstanceID>6</InstanceID><Parent>3</Parent><ResourceType>17</ResourceType></Item></VirtualHardwareSection>`,
).Replace(harbour)

// uploading has an appliance with two disks in a file, and a user who uploads it.
type uploading struct {
	*fixture

	proxy *uploads.Proxy
	file  string
	// sums are the checksums of the disks in the file.
	sums []string
	// address is a server before the API server, with the rights of the user. It calls before with each request.
	address string
	before  atomic.Pointer[func(r *http.Request)]
}

// newUploading prepares a cluster without Virtward's controllers of imports, and a user with roles of these names.
func newUploading(t *testing.T) *uploading {
	t.Helper()
	u := &uploading{fixture: newFixture(t)}
	var err error
	u.proxy, err = u.cdi.ServeUploads(t.Context())
	must(t, err)
	t.Cleanup(u.proxy.Close)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, content []byte) {
		must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(content))}))
		_, err := w.Write(content)
		must(t, err)
	}
	add("harbour.ovf", []byte(fleet))
	manifest := fmt.Sprintf("SHA256(harbour.ovf)= %x\n", sha256.Sum256([]byte(fleet)))
	var disks [][]byte
	for n, mebibytes := range []int{3, 2} {
		content := bytes.Repeat([]byte(fmt.Sprintf("disk %d", n)), mebibytes<<20)[:mebibytes<<20]
		var disk bytes.Buffer
		name := fmt.Sprintf("harbour-disk%d.vmdk", n+1)
		must(t, vmdk.Write(&disk, bytes.NewReader(content), int64(len(content)), name))
		sum := fmt.Sprintf("%x", sha256.Sum256(disk.Bytes()))
		manifest += fmt.Sprintf("SHA256(%s)= %s\n", name, sum)
		disks, u.sums = append(disks, disk.Bytes()), append(u.sums, "sha256:"+sum)
	}
	add("harbour.mf", []byte(manifest))
	add("harbour-disk1.vmdk", disks[0])
	add("harbour-disk2.vmdk", disks[1])
	must(t, w.Close())
	u.file = filepath.Join(t.TempDir(), "harbour.ova")
	must(t, os.WriteFile(u.file, out.Bytes(), 0o600))
	must(t, u.Client().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cdi-config"}, Rules: []rbacv1.PolicyRule{allow("get", "cdi.kubevirt.io", "cdiconfigs")}}))
	must(t, u.Client().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "cdi-config"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cdi-config"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
	}))
	config, err := u.UserConfig("uploader")
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	to, err := url.Parse(config.Host)
	must(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.Transport = transport
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before := u.before.Load(); before != nil {
			(*before)(r)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	u.address = server.URL
	return u
}

// grant gives the user rights in the namespace of templates.
func (u *uploading) grant(t *testing.T, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: catalogue, Name: name}
	must(t, u.Client().Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}))
	must(t, u.Client().Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "uploader"}},
	}))
}

// call runs kubectl virtward template import.
func (u *uploading) call(ctx context.Context, args ...string) (code int, out, errOut string) {
	ctx, cancel := context.WithTimeout(ctx, 2*await.Patience)
	defer cancel()
	var o, e bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e}
	code = cli.Run(ctx, "development", append([]string{"kubectl-virtward", "template", "import", u.file, "--server", u.address, "-n", catalogue}, args...), streams)
	return code, o.String(), e.String()
}

// TestUploadedAppliance uploads an appliance of this machine with the rights of a user, whatever breaks on the way.
func TestUploadedAppliance(t *testing.T) {
	u := newUploading(t)
	t.Run("without rights", u.withoutRights)
	t.Run("connections that break", u.broken)
	t.Run("killed", u.killed)
	t.Run("names that are taken", u.taken)
	t.Run("a descriptor with files beside it", u.bare)
	t.Run("a compressed archive", u.compressed)
	t.Run("an artifact", u.artifact)
}

// withoutRights: nothing is created without create on DataVolumes, and nothing is sent without create on tokens.
func (u *uploading) withoutRights(t *testing.T) {
	template, volume := "template.kubevirt.io", "cdi.kubevirt.io"
	u.grant(t, "templates", allow("get", template, "virtualmachinetemplates"), allow("create", template, "virtualmachinetemplates"))
	u.fails(t, "the cluster has no VirtualMachineTemplates: install the chart of Virtward")
	u.installDefinitions(t)
	u.fails(t, "creating the DataVolume harbour-disk-1: ", "datavolumes.cdi.kubevirt.io is forbidden")
	u.grant(t, "volumes", allow("create", volume, "datavolumes"), allow("get", volume, "datavolumes"))
	u.fails(t, "requesting a token of CDI: ", "uploadtokenrequests.upload.cdi.kubevirt.io is forbidden", "to give up, run kubectl delete datavolumes -n catalogue -l cli.virtward.io/upload=")
	if requests := fmt.Sprint(u.proxy.Requests()); strings.Contains(requests, http.MethodPost) {
		t.Errorf("the proxy has a file: %v", requests)
	}
	u.grant(t, "tokens", allow("create", "upload.cdi.kubevirt.io", "uploadtokenrequests"))
	u.fails(t, "the template is created, and does not own the DataVolume harbour-disk-1: ", "is forbidden")
	u.grant(t, "owners", allow("patch", volume, "datavolumes"))
	await.Until(t, func() error {
		if code, _, errOut := u.call(t.Context()); code != 0 {
			return fmt.Errorf("%s", errOut)
		}
		return nil
	})
	u.complete(t, "harbour")
}

// fails awaits an error, as the rights of a user take a moment.
func (u *uploading) fails(t *testing.T, want ...string) {
	t.Helper()
	await.Until(t, func() error {
		code, out, errOut := u.call(t.Context())
		for _, w := range want {
			if code != 1 || out != "" || !strings.Contains(errOut, w) {
				return fmt.Errorf("code %d: %s%s", code, out, errOut)
			}
		}
		return nil
	})
}

// complete holds that a template owns its disks, and that CDI has the bytes of the file.
func (u *uploading) complete(t *testing.T, name string) {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, u.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: name}, template))
	content, err := os.ReadFile(u.file)
	must(t, err)
	if want, got := fmt.Sprintf("sha256:%x", sha256.Sum256(content)), template.Annotations["cli.virtward.io/source-digest"]; got != want {
		t.Errorf("the template has the digest %q, want %s", got, want)
	}
	rendered, findings := templates.Render(&template.Spec, nil, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if len(findings) > 0 {
		t.Fatalf("findings: %v", findings)
	}
	if len(rendered.VirtualMachine.Spec.DataVolumeTemplates) != len(u.sums) {
		t.Fatalf("the virtual machine has %d disks", len(rendered.VirtualMachine.Spec.DataVolumeTemplates))
	}
	for n, of := range rendered.VirtualMachine.Spec.DataVolumeTemplates {
		source := of.Spec.Source.PVC
		if source == nil || source.Namespace != catalogue {
			t.Fatalf("the virtual machine clones %+v", of.Spec.Source)
		}
		volume := &cdiv1beta1.DataVolume{}
		must(t, u.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: source.Name}, volume))
		if !metav1.IsControlledBy(volume, template) || volume.Status.Phase != cdiv1beta1.Succeeded {
			t.Errorf("%s is %s, and belongs to %+v", volume.Name, volume.Status.Phase, volume.OwnerReferences)
		}
		if received := u.proxy.Received(catalogue + "/" + volume.Name); received == nil || received.Checksum != u.sums[n] {
			t.Errorf("CDI has %+v of %s, want %s", received, volume.Name, u.sums[n])
		}
	}
}

// broken: each disk is sent again from its beginning when the connection breaks, and a token that is rejected is replaced.
func (u *uploading) broken(t *testing.T) {
	u.proxy.Follow(func(number int, r *http.Request) uploads.Fault {
		switch {
		case r.Method == http.MethodPost && number%3 == 0:
			return uploads.Fault{Drop: 4096}
		case r.Method == http.MethodPost && number%3 == 1:
			return uploads.Fault{Status: http.StatusServiceUnavailable, Body: "not ready"}
		}
		return uploads.Fault{}
	})
	defer u.proxy.Follow(nil)
	code, out, errOut := u.call(t.Context(), "stormy")
	if code != 0 || out != "virtualmachinetemplate.template.kubevirt.io/stormy\n" || !strings.Contains(errOut, "Trying again: ") {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	u.complete(t, "stormy")
}

// killed: the command ends at each of its requests, whether the cluster gets it or not, and the next call continues.
func (u *uploading) killed(t *testing.T) {
	calls := 0
	for at := int64(1); ; at++ {
		ctx, kill := context.WithCancel(t.Context())
		var count atomic.Int64
		before := func(*http.Request) {
			if count.Add(1) == at {
				kill()
			}
		}
		u.before.Store(&before)
		code, out, errOut := u.call(ctx, "ghost")
		u.before.Store(nil)
		killed := ctx.Err() != nil
		kill()
		if calls++; calls > 60 {
			t.Fatalf("the command does not end: %s", errOut)
		}
		if !killed && (code != 0 || out != "virtualmachinetemplate.template.kubevirt.io/ghost\n") {
			t.Fatalf("code %d: %s%s", code, out, errOut)
		}
		if !killed {
			break
		}
	}
	u.complete(t, "ghost")
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, u.Client().List(t.Context(), volumes, client.InNamespace(catalogue), client.HasLabels{"cli.virtward.io/upload"}))
	for i := range volumes.Items {
		if metav1.GetControllerOf(&volumes.Items[i]) == nil {
			t.Errorf("%s has no owner", volumes.Items[i].Name)
		}
	}
}

// taken: what exists is neither replaced nor used.
func (u *uploading) taken(t *testing.T) {
	code, _, errOut := u.call(t.Context(), "harbour", "--network", "Shore=none")
	if code != 1 || !strings.Contains(errOut, "VirtualMachineTemplate catalogue/harbour exists, and is not of this file and these flags: use another --template-name") {
		t.Errorf("code %d: %s", code, errOut)
	}
	volume := &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "squatted-disk-2"}}
	volume.Spec.Source = &cdiv1beta1.DataVolumeSource{Upload: &cdiv1beta1.DataVolumeSourceUpload{}}
	volume.Spec.Storage = &cdiv1beta1.StorageSpec{}
	must(t, u.Client().Create(t.Context(), volume))
	code, _, errOut = u.call(t.Context(), "squatted")
	if code != 1 || !strings.Contains(errOut, "DataVolume catalogue/squatted-disk-2 exists, and is not of this file and these flags") {
		t.Errorf("code %d: %s", code, errOut)
	}
	if err := u.Client().Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "squatted"}, &v1beta1.VirtualMachineTemplate{}); !apierrors.IsNotFound(err) {
		t.Errorf("a template was created: %v", err)
	}
	content, err := os.ReadFile(u.file)
	must(t, err)
	damaged := bytes.Replace(content, []byte("KDMV"), []byte("KDMX"), 1)
	if bytes.Equal(content, damaged) {
		t.Fatal("the file has no disk")
	}
	file := u.file
	defer func() { u.file = file }()
	u.file = filepath.Join(t.TempDir(), "damaged.ova")
	must(t, os.WriteFile(u.file, damaged, 0o600))
	u.proxy.Follow(nil)
	if code, _, errOut = u.call(t.Context()); code != 1 || !strings.Contains(errOut, "the file does not have the digest of the manifest") || len(u.proxy.Requests()) > 0 {
		t.Errorf("code %d: %s, requests %v", code, errOut, u.proxy.Requests())
	}
}

// bare: the disks of a descriptor are those beside it. The same command continues only while all files are the same.
func (u *uploading) bare(t *testing.T) {
	ova := u.file
	defer func() { u.file = ova }()
	folder := t.TempDir()
	archive, err := os.Open(ova)
	must(t, err)
	defer archive.Close()
	files := tar.NewReader(archive)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		content, err := io.ReadAll(files)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(folder, filepath.Base(header.Name)), content, 0o600))
	}
	u.file = filepath.Join(folder, "harbour.ovf")
	must(t, os.Remove(filepath.Join(folder, "harbour.mf"))) // it is not what the second call is compared with
	for range 2 {
		if code, out, errOut := u.call(t.Context(), "bare"); code != 0 || out != "virtualmachinetemplate.template.kubevirt.io/bare\n" {
			t.Fatalf("code %d: %s%s", code, out, errOut)
		}
	}
	u.complete(t, "bare")
	first := filepath.Join(folder, "harbour-disk1.vmdk")
	before, err := os.Stat(first)
	must(t, err)
	var other bytes.Buffer
	must(t, vmdk.Write(&other, bytes.NewReader(bytes.Repeat([]byte("disk 7"), 3<<20)[:3<<20]), 3<<20, "harbour-disk1.vmdk"))
	must(t, os.WriteFile(first, other.Bytes(), 0o600))
	if int64(other.Len()) != before.Size() {
		t.Fatalf("the other disk has %d bytes, not %d", other.Len(), before.Size())
	}
	if code, _, errOut := u.call(t.Context(), "bare"); code != 1 || !strings.Contains(errOut, "exists, and is not of this file and these flags") {
		t.Errorf("another disk: code %d: %s", code, errOut)
	}
}

// compressed: the digest is that of the file, and the disks are those in it.
func (u *uploading) compressed(t *testing.T) {
	ova := u.file
	defer func() { u.file = ova }()
	content, err := os.ReadFile(ova)
	must(t, err)
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err = z.Write(content)
	must(t, err)
	must(t, z.Close())
	u.file = filepath.Join(t.TempDir(), "squeezed.ova.gz")
	must(t, os.WriteFile(u.file, out.Bytes(), 0o600))
	sum := fmt.Sprintf("sha256:%x", sha256.Sum256(out.Bytes()))
	if code, out, errOut := u.call(t.Context(), "--checksum", sum); code != 0 || out != "virtualmachinetemplate.template.kubevirt.io/squeezed\n" {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	u.complete(t, "squeezed")
}

// artifact: the disks of an artifact arrive as raw bytes, also when connections break, and the template is that of the artifact.
func (u *uploading) artifact(t *testing.T) {
	ova, sums := u.file, u.sums
	defer func() { u.file, u.sums = ova, sums }()
	object, err := oci.NewObject([]byte(`{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"name":"web"},"spec":{"parameters":[{"name":"NAME","generate":"expression","from":"web-[a-z]{4}"}],` +
		`"virtualMachine":{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted","dataVolumeTemplates":[{"metadata":{"name":"${NAME}-root"},"spec":{"source":{"pvc":{"name":"gold","namespace":"n"}},"storage":{}}}],` +
		`"template":{"spec":{"domain":{"devices":{"disks":[{"name":"root","disk":{"bus":"virtio"}}]}},"volumes":[{"name":"root","dataVolume":{"name":"${NAME}-root"}}]}}}}}}`))
	must(t, err)
	raw := bytes.Repeat([]byte("\x00harbour"), 1<<20)[:5<<20]
	layer, err := oci.Measure("root", bytes.NewReader(raw))
	must(t, err)
	made, err := oci.Pack(object, []oci.Descriptor{layer})
	must(t, err)
	index, err := oci.NewIndex([]*oci.Packed{made}, "")
	must(t, err)
	var out bytes.Buffer
	must(t, oci.WriteLayout(&out, index, made, func(w io.Writer, _ *oci.Descriptor) error {
		z, err := oci.NewCompressor(w)
		if err == nil {
			_, err = z.Write(raw)
		}
		return errors.Join(err, z.Close())
	}))
	u.file, u.sums = filepath.Join(t.TempDir(), "shipyard.oci.tar"), []string{fmt.Sprintf("sha256:%x", sha256.Sum256(raw))}
	must(t, os.WriteFile(u.file, out.Bytes(), 0o600))
	var posts atomic.Int64
	u.proxy.Follow(func(_ int, r *http.Request) uploads.Fault {
		if r.Method == http.MethodPost && posts.Add(1) == 1 {
			return uploads.Fault{Drop: 1 << 20}
		}
		return uploads.Fault{}
	})
	defer u.proxy.Follow(nil)
	if code, out, errOut := u.call(t.Context()); code != 0 || out != "virtualmachinetemplate.template.kubevirt.io/shipyard\n" || !strings.Contains(errOut, "Trying again: ") {
		t.Fatalf("code %d: %s%s", code, out, errOut)
	}
	u.complete(t, "shipyard")
}
