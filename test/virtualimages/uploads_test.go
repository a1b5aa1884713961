package virtualimages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli"
	plans "github.com/virtward/virtward/virtualimages"

	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/simulators/uploads"
	"github.com/virtward/virtward/test/soak"
)

// uploader calls the command as a user.
type uploader struct {
	*fixture

	proxy      *uploads.Proxy
	kubeconfig string
}

// called is the outcome of a command.
type called struct {
	code        int
	out, errOut string
}

// call runs kubectl virtward image upload. A command that waits for what does not come is interrupted, and its output says what it
// waits for.
func (u *uploader) call(ctx context.Context, args ...string) called {
	ctx, cancel := context.WithTimeout(ctx, 2*await.Patience)
	defer cancel()
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}
	code := cli.Run(ctx, "development", append([]string{"kubectl-virtward", "image", "upload", "--kubeconfig", u.kubeconfig, "-n", namespace}, args...), streams)
	return called{code, out.String(), errOut.String()}
}

// file writes a disk of 5 GiB in QCOW2, in a file of some MiB. It returns the name and the checksum.
func file(t *testing.T, name string, mebibytes int) (path, sum string) {
	t.Helper()
	data := append(qcow2(5<<30), bytes.Repeat([]byte(name+"\x00"), mebibytes<<20/(len(name)+1))...)
	path = filepath.Join(t.TempDir(), name+".qcow2")
	must(t, os.WriteFile(path, data, 0o600))
	hash := sha256.Sum256(data)
	return path, "sha256:" + hex.EncodeToString(hash[:])
}

// uploader prepares uploads of a user without rights in the namespace.
func (f *fixture) uploader(t *testing.T) *uploader {
	t.Helper()
	proxy, err := f.cdi.ServeUploads(t.Context())
	must(t, err)
	rule := func(group, resource, verb string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}}
	}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cdi-config"}, Rules: rule("cdi.kubevirt.io", "cdiconfigs", "get")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cdi-uploads"}, Rules: rule("upload.cdi.kubevirt.io", "uploadtokenrequests", "create")},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "cdi-config"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cdi-config"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		},
	} {
		must(t, f.Client().Create(t.Context(), object))
	}
	u := &uploader{fixture: f, proxy: proxy}
	config, err := f.UserConfig("uploader")
	must(t, err)
	u.kubeconfig, err = f.WriteKubeconfig("uploader", config)
	must(t, err)
	return u
}

// uploads: a user uploads files with her own rights, whatever CDI and the network do.
func (f *fixture) uploads(t *testing.T) {
	u := f.uploader(t)
	t.Run("without rights", u.rights)
	t.Run("a file and its image", u.life)
	t.Run("faults", u.faults)
	t.Run("an interrupted upload", u.interrupted)
	u.proxy.Follow(nil)
}

// rights: nothing is created for a user without create on DataVolumes, and nothing is sent without create on tokens. With them,
// the same command continues.
func (u *uploader) rights(t *testing.T) {
	path, sum := file(t, "rights", 1)
	u.eventually(t, "the rights of the uploader", func() error {
		if got := u.call(t.Context(), "rights", "--file", path); got.code != 1 || !strings.Contains(got.errOut, "virtualimages") || !strings.Contains(got.errOut, "forbidden") {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	u.user(t, "uploader", "virtward-virtualimages-edit")
	u.eventually(t, "the guard", func() error {
		if got := u.call(t.Context(), "rights", "--file", path); got.code != 1 || !strings.Contains(got.errOut, "virtual-image-imports: spec.upload: this image is imported for you: you need create on datavolumes.cdi.kubevirt.io in the namespace team") {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	u.user(t, "uploader", "cdi")
	u.eventually(t, "a denied token", func() error {
		if got := u.call(t.Context(), "rights", "--file", path); got.code != 1 || !strings.Contains(got.errOut, "requesting a token of CDI: ") || !strings.Contains(got.errOut, "uploadtokenrequests") {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	if requests := fmt.Sprint(u.proxy.Requests()); strings.Contains(requests, http.MethodPost) {
		t.Errorf("the proxy has a file: %v", requests)
	}
	image := u.becomes(t, "rights", v1alpha1.ConditionImported, plans.ReasonUploadPending)
	if image.Status.SizeBytes != 5<<30 {
		t.Errorf("the limits count %d bytes of an image that waits for its file", image.Status.SizeBytes)
	}
	u.user(t, "uploader", "cdi-uploads")
	u.eventually(t, "the upload", func() error {
		if got := u.call(t.Context(), "rights", "--file", path, "--wait"); got.code != 0 || !strings.Contains(got.errOut, "The file is uploaded: "+sum) {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	must(t, u.owner.Delete(t.Context(), image))
}

func (u *uploader) life(t *testing.T) {
	path, sum := file(t, "fedora", 3)
	got := u.call(t.Context(), "uploaded", "--file", path, "--wait", "--timeout", "5m", "--checksum", sum)
	if got.code != 0 || got.out != "virtualimage.kupenstack.io/uploaded ready (5.37gb)\n" || !strings.Contains(got.errOut, "Uploading: 100% of ") || !strings.Contains(got.errOut, sum) {
		t.Fatalf("%+v", got)
	}
	image := u.becomes(t, "uploaded", v1alpha1.ConditionReady, "Ready")
	volume, source := &cdiv1beta1.DataVolume{}, &cdiv1beta1.DataSource{}
	key := client.ObjectKey{Namespace: namespace, Name: plans.VolumeName(image.Name, image.UID)}
	must(t, u.Client().Get(t.Context(), key, volume))
	must(t, u.Client().Get(t.Context(), client.ObjectKeyFromObject(image), source))
	received := u.proxy.Received(key.String())
	if volume.Spec.Source.Upload == nil || received == nil || received.Checksum != sum || source.Spec.Source.PVC.Name != key.Name {
		t.Errorf("%+v, %+v, %+v", volume.Spec.Source, received, source.Spec.Source)
	}
	for name, change := range map[string][]string{
		"it is complete, and an image is not replaced": {"uploaded", "--file", path},
		"it waits for another file":                    {"waits", "--file", path},
		"it is imported from a URL":                    {"imported", "--file", path},
	} {
		switch change[0] {
		case "waits":
			u.image(t, "waits", "", func(s *v1alpha1.VirtualImageSpec) {
				s.Upload, s.Storage = &v1alpha1.VirtualImageUpload{}, &v1alpha1.VirtualImageStorage{StorageClassName: "other"}
			})
		case "imported":
			u.image(t, "imported", u.web.serve("imported.qcow2", qcow2(1<<30)), nil)
		}
		if got := u.call(t.Context(), change...); got.code != 1 || !strings.Contains(got.errOut, name) {
			t.Errorf("%+v, want %s", got, name)
		}
	}
	if c := u.becomes(t, "waits", v1alpha1.ConditionReady, "SizeUnknown"); c.Status.Ready { // neither storage nor minDisk
		t.Errorf("%+v", c.Status)
	}
	for _, name := range []string{"uploaded", "waits", "imported"} {
		must(t, u.owner.Delete(t.Context(), &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
}

// faults: nothing is created for a file that CDI rejects, and what breaks off is complete in the end, once.
func (u *uploader) faults(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.img")
	must(t, os.WriteFile(page, []byte("<html><body>Log in</body></html>"), 0o600))
	disk, _ := file(t, "disk", 1)
	for want, args := range map[string][]string{
		"the file is HTML or XML":                       {"--file", page},
		"the file has the format qcow2, not raw":        {"--file", disk, "--format", "raw"},
		"--storage 1Gi: the disk has 5Gi":               {"--file", disk, "--storage", "1Gi"},
		"--checksum: " + disk + " has sha256:":          {"--file", disk, "--checksum", "sha256:" + strings.Repeat("0", 64)},
		"cannot be verified: give its authority":        {"--file", disk, "--uploadproxy-ca", caOfOthers(t, u)},
		"the URL of the upload proxy has no TLS":        {"--file", disk, "--uploadproxy-url", "http://127.0.0.1:1"},
		"is not a regular file":                         {"--file", t.TempDir()},
		"give the right one with --uploadproxy-url":     {"--file", disk, "--uploadproxy-url", "https://cdi.invalid"},
		"no disk that virtual machines of this cluster": {"--file", disk, "--format", "ami"},
	} {
		got := u.call(t.Context(), append([]string{"bad"}, args...)...)
		if got.code == 0 || !strings.Contains(got.errOut, want) {
			t.Errorf("%+v, want %s", got, want)
		}
		if err := u.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "bad"}, &v1alpha1.VirtualImage{}); !apierrors.IsNotFound(err) {
			t.Fatalf("%s: an image exists: %v", want, err)
		}
	}
	var posts atomic.Int64
	u.proxy.Follow(func(number int, r *http.Request) uploads.Fault {
		switch {
		case number == 2:
			return uploads.Fault{Status: http.StatusServiceUnavailable}
		case number == 3:
			return uploads.Fault{Status: http.StatusUnauthorized}
		case r.Method == http.MethodPost && posts.Add(1) == 1:
			return uploads.Fault{Drop: 1 << 20}
		}
		return uploads.Fault{}
	})
	u.cdi.Follow(waitsOnce("flaky-"))
	defer u.cdi.Follow(nil)
	path, sum := file(t, "flaky", 3)
	got := u.call(t.Context(), "flaky", "--file", path, "--wait")
	if got.code != 0 || !strings.Contains(got.errOut, "Trying again: the upload proxy answers 503 Service Unavailable\n") || !strings.Contains(got.errOut, sum) {
		t.Errorf("%+v", got)
	}
	image := u.becomes(t, "flaky", v1alpha1.ConditionReady, "Ready")
	volumes, _ := u.objectsOf(t, "flaky")
	if received := u.proxy.Received(namespace + "/" + plans.VolumeName(image.Name, image.UID)); len(volumes) != 1 || received == nil || received.Checksum != sum || image.Status.Attempt != 1 || posts.Load() != 2 {
		t.Errorf("%d volumes, %+v, %d requests with the file, %+v", len(volumes), received, posts.Load(), image.Status)
	}
	must(t, u.owner.Delete(t.Context(), image))
}

// waitsOnce makes CDI wait with the first reconciliations of a volume.
func waitsOnce(prefix string) simulators.Script {
	var mu sync.Mutex
	left := 3
	return func(o client.Object) simulators.Verdict {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(o.GetName(), prefix) || left == 0 {
			return simulators.Verdict{}
		}
		left--
		return simulators.Verdict{Wait: true}
	}
}

// caOfOthers is a certificate that does not sign that of the proxy.
func caOfOthers(t *testing.T, u *uploader) string {
	t.Helper()
	_, bundle, err := u.ServingCertificate("other")
	must(t, err)
	path := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(path, bundle, 0o600))
	return path
}

// interrupted: Ctrl-C in the middle of the file. The message says how to continue, and the next upload begins at the start.
func (u *uploader) interrupted(t *testing.T) {
	path, sum := file(t, "stopped", 8)
	ctx, interrupt := context.WithCancel(t.Context())
	u.proxy.Follow(func(_ int, r *http.Request) uploads.Fault {
		if r.Method == http.MethodPost {
			_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
			interrupt()
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return uploads.Fault{}
	})
	got := u.call(ctx, "stopped", "--file", path)
	if got.code != 1 || !strings.Contains(got.errOut, "interrupted: VirtualImage team/stopped waits for its file: run the same command again to upload it from its start") {
		t.Errorf("%+v", got)
	}
	u.proxy.Follow(nil)
	image := u.becomes(t, "stopped", v1alpha1.ConditionReady, plans.ReasonUploadPending)
	if got := u.call(t.Context(), "stopped", "--file", path, "-o", "name"); got.code != 0 || got.out != "virtualimage.kupenstack.io/stopped\n" || !strings.Contains(got.errOut, sum) {
		t.Errorf("%+v", got)
	}
	u.becomes(t, "stopped", v1alpha1.ConditionReady, "Ready")
	must(t, u.owner.Delete(t.Context(), image))
}

// TestSoakUpload uploads 2 GiB with the built command, and watches its memory.
func TestSoakUpload(t *testing.T) {
	soak.Only(t)
	const size, most = 2 << 30, 80_000
	u := start(t, nil).uploader(t)
	u.user(t, "uploader", "virtward-virtualimages-edit", "cdi", "cdi-uploads")
	path := filepath.Join(t.TempDir(), "large.qcow2")
	must(t, os.WriteFile(path, qcow2(5<<30), 0o600))
	must(t, os.Truncate(path, size)) // the rest has no blocks
	var out bytes.Buffer
	command := exec.CommandContext(t.Context(), u.Binary("kubectl-virtward"), "image", "upload", "large", "--file", path, "--kubeconfig", u.kubeconfig, "-n", namespace, "--wait")
	command.Stdout, command.Stderr = &out, &out
	u.eventually(t, "the rights of the uploader", func() error {
		if got := u.call(t.Context(), "large", "--file", path, "--dry-run=server"); got.code != 0 {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	began, highest := time.Now(), 0
	must(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	var err error
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-time.After(20 * time.Millisecond):
			if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid)); err == nil {
				var kilobytes int
				if _, rest, found := strings.Cut(string(status), "RssAnon:"); found {
					_, _ = fmt.Sscan(rest, &kilobytes) // it has ended meanwhile
				}
				highest = max(highest, kilobytes)
			}
		}
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	image := u.becomes(t, "large", v1alpha1.ConditionReady, "Ready")
	received := u.proxy.Received(namespace + "/" + plans.VolumeName(image.Name, image.UID))
	t.Logf("2 GiB in %s, RssAnon at most %d MB", time.Since(began).Round(time.Second), highest/1000)
	if highest == 0 || highest > most || received == nil || received.Bytes != size {
		t.Errorf("%d kB, received %+v", highest, received)
	}
}
