package virtualimages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/simulators"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// TestImages: images in the cluster, with the process and the rights of the chart.
func TestImages(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{"limits": map[string]any{"imagesPerNamespace": 20, "bytesPerNamespace": "1Ti", "imports": 12}})
	t.Run("import, use and deletion", f.life)
	t.Run("faulty sources", f.sources)
	t.Run("sources at admission", f.addresses)
	t.Run("rights", f.rights)
	t.Run("a name that is taken", f.taken)
	t.Run("retries", f.retries)
	t.Run("users of other namespaces", f.holders)
	t.Run("many images", f.many)
	t.Run("uploads", f.uploads)
	t.Run("metrics", f.metrics)
	t.Run("a restart", f.restart)
	t.Run("virtual machines and deletions", func(t *testing.T) { f.race(t, 16) })
}

func (f *fixture) life(t *testing.T) {
	image := f.image(t, "fedora", f.web.serve("fedora.qcow2", qcow2(5<<30)), nil)
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
	want := v1alpha1.VirtualImageStatus{
		ID: image.Status.ID, Ready: true, Size: "5.37gb", SizeBytes: 5 << 30, Progress: "100%", Attempt: 1, ImageClassName: "cluster",
		ObservedGeneration: 1, Conditions: image.Status.Conditions,
	}
	if diff := cmp.Diff(want, image.Status); diff != "" || image.Status.ID == "" {
		t.Error(diff)
	}
	vm := f.machine(t, "web", "fedora")
	image = f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
	if diff := cmp.Diff([]string{"team/web"}, image.Status.Usage.VirtualMachines); diff != "" || !image.Status.Usage.InUse {
		t.Error(diff)
	}
	must(t, f.owner.Delete(t.Context(), image))
	f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "InUse")
	second := f.machine(t, "web2", "fedora") // while it is in use, others may use it too
	f.eventually(t, "the second user", func() error {
		if err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(image), image); err != nil {
			return err
		}
		if got := image.Status.Usage.VirtualMachines; len(got) != 2 || !image.Status.Ready {
			return fmt.Errorf("users %v, ready %v", got, image.Status.Ready)
		}
		return nil
	})
	since := time.Now()
	must(t, f.Client().Delete(t.Context(), vm))
	must(t, f.Client().Delete(t.Context(), second))
	image = f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "Draining")
	if image.Status.Ready {
		t.Error("it is ready while it is deleted")
	}
	f.gone(t, image)
	if waited := time.Since(since); waited < wait {
		t.Errorf("it is deleted after %s", waited)
	}
}

func (f *fixture) sources(t *testing.T) {
	for name, test := range map[string]struct {
		src            string
		change         func(*v1alpha1.VirtualImageSpec)
		reason, within string
	}{
		"html":      {src: f.web.serve("page.html", []byte("<html><body>Log in</body></html>")), reason: "FormatMismatch", within: "HTML"},
		"raw":       {src: f.web.serve("a.raw", make([]byte, 1<<16)), reason: "FormatMismatch", within: "has the format raw, not qcow2"},
		"backing":   {src: f.web.serve("b.qcow2", append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x01\x00"), make([]byte, 200)...)), reason: "FormatMismatch", within: "backing file"},
		"metadata":  {src: f.web.URL + "/metadata", reason: "SourceNotPermitted", within: "not public"},
		"ami":       {src: f.web.URL + "/x", change: func(s *v1alpha1.VirtualImageSpec) { s.Format = v1alpha1.FormatAMI }, reason: "Unsupported", within: "OpenStack"},
		"container": {src: f.web.URL + "/x", change: func(s *v1alpha1.VirtualImageSpec) { s.ContainerFormat = "ovf" }, reason: "Unsupported", within: "use bare"},
		"small":     {src: f.web.serve("c.qcow2", qcow2(20<<30)), change: func(s *v1alpha1.VirtualImageSpec) { s.MinDisk = new(int32(10)) }, reason: "StorageTooSmall", within: "the disk has 20Gi, more than the volume of 10Gi"},
		"size":      {src: f.web.serve("d.qcow2", qcow2(0)), reason: "SizeUnknown", within: "spec.minDisk"},
	} {
		t.Run(name, func(t *testing.T) {
			image := f.image(t, "bad-"+name, test.src, test.change)
			image = f.becomes(t, image.Name, v1alpha1.ConditionReady, test.reason)
			if c := image.Status.Conditions; !strings.Contains(fmt.Sprint(c), test.within) {
				t.Errorf("%+v, want %q", c, test.within)
			}
			must(t, f.owner.Delete(t.Context(), image))
		})
	}
}

// addresses: a URL whose text has an address that is not public is denied, however it is written.
func (f *fixture) addresses(t *testing.T) {
	f.image(t, "permitted", f.web.serve("permitted.qcow2", qcow2(1<<30)), nil)
	const host, address = "virtual-image-host: spec.src", "virtual-image-address: spec.src"
	for src, want := range map[string]string{ //nolint:gosec // no credentials
		"http://10.96.0.1/disk":                   address,
		"http://169.254.169.254/latest/meta-data": address,
		"http://169.254.169.254./":                address,
		"http://[::1]:6443/":                      address,
		"http://[fd00:ec2::254]/":                 address,
		"http://[FE80::1]/":                       address,
		"http://[64:ff9b::7f00:1]/":               address,
		"http://0.0.0.0/":                         address,
		"http://224.0.0.1/":                       address,
		"http://255.255.255.255/":                 address,
		"http://100.100.100.200/":                 address,
		"http://[5f00::1]/":                       address,
		"http://[3fff::1]/":                       address,
		"http://[100:0:0:1::1]/":                  address,
		"http://[::ffff:169.254.169.254]/":        host,
		"http://[::ffff:a9fe:a9fe]/":              host,
		"http://[fe80::1%25eth0]/":                host,
		"http://0177.0.0.1/":                      host,
		"http://0251.0376.0251.0376/":             host,
		"http://0xA9FEA9FE/":                      host,
		"http://2852039166/":                      host,
		"http://127.1/":                           host,
		"http://127.0.0.1.0x1/":                   host,
		"http://b\u00fccher.example/":             host,
		"http://\uff11\uff16\uff19.254.169.254/":  host,
		"http://me:secret@example.com/":           "must not contain credentials",
		"http://example.com@169.254.169.254/":     "must not contain credentials",
		"file:///etc/passwd":                      "must be a URL such as",
		"gopher://example.com/":                   "must be a URL such as",
		"http:///disk":                            "must be a URL such as",
		"HTTP://10.96.0.1/disk":                   "spec.src",
		"http://10.96.0.1:80#@example.com/":       "spec.src",
		"http://10.96.0.1\\@example.com/":         "spec.src",
	} {
		image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "attack"}, Spec: v1alpha1.VirtualImageSpec{Src: src, Format: v1alpha1.FormatRaw}}
		if err := f.owner.Create(t.Context(), image, client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", src, err, want)
		}
	}
	for _, src := range []string{"http://93.184.215.14/disk", "https://xn--bcher-kva.example/disk", "https://EXAMPLE.com./disk", "http://[2606:4700::1111]/disk", "http://127.0.0.1:1/disk", "http://1.example/disk"} {
		image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "accepted"}, Spec: v1alpha1.VirtualImageSpec{Src: src, Format: v1alpha1.FormatRaw}}
		if err := f.owner.Create(t.Context(), image, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
	must(t, f.owner.Delete(t.Context(), &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "permitted"}}))
}

// rights: what an author of an image may not do, Virtward does not do for her.
func (f *fixture) rights(t *testing.T) {
	without := f.user(t, "editor", "edit")
	image := func(name string) *v1alpha1.VirtualImage {
		return &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.VirtualImageSpec{Src: f.web.URL, Format: v1alpha1.FormatRaw}}
	}
	f.eventually(t, "the role of the editor", func() error {
		err := without.Create(t.Context(), image("denied"))
		if err == nil || !strings.Contains(err.Error(), "virtual-image-imports: spec.src") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
	reader := f.user(t, "reader", "view", "cdi")
	denied(t, reader.Create(t.Context(), image("denied")), "cannot create resource")
	secret := image("secret")
	secret.Spec.SecretRef = "of-others" // edit of Kubernetes may get Secrets: a role without it may not
	author := f.user(t, "author", "virtward-virtualimages-edit", "cdi")
	f.eventually(t, "the role of the author", func() error {
		err := author.Create(t.Context(), secret.DeepCopy())
		if err == nil || !strings.Contains(err.Error(), "virtual-image-secret: spec.secretRef") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
	authorities := image("authorities")
	authorities.Spec.CertConfigMap = "of-others"
	denied(t, author.Create(t.Context(), authorities), "virtual-image-authorities: spec.certConfigMap")
	own := f.image(t, "own", f.web.serve("own.qcow2", qcow2(1<<30)), nil)
	own = f.becomes(t, own.Name, v1alpha1.ConditionReady, "Ready")
	stripped := own.DeepCopy()
	stripped.Finalizers = nil
	denied(t, f.owner.Update(t.Context(), stripped), "virtual-image-finalizer: metadata.finalizers")
	forged := own.DeepCopy()
	forged.Status.Ready = false
	denied(t, f.Client().Status().Update(t.Context(), forged), "virtual-image-status: status")
	must(t, f.owner.Delete(t.Context(), own))
}

func (f *fixture) taken(t *testing.T) {
	foreign := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}}
	foreign.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Namespace: namespace, Name: "other"}
	must(t, f.Client().Create(t.Context(), foreign))
	image := f.image(t, "shared", f.web.serve("shared.qcow2", qcow2(1<<30)), nil)
	image = f.becomes(t, image.Name, v1alpha1.ConditionReady, "NameTaken")
	must(t, f.owner.Delete(t.Context(), image))
	f.gone(t, image)
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	if foreign.Spec.Source.PVC.Name != "other" || foreign.DeletionTimestamp != nil {
		t.Errorf("the other DataSource changed: %+v", foreign)
	}
}

// retries: a failed import is deleted and begun again, and each attempt has an identifier of its own.
func (f *fixture) retries(t *testing.T) {
	failures := 2
	f.cdi.Follow(func(o client.Object) simulators.Verdict {
		if strings.HasPrefix(o.GetName(), "flaky-") && failures > 0 {
			failures--
			return simulators.Verdict{Failure: "unable to connect"}
		}
		return simulators.Verdict{}
	})
	defer f.cdi.Follow(nil)
	image := f.image(t, "flaky", f.web.serve("flaky.qcow2", qcow2(1<<30)), nil)
	image = f.becomes(t, image.Name, v1alpha1.ConditionImported, "Imported")
	if image.Status.Attempt != 3 {
		t.Errorf("attempt %d", image.Status.Attempt)
	}
	must(t, f.owner.Delete(t.Context(), image))
	f.gone(t, image)
}

// many: at most three of the namespace are imported at the same time, and no more than the limit of the namespace at all.
func (f *fixture) many(t *testing.T) {
	f.cdi.Follow(func(client.Object) simulators.Verdict { return simulators.Verdict{Wait: true} })
	f.eventually(t, "the deletion of the images before", func() error {
		list := &v1alpha1.VirtualImageList{}
		must(t, f.Client().List(t.Context(), list, client.InNamespace(namespace)))
		if len(list.Items) > 0 {
			return fmt.Errorf("%d images", len(list.Items))
		}
		return nil
	})
	url := f.web.serve("many.qcow2", qcow2(1<<30))
	var all []*v1alpha1.VirtualImage
	for i := range 24 {
		all = append(all, f.image(t, fmt.Sprintf("many-%02d", i), url, nil))
	}
	volumes := &cdiv1beta1.DataVolumeList{}
	begun := func() int {
		must(t, f.Client().List(t.Context(), volumes, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelImage}))
		return len(volumes.Items)
	}
	f.eventually(t, "the first imports", func() error {
		if n := begun(); n != 3 {
			return fmt.Errorf("%d imports", n)
		}
		return nil
	})
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		if n := begun(); n > 3 {
			t.Fatalf("%d imports at the same time", n)
		}
	}
	f.cdi.Follow(nil)
	imported := f.imported(t, 20, 4)
	must(t, f.owner.Delete(t.Context(), imported))
	f.gone(t, imported)
	f.imported(t, 20, 3)
	must(t, f.owner.DeleteAllOf(t.Context(), &v1alpha1.VirtualImage{}, client.InNamespace(namespace)))
	for _, image := range all {
		f.gone(t, image)
	}
}

// imported waits until so many images are imported, and so many wait because of the limit. It returns an imported one.
func (f *fixture) imported(t *testing.T, want, limited int) (one *v1alpha1.VirtualImage) {
	t.Helper()
	f.eventually(t, "the images", func() error {
		list := &v1alpha1.VirtualImageList{}
		must(t, f.Client().List(t.Context(), list, client.InNamespace(namespace)))
		reasons := map[string]int{}
		for i := range list.Items {
			if c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionImported); c != nil {
				reasons[c.Reason]++
				if c.Reason == "Imported" {
					one = &list.Items[i]
				}
			}
		}
		if reasons["Imported"] != want || reasons["LimitExceeded"] != limited {
			return fmt.Errorf("%v", reasons)
		}
		return nil
	})
	return one
}

// restart: a process that was killed knows the users of an image again before it deletes it.
func (f *fixture) restart(t *testing.T) {
	image := f.image(t, "kept", f.web.serve("kept.qcow2", qcow2(1<<30)), nil)
	f.becomes(t, image.Name, v1alpha1.ConditionReady, "Ready")
	vm := f.machine(t, "user", "kept")
	f.becomes(t, image.Name, v1alpha1.ConditionInUse, "InUse")
	f.process.Kill()
	must(t, f.owner.Delete(t.Context(), image))
	must(t, f.process.Start(t.Context()))
	image = f.becomes(t, image.Name, v1alpha1.ConditionDeleting, "InUse")
	if !image.Status.Ready {
		t.Error("it is not ready")
	}
	must(t, f.Client().Delete(t.Context(), vm))
	f.gone(t, image)
}
