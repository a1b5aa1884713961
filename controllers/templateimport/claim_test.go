package templateimport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/importserver"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/kills"
)

// nodes run the pods of claims in this process: each serves a folder with the key of its Secret, at an address of its own.
type nodes struct {
	folder string
	// exit is the code with which pods end that copy a file; 0 for that of the copy.
	exit transfer.StageExit
	// copying answers for pods that copy a file, which do not end meanwhile; nil for pods that end.
	copying http.HandlerFunc
	// stalled tells that no pod starts.
	stalled bool
	// ending is how many times a pod that is deleted is seen before it is gone, and seen counts that.
	ending int
	seen   map[types.UID]int
	// started are the suffixes of the pods, in their order.
	started []string
	stops   map[types.UID]func()
}

// run starts the pods that have all their objects, and ends those that do not exist.
func (n *nodes) run(t *testing.T, c *cluster) {
	t.Helper()
	pods := &corev1.PodList{}
	must(t, c.server.List(t.Context(), pods))
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil {
			if n.seen[pod.UID]++; n.seen[pod.UID] > n.ending {
				pod.Finalizers = nil
				must(t, c.server.Update(t.Context(), pod))
			}
			continue
		}
		there[pod.UID] = true
		secret := &corev1.Secret{}
		suffix := imports.Servers.Suffix(pod)
		err := c.server.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: imports.Servers.Name(suffix)}, secret)
		if n.stalled || apierrors.IsNotFound(err) {
			continue
		}
		must(t, err)
		if imports.IsStager(suffix) && n.copying == nil {
			n.stage(t, c, pod, secret)
			continue
		}
		if n.stops[pod.UID] != nil {
			continue
		}
		n.started = append(n.started, suffix)
		if n.ending > 0 {
			pod.Finalizers = []string{"example.com/kubelet"}
			must(t, c.server.Update(t.Context(), pod))
		}
		var ip string
		ip, n.stops[pod.UID] = n.serve(t, secret)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, ContainerStatuses: []corev1.ContainerStatus{{Name: "server", Ready: true}}}
		must(t, c.server.Status().Update(t.Context(), pod))
	}
	for uid, stop := range n.stops {
		if !there[uid] {
			stop()
			delete(n.stops, uid)
		}
	}
}

// serve runs the server of a Secret.
func (n *nodes) serve(t *testing.T, secret *corev1.Secret) (ip string, stop func()) {
	t.Helper()
	plan, err := transfer.Parse(secret.Data["plan.json"])
	must(t, err)
	plan.Volume.Folder = n.folder
	server, err := importserver.New(importserver.Options{Plan: plan, Token: string(secret.Data["token"]), Log: logr.Discard(), Metrics: prometheus.NewRegistry()})
	must(t, err)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route := server.Route(r); route != nil {
			route.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
	if plan.Stage != nil {
		handler = n.copying
	}
	certificate, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	must(t, err)
	var listener net.Listener
	for listener == nil { // another test can have the address
		ip = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)) //nolint:gosec // a test
		if listener, err = net.Listen("tcp", fmt.Sprintf("%s:%d", ip, servers.Port)); err != nil && !strings.Contains(err.Error(), "in use") {
			t.Fatal(err)
		}
	}
	running := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}}
	go func() { _ = running.ServeTLS(listener, "", "") }() // it ends with the test
	stop = func() { _ = running.Close() }
	t.Cleanup(stop)
	return ip, stop
}

// newClaim is a cluster whose import has a claim with a file.
func newClaim(t *testing.T, name string, file []byte, change ...func(*v1beta1.VirtualMachineTemplateImport)) *cluster {
	t.Helper()
	c := newClusterAt(t, time.Now(), nil, append( // certificates of pods are valid now
		[]func(*v1beta1.VirtualMachineTemplateImport){func(r *v1beta1.VirtualMachineTemplateImport) {
			r.Spec.Source = v1beta1.ImportSource{PVC: &v1beta1.ImportPVC{Name: "upload"}}
		}}, change...)...)
	c.nodes = &nodes{folder: t.TempDir(), stops: map[types.UID]func(){}, seen: map[types.UID]int{}}
	must(t, os.WriteFile(filepath.Join(c.nodes.folder, name), file, 0o600))
	must(t, c.server.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "upload"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
	}))
	return c
}

// padded is a file as CDI writes it into a volume.
func padded(file []byte) []byte { return append(slices.Clone(file), make([]byte, 100_000)...) }

// readers reports of each pod that started whether it served no disks.
func (n *nodes) readers() (readers []bool) {
	for _, suffix := range n.started {
		readers = append(readers, imports.IsReader(suffix))
	}
	return readers
}

// claim changes the claim.
func (c *cluster) claim(t *testing.T, change func(*corev1.PersistentVolumeClaim)) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "upload"}, claim))
	change(claim)
	must(t, c.server.Update(t.Context(), claim))
}

// TestClaim holds what an import from a claim creates: a pod that the controller reads the archive from, and then one that serves the
// disks, which the plan has with the digests of the manifest.
func TestClaim(t *testing.T) {
	file := ova(t, descriptor, true, false)
	c := newClaim(t, "disk.img", padded(file), func(r *v1beta1.VirtualMachineTemplateImport) {
		r.Spec.Verify, r.Spec.Checksum = v1beta1.ImportVerifyRequire, "sha256:"+sumOf(string(file))
	})
	c.phase = cdiv1beta1.ImportInProgress
	all := unbounded()
	c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "25%" })
	if diff := cmp.Diff([]bool{true, false}, c.nodes.readers()); diff != "" {
		t.Errorf("pods without disks (-want +got):\n%s", diff)
	}
	var pod *corev1.Pod
	var plan *transfer.Plan
	for _, o := range c.objects(t) {
		switch of := o.(type) {
		case *corev1.Pod:
			pod = of
		case *corev1.Secret:
			if data := of.Data["plan.json"]; data != nil {
				var err error
				plan, err = transfer.Parse(data)
				must(t, err)
			}
		}
	}
	if v := pod.Spec.Volumes[1].PersistentVolumeClaim; v == nil || v.ClaimName != "upload" || !v.ReadOnly {
		t.Errorf("got the volumes %+v", pod.Spec.Volumes)
	}
	if f := plan.Files[0]; !f.Volume || f.Size != int64(len(padded(file))) || f.Validator == "" || plan.Disks[0].Parts[0].Digest == "" {
		t.Errorf("got the plan %+v", plan)
	}
	if s := c.stored(t).Status.Source; !s.Verified || s.Size != int64(len(padded(file))) {
		t.Errorf("got the source %+v", s)
	}
	if text := fmt.Sprint(pod, c.stored(t), c.told); strings.Contains(text, string(token(t, c))) {
		t.Error("an object that others can read has the token")
	}
	c.endsWhole(t, all)
}

// endsWhole imports the disk, and holds that the import completes and leaves the template and its volume.
func (c *cluster) endsWhole(t *testing.T, connection *kills.Connection) {
	t.Helper()
	c.imported(t)
	c.drive(t, connection)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v, afterwards (-want +got):\n%s", c.completed(t), diff)
	}
}

// imported says that CDI has imported the disk.
func (c *cluster) imported(t *testing.T) {
	t.Helper()
	dv := &cdiv1beta1.DataVolume{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay-disk-1"}, dv))
	dv.Status.Phase = cdiv1beta1.Succeeded
	must(t, c.server.Status().Update(t.Context(), dv))
}

// token is that of the present pod.
func token(t *testing.T, c *cluster) []byte {
	t.Helper()
	for _, o := range c.objects(t) {
		if secret, is := o.(*corev1.Secret); is && secret.Data["token"] != nil {
			return secret.Data["token"]
		}
	}
	t.Fatal("no token")
	return nil
}

// TestClaimKills holds that an import from a claim converges after a kill at each write, whether its answer arrives or not: another process
// does not know the key of the pod.
func TestClaimKills(t *testing.T) {
	t.Parallel()
	file := padded(ova(t, descriptor, true, false))
	k := &killed{begin: func(t *testing.T) *cluster { return newClaim(t, "quay.ova", file, require) }, want: whole, least: 20}
	k.converges(t)
}

// TestClaimDeletion holds that an import from a claim which is deleted after each write leaves nothing, or the whole template.
func TestClaimDeletion(t *testing.T) {
	t.Parallel()
	file := padded(ova(t, descriptor, true, false))
	k := &killed{begin: func(t *testing.T) *cluster { return newClaim(t, "quay.ova", file) }, want: whole, least: 20}
	k.leavesNothing(t)
}

// TestClaimEnds holds why imports from claims fail, and that nothing of them is left.
func TestClaimEnds(t *testing.T) {
	good := ova(t, descriptor, true, false)
	for name, test := range map[string]struct {
		file            string
		content         []byte
		change          func(*v1beta1.VirtualMachineTemplateImport)
		prepare         func(*testing.T, *cluster)
		reason, message string
	}{
		"no file":      {file: "notes.txt", reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.pvc.path: the claim has no such file"},
		"another file": {file: "disk.img", content: good, change: func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Source.PVC.Path = "a/b.ova" }, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.pvc.path: the claim has no such file"},
		"several files": {file: "a.ova", content: good, prepare: func(t *testing.T, c *cluster) {
			must(t, os.WriteFile(filepath.Join(c.nodes.folder, "b.ova"), good, 0o600))
		}, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.pvc.path: the claim has several files"},
		"a link": {
			file: "a.ova", content: good, change: func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Source.PVC.Path = "b.ova" },
			prepare: func(t *testing.T, c *cluster) { must(t, os.Symlink("a.ova", filepath.Join(c.nodes.folder, "b.ova"))) },
			reason:  v1beta1.ReasonInvalidConfiguration, message: "spec.source.pvc.path: it must lead to a file, without links",
		},
		"not an archive":   {file: "disk.img", content: []byte(strings.Repeat("x", 2000)), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive"},
		"zeros":            {file: "disk.img", content: make([]byte, 2000), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive"},
		"truncated":        {file: "disk.img", content: good[:len(good)-5000], reason: v1beta1.ReasonNotImportable, message: "Truncated"},
		"no manifest":      {file: "disk.img", content: ova(t, descriptor, false, false), change: require, reason: v1beta1.ReasonVerificationFailed, message: "no manifest"},
		"another manifest": {file: "disk.img", content: ova(t, descriptor, true, true), change: require, reason: v1beta1.ReasonVerificationFailed, message: "ManifestMismatch: a.vmdk"},
		"another checksum": {
			file: "disk.img", content: padded(good), change: func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Checksum = "sha256:" + strings.Repeat("0", 64) },
			reason: v1beta1.ReasonVerificationFailed, message: "spec.checksum: the file has the checksum sha256:",
		},
		"a claim that is deleted": {
			file: "disk.img", content: good, prepare: func(t *testing.T, c *cluster) {
				c.claim(t, func(p *corev1.PersistentVolumeClaim) { p.Finalizers = []string{"kubernetes.io/pvc-protection"} })
				must(t, c.server.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "upload"}}))
			}, reason: v1beta1.ReasonSourceChanged, message: "spec.source.pvc.name: PersistentVolumeClaim catalogue/upload is deleted",
		},
		"a file that changes": {
			file: "disk.img", content: good, prepare: func(t *testing.T, c *cluster) {
				c.phase = cdiv1beta1.ImportInProgress
				c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Source != nil })
				other := ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), true, false)
				must(t, os.WriteFile(filepath.Join(c.nodes.folder, "disk.img"), other, 0o600))
			}, reason: v1beta1.ReasonSourceChanged, message: "the file in the claim is not the one that the import began with",
		},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*v1beta1.VirtualMachineTemplateImport) {}
			}
			c := newClaim(t, test.file, test.content, change)
			if test.prepare != nil {
				test.prepare(t, c)
			}
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("got %+v", ended)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// served are the objects of an import whose pod serves an archive.
var served = []string{"ConfigMap of Pod", "NetworkPolicy of Pod", "Pod of import", "Secret of Pod", "Secret of Pod", "Service of Pod"}

// TestClaimWaits holds what the status says while an import waits for its claim, and that it continues.
func TestClaimWaits(t *testing.T) {
	for name, test := range map[string]struct {
		begin           func(*testing.T, *cluster, *templateimport.Reconciler)
		end             func(*testing.T, *cluster)
		reason, message string
	}{
		"no claim": {
			begin: func(t *testing.T, c *cluster, _ *templateimport.Reconciler) {
				must(t, c.server.Delete(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "upload"}}))
			},
			end: func(t *testing.T, c *cluster) {
				must(t, c.server.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "upload"}}))
			},
			reason: v1beta1.ReasonSourceUnavailable, message: "spec.source.pvc.name: there is no PersistentVolumeClaim catalogue/upload",
		},
		"CDI writes the claim": {
			begin: func(t *testing.T, c *cluster, _ *templateimport.Reconciler) {
				c.claim(t, func(p *corev1.PersistentVolumeClaim) {
					p.Annotations = map[string]string{"cdi.kubevirt.io/storage.pod.phase": "Running"}
				})
			},
			end: func(t *testing.T, c *cluster) {
				c.claim(t, func(p *corev1.PersistentVolumeClaim) {
					p.Annotations = map[string]string{"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}
				})
			},
			reason: v1beta1.ReasonSourceUnavailable, message: "spec.source.pvc.name: CDI has not written PersistentVolumeClaim catalogue/upload yet",
		},
		"the claim is in use on another node": {
			begin: func(t *testing.T, c *cluster, r *templateimport.Reconciler) {
				c.nodes.stalled = true
				c.driveBy(t, r, func() bool { return len(c.left(t)) == len(served) })
				c.clock.SetTime(c.clock.Now().Add(31 * time.Second))
			},
			end:    func(_ *testing.T, c *cluster) { c.nodes.stalled = false },
			reason: v1beta1.ReasonReadingSource, message: "to start, which reads PersistentVolumeClaim upload. The claim can be used on one node only: ",
		},
		"the pod cannot be scheduled": {
			begin: func(t *testing.T, c *cluster, r *templateimport.Reconciler) {
				c.nodes.stalled = true
				c.driveBy(t, r, func() bool { return len(c.left(t)) == len(served) })
				for _, o := range c.objects(t) {
					if pod, is := o.(*corev1.Pod); is {
						pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"}}
						must(t, c.server.Status().Update(t.Context(), pod))
					}
				}
			},
			end:    func(_ *testing.T, c *cluster) { c.nodes.stalled = false },
			reason: v1beta1.ReasonReadingSource, message: ": node has pod using PersistentVolumeClaim with the same name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim(t, "disk.img", ova(t, descriptor, true, false))
			r := c.controller(t, unbounded())
			test.begin(t, c, r)
			says := func() bool {
				found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing)
				return found != nil && found.Reason == test.reason && strings.Contains(found.Message, test.message)
			}
			c.driveBy(t, r, says)
			test.end(t, c)
			c.driveBy(t, r)
			if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
				t.Errorf("%+v; left (-want +got):\n%s", c.completed(t), diff)
			}
		})
	}
}

// TestClaimTerminating holds that what was read is kept while the first pod ends, which takes longer than a reconciliation: it is not read
// again from another one.
func TestClaimTerminating(t *testing.T) {
	c := newClaim(t, "disk.img", padded(ova(t, descriptor, true, false)))
	c.nodes.ending = 20
	c.drive(t, unbounded())
	if diff := cmp.Diff([]bool{true, false}, c.nodes.readers()); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v, pods without disks (-want +got):\n%s", c.completed(t), diff)
	}
}

// TestClaimForbidden holds that an import says which permission an admin can give, if the controller may not mount the claim.
func TestClaimForbidden(t *testing.T) {
	c := newClaim(t, "disk.img", nil)
	c.server = denying{c.server}
	c.drive(t, unbounded())
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonCredentialsForbidden || !strings.Contains(ended.Message, "spec.source.pvc.name: Virtward may not mount the PersistentVolumeClaim") {
		t.Errorf("got %+v", ended)
	}
}

// denying is an API server that forbids to read claims.
type denying struct{ client.WithWatch }

func (d denying) Get(ctx context.Context, name client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if _, is := into.(*corev1.PersistentVolumeClaim); is {
		return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), name.Name, errors.New("no"))
	}
	return d.WithWatch.Get(ctx, name, into, options...)
}

// TestClaimReplaced holds that an import continues after each of its pods is lost, also in another process.
func TestClaimReplaced(t *testing.T) {
	for _, other := range []bool{false, true} {
		c := newClaim(t, "disk.img", padded(ova(t, descriptor, true, false)))
		c.phase = cdiv1beta1.ImportInProgress
		r := c.controller(t, unbounded())
		c.driveBy(t, r, func() bool { return c.stored(t).Status.Progress == "25%" })
		for _, o := range c.objects(t) {
			if pod, is := o.(*corev1.Pod); is {
				pod.Status.Phase = corev1.PodFailed
				must(t, c.server.Status().Update(t.Context(), pod))
			}
		}
		c.phase = ""
		if other {
			r = c.controller(t, unbounded())
		}
		c.driveBy(t, r)
		if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
			t.Errorf("%t: %+v; left (-want +got):\n%s", other, c.completed(t), diff)
		}
	}
}
