package virtualimages

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

// namespace is that of the images, which owner may edit.
const (
	namespace = "team"
	owner     = "owner"
)

// wait is the time for requests that were admitted before a deletion.
const wait = 3 * time.Second

// pool has two control planes: each test has the chart or its controllers for itself.
var pool = planes.Pool{Size: 2}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, pool.Main)) }

// fixture is a cluster with CDI's simulator and a web server of images.
type fixture struct {
	*controlplane.ControlPlane

	cdi     *simulators.CDI
	process *controlplane.Virtward
	// owner may edit the namespace, and create DataVolumes in it.
	owner client.Client
	web   *files
	// admission is the time for requests that were admitted before a deletion.
	admission time.Duration
}

// files serves files. It counts the requests for each.
type files struct {
	*httptest.Server

	mu       sync.Mutex
	files    map[string][]byte
	requests map[string]int
}

func newWeb(t *testing.T) *files {
	w := &files{files: map[string][]byte{}, requests: map[string]int{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests[r.URL.Path]++
		data, known := w.files[r.URL.Path]
		w.mu.Unlock()
		switch {
		case r.URL.Path == "/metadata":
			http.Redirect(rw, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		case known:
			http.ServeContent(rw, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(data))
		default:
			http.NotFound(rw, r)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// serve adds a file, and returns its URL.
func (w *files) serve(name string, data []byte) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files["/"+name] = data
	return w.URL + "/" + name
}

// qcow2 is the header of a disk of a size.
func qcow2(size uint64) []byte {
	data := make([]byte, 1<<16)
	copy(data, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(data[24:], size)
	return data
}

func start(t *testing.T, values map[string]any) *fixture {
	t.Helper()
	return startWith(t, values, func(*controlplane.ControlPlane) {})
}

// startWith starts the controller after a function.
func startWith(t *testing.T, values map[string]any, before func(*controlplane.ControlPlane)) *fixture {
	t.Helper()
	return startWaiting(t, values, wait, before)
}

// startWaiting starts a controller whose deletions wait a time for requests that were admitted before.
func startWaiting(t *testing.T, values map[string]any, admission time.Duration, before func(*controlplane.ControlPlane)) *fixture {
	t.Helper()
	plane := pool.Take(t)
	f := &fixture{ControlPlane: plane, web: newWeb(t), admission: admission}
	must(t, plane.EnsureNamespace(t.Context(), namespace))
	images := map[string]any{"enabled": true, "sources": map[string]any{"networks": []any{"127.0.0.0/8"}}}
	maps.Copy(images, values)
	_, err := plane.InstallVirtward(t.Context(), map[string]any{"virtualImages": images}, controlplane.Workload{})
	must(t, err)
	f.simulate(t)
	before(plane)
	f.run(t)
	f.owner = f.user(t, owner, "edit", "cdi")
	return f
}

// bare is a control plane with CDI's simulator, without a process of Virtward.
func bare(t *testing.T) *fixture {
	t.Helper()
	plane := pool.Take(t)
	must(t, plane.InstallVirtwardCRDs(t.Context()))
	must(t, plane.EnsureNamespace(t.Context(), namespace))
	f := &fixture{ControlPlane: plane, web: newWeb(t)}
	f.simulate(t)
	return f
}

// simulate starts CDI's simulator.
func (f *fixture) simulate(t *testing.T) {
	t.Helper()
	var err error
	f.cdi, err = simulators.StartCDI(t.Context(), f.ControlPlane)
	must(t, err)
	t.Cleanup(func() { must(t, f.cdi.Stop(context.Background())) })
}

// run starts the controller.
func (f *fixture) run(t *testing.T) {
	t.Helper()
	var err error
	f.process, err = f.RunVirtward(t.Context(), controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardVirtualImages,
		Args: []string{controlplane.ShortLease, "--admission-wait=" + f.admission.String()},
	})
	must(t, err)
}

// user is a user with roles in the namespace: edit is Kubernetes' role, and cdi permits to create DataVolumes.
func (f *fixture) user(t *testing.T, name string, roles ...string) client.Client {
	t.Helper()
	dataVolumes := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cdi"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes"}, Verbs: []string{"*"},
	}}}
	must(t, client.IgnoreAlreadyExists(f.Client().Create(t.Context(), dataVolumes)))
	for _, role := range roles {
		must(t, f.Client().Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		}))
	}
	config, err := f.UserConfig(name)
	must(t, err)
	scheme, err := controlplane.Scheme()
	must(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return c
}

// image creates an image as the owner. A test that fails leaves none: the next ones would exceed the limits of the namespace.
func (f *fixture) image(t *testing.T, name, src string, change func(*v1alpha1.VirtualImageSpec)) *v1alpha1.VirtualImage {
	t.Helper()
	image := &v1alpha1.VirtualImage{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.VirtualImageSpec{Src: src, Format: v1alpha1.FormatQCOW2},
	}
	if change != nil {
		change(&image.Spec)
	}
	f.eventually(t, "the role of the owner", func() error { return f.owner.Create(t.Context(), image) })
	t.Cleanup(func() {
		if t.Failed() {
			must(t, client.IgnoreNotFound(f.Client().Delete(context.Background(), image)))
		}
	})
	return image
}

// eventually repeats until there is no error.
func (f *fixture) eventually(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
	}
	logged, _ := os.ReadFile(f.process.Log())
	t.Fatalf("%s: %v\n%s", what, err, last(string(logged), 3000))
}

func last(text string, bytes int) string { return text[max(0, len(text)-bytes):] }

// becomes waits for a reason of a condition, and returns the image.
func (f *fixture) becomes(t *testing.T, name, kind, reason string) *v1alpha1.VirtualImage {
	t.Helper()
	image := &v1alpha1.VirtualImage{}
	f.eventually(t, fmt.Sprintf("image %s, condition %s", name, kind), func() error {
		if err := f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, image); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(image.Status.Conditions, kind); c == nil || c.Reason != reason {
			return fmt.Errorf("%+v, want the reason %s", image.Status, reason)
		}
		return nil
	})
	return image
}

// gone waits until an image and its objects do not exist.
func (f *fixture) gone(t *testing.T, image *v1alpha1.VirtualImage) {
	t.Helper()
	f.eventually(t, "deletion of image "+image.Name, func() error {
		left := &v1alpha1.VirtualImage{}
		err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), left)
		if err == nil {
			return fmt.Errorf("it exists: %+v", left.Status)
		}
		return client.IgnoreNotFound(err)
	})
	f.eventually(t, "the collection of objects of image "+image.Name, func() error { // the garbage collector deletes them after the image
		volumes, sources := &cdiv1beta1.DataVolumeList{}, &cdiv1beta1.DataSourceList{}
		must(t, f.Client().List(t.Context(), volumes, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelImage: string(image.UID)}))
		must(t, f.Client().List(t.Context(), sources, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelImage: string(image.UID)}))
		if len(volumes.Items)+len(sources.Items) > 0 {
			return fmt.Errorf("%d DataVolumes and %d DataSources are left", len(volumes.Items), len(sources.Items))
		}
		return nil
	})
}

// machine creates a virtual machine that clones an image.
func (f *fixture) machine(t *testing.T, name, image string) *kubevirtv1.VirtualMachine {
	t.Helper()
	vm := machineOf(name, image)
	must(t, f.Client().Create(t.Context(), vm))
	return vm
}

func machineOf(name, image string) *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	halted := kubevirtv1.RunStrategyHalted
	vm.Spec.RunStrategy = &halted
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	vm.Spec.Template.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *quantity("1Gi")}
	vm.Spec.Template.Spec.Domain.Devices.Disks = []kubevirtv1.Disk{{Name: "root", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: "virtio"}}}}
	vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: name + "-root"}}}}
	template := kubevirtv1.DataVolumeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: name + "-root"}}
	template.Spec.SourceRef = &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: image}
	template.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *quantity("10Gi")}}}
	vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{template}
	return vm
}

func denied(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
