package templateexport_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/guarded"
	"github.com/virtward/virtward/controllers/templateexport"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/test/kills"
)

const catalogue = "catalogue"

var began = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine has two volumes: one of a DataSource, and one of a claim.
const machine = `{"spec":{"dataVolumeTemplates":[{"metadata":{"name":"a"},"spec":{"sourceRef":{"kind":"DataSource","namespace":"images","name":"debian"}}},
{"metadata":{"name":"b"},"spec":{"source":{"pvc":{"name":"data"}}}}],
"template":{"spec":{"domain":{"devices":{}},"volumes":[{"name":"a","dataVolume":{"name":"a"}},{"name":"b","dataVolume":{"name":"b"}}]}}}}`

// cluster is a fake API server with an export, CDI, nodes and the garbage collector.
type cluster struct {
	server  client.WithWatch
	clock   *clocktesting.FakePassiveClock
	request *v1beta1.VirtualMachineTemplateExport
	// phase is that of DataVolumes, Succeeded if it is empty.
	phase cdiv1beta1.DataVolumePhase
	// answer is the status of pods; it is ready if it is nil. silent pods answer nothing.
	answer *exportserver.Status
	silent bool
	// starting pods do not listen yet. probes counts the probes.
	starting bool
	probes   int
	told     []string
	// guards and cloneGuards are nil if every export is trusted.
	guards, cloneGuards *guarded.Guards
}

func newCluster(t *testing.T, change ...func(*v1beta1.VirtualMachineTemplateExport)) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, authorizationv1.AddToScheme, storagev1.AddToScheme, v1beta1.AddToScheme, cdiv1beta1.AddToScheme} {
		must(t, add(scheme))
	}
	c := &cluster{clock: clocktesting.NewFakePassiveClock(began)}
	c.server = kills.Server(scheme, c.clock, []client.Object{&v1beta1.VirtualMachineTemplateExport{}, &cdiv1beta1.DataVolume{}, &corev1.Pod{}})
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "mill"}}
	template.Spec.VirtualMachine = &runtime.RawExtension{Raw: []byte(machine)}
	source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "debian"}}
	source.Spec.Source.Snapshot = &cdiv1beta1.DataVolumeSourceSnapshot{Namespace: "images", Name: "debian-1"}
	c.request = &v1beta1.VirtualMachineTemplateExport{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "mill"}}
	c.request.Spec.TemplateRef.Name, c.request.Spec.SourceNamespaces = "mill", []string{"images"}
	for _, how := range change {
		how(c.request)
	}
	for _, object := range []client.Object{template, source, c.request} {
		must(t, c.server.Create(t.Context(), object))
	}
	return c
}

// Status implements templateexport.Prober.
func (c *cluster) Status(_ context.Context, pod *corev1.Pod, link *v1beta1.ExportLink) (*exportserver.Status, error) {
	suffix := exports.Servers.Suffix(pod)
	c.probes++
	switch {
	case !strings.HasPrefix(link.URL, "https://"+exports.Servers.Host(pod.Namespace, suffix)+":8443/") || link.Cert == "" || pod.Annotations[exports.AnnotationStatusToken] == "":
		return nil, fmt.Errorf("the link %s is not that of the pod", link.URL)
	case c.silent:
		return nil, errors.New("connection refused")
	case c.answer != nil:
		return c.answer, nil
	}
	return &exportserver.Status{Phase: exportserver.PhaseReady, Done: 9, All: 9, Name: "mill.ova", Size: 42, Tag: strings.Repeat("0", 32)}, nil
}

func (c *cluster) controller(connection *kills.Connection) *templateexport.Reconciler {
	return templateexport.New(templateexport.Options{
		Client: connection.Fake(c.server), Prober: c, Server: servers.Program{Image: "example.com/export-server:1"}, Namespace: "virtward-system", Clock: c.clock,
		Limits: templateexport.Limits{Deadline: time.Hour, TTL: 2 * time.Hour, MaxTTL: 24 * time.Hour},
		Tell:   func(_ *v1beta1.VirtualMachineTemplateExport, e events.Event) { c.told = append(c.told, e.String()) },
		Guards: c.guards, CloneGuards: c.cloneGuards,
	})
}

// plays is CDI, the nodes and the garbage collector.
func (c *cluster) plays(t *testing.T) {
	t.Helper()
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, c.server.List(t.Context(), volumes))
	for i := range volumes.Items {
		if dv := &volumes.Items[i]; dv.Status.Phase == "" {
			if dv.Spec.Source != nil && dv.Annotations["cdi.kubevirt.io/allowClaimAdoption"] != "false" {
				t.Errorf("CDI can adopt a claim for %s", dv.Name)
			}
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: dv.Namespace, Name: dv.Name, Annotations: map[string]string{"cdi.kubevirt.io/createdForDataVolume": string(dv.UID)},
			}}
			must(t, client.IgnoreAlreadyExists(c.server.Create(t.Context(), claim)))
			dv.Status.Phase, dv.Status.Progress = cdiv1beta1.Succeeded, "100.0%"
			if c.phase != "" {
				dv.Status.Phase, dv.Status.Progress = c.phase, "25.00%"
			}
			must(t, c.server.Status().Update(t.Context(), dv))
		}
	}
	pods := &corev1.PodList{}
	must(t, c.server.List(t.Context(), pods))
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Status.PodIP == "" {
			pod.Status.Phase, pod.Status.PodIP, pod.Status.ContainerStatuses = corev1.PodRunning, "10.0.0.1", []corev1.ContainerStatus{{Name: "server", Ready: !c.starting}}
			must(t, c.server.Status().Update(t.Context(), pod))
		}
	}
	kills.Collect(t, c.server, map[types.UID]bool{c.request.UID: c.stored(t) != nil}, func() []client.Object { return c.objects(t) })
}

// objects are those of the export.
func (c *cluster) objects(t *testing.T) []client.Object {
	t.Helper()
	return kills.Objects(t, c.server, &cdiv1beta1.DataVolumeList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &networkingv1.NetworkPolicyList{})
}

// left are the kinds of the objects of the export.
func (c *cluster) left(t *testing.T) (left []string) {
	t.Helper()
	for _, o := range c.objects(t) {
		kind := fmt.Sprintf("%T", o)
		left = append(left, kind[strings.LastIndexByte(kind, '.')+1:])
	}
	slices.Sort(left)
	return left
}

// stored is the export; nil if it does not exist.
func (c *cluster) stored(t *testing.T) *v1beta1.VirtualMachineTemplateExport {
	t.Helper()
	stored := &v1beta1.VirtualMachineTemplateExport{}
	err := c.server.Get(t.Context(), client.ObjectKeyFromObject(c.request), stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return stored
}

func (c *cluster) ready(t *testing.T) metav1.Condition {
	t.Helper()
	if stored := c.stored(t); stored != nil {
		if found := meta.FindStatusCondition(stored.Status.Conditions, v1beta1.RequestReady); found != nil {
			return *found
		}
	}
	return metav1.Condition{}
}

// drive reconciles with one controller until a function says so, or until the connection ends.
func (c *cluster) drive(t *testing.T, connection *kills.Connection, until func() bool) {
	t.Helper()
	r := c.controller(connection)
	for range 100 {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.request)})
		switch {
		case errors.Is(err, kills.Err):
			return
		case err != nil:
			t.Fatal(err)
		}
		c.plays(t)
		if until() {
			return
		}
	}
	t.Fatalf("the export does not end: %+v", c.stored(t))
}

func unbounded() *kills.Connection { return &kills.Connection{Left: -1} }

// serving reports whether the export is ready.
func (c *cluster) serving(t *testing.T) func() bool {
	return func() bool { return c.ready(t).Status == metav1.ConditionTrue }
}

// whole are the objects of an export that is ready.
var whole = []string{"DataVolume", "DataVolume", "NetworkPolicy", "Pod", "Secret", "Secret", "Service"}

// TestExport holds what an export creates on its way, what its status says, and that it ends.
func TestExport(t *testing.T) {
	c, all := newCluster(t), unbounded()
	c.phase = cdiv1beta1.CloneInProgress
	c.drive(t, all, func() bool { s := c.stored(t).Status; return len(s.Disks) == 2 && s.Disks[0].Progress == "25.00%" })
	if diff := cmp.Diff([]string{"DataVolume", "DataVolume"}, c.left(t)); diff != "" {
		t.Errorf("while CDI clones (-want +got):\n%s", diff)
	}
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, c.server.List(t.Context(), volumes))
	var sources []string
	for i := range volumes.Items {
		dv := &volumes.Items[i]
		if s := dv.Spec.Source.Snapshot; s != nil {
			sources = append(sources, "snapshot "+s.Namespace+"/"+s.Name)
		} else {
			sources = append(sources, "claim "+dv.Spec.Source.PVC.Namespace+"/"+dv.Spec.Source.PVC.Name)
		}
		dv.Status.Phase = cdiv1beta1.Succeeded
		must(t, c.server.Status().Update(t.Context(), dv))
	}
	if diff := cmp.Diff([]string{"snapshot images/debian-1", "claim catalogue/data"}, sources); diff != "" {
		t.Errorf("the clones (-want +got):\n%s", diff)
	}
	c.answer = &exportserver.Status{Phase: exportserver.PhaseMeasuring, Done: math.MaxInt64 / 2, All: math.MaxInt64}
	c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "50%" })
	c.answer = &exportserver.Status{Phase: exportserver.PhaseMeasuring, Done: 1, All: 4, Problem: &transfer.Problem{Message: "the disk is slow"}}
	c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "25%" })
	if progressing := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing); progressing.Reason != v1beta1.ReasonMeasuring || !strings.HasSuffix(progressing.Message, "the disk is slow") {
		t.Errorf("got %+v", progressing)
	}
	c.answer = nil
	c.drive(t, all, c.serving(t))
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
	s := c.stored(t).Status
	if s.Size != 42 || s.Digest != strings.Repeat("0", 32) || s.FileName != "mill.ova" || s.Disks[1].Progress != "100%" || !s.Expires.Time.Equal(began.Add(2*time.Hour)) || s.Links.Internal.URL == "" || s.TokenSecretRef == "" {
		t.Errorf("got the status %+v", s)
	}
	var reasons []string
	for _, e := range c.told {
		reasons = append(reasons, strings.Join(strings.Fields(e)[:2], " "))
	}
	if diff := cmp.Diff([]string{"Normal Cloning:", "Normal Preparing:", "Normal Measuring:", "Normal Serving:"}, slices.Compact(reasons)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	c.clock.SetTime(began.Add(2 * time.Hour))
	c.drive(t, all, func() bool { return c.stored(t) == nil })
	c.plays(t)
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestKills holds that an export converges after a kill at each write, whether its answer arrives or not, and leaves the same.
func TestKills(t *testing.T) {
	all := unbounded()
	c := newCluster(t)
	c.drive(t, all, c.serving(t))
	writes := len(all.Accepted())
	if writes < 10 {
		t.Fatalf("%d writes: %q", writes, all.Accepted())
	}
	for n := range writes {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %t", n, lost), func(t *testing.T) {
				c := newCluster(t)
				c.drive(t, &kills.Connection{Left: n + 1, Lost: lost}, func() bool { return false })
				c.drive(t, unbounded(), c.serving(t))
				if diff := cmp.Diff(whole, c.left(t)); diff != "" {
					t.Errorf("left (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestPodStarts holds that a pod is probed when it listens, and not before.
func TestPodStarts(t *testing.T) {
	c := newCluster(t)
	c.starting = true
	rounds := 0
	c.drive(t, unbounded(), func() bool { rounds++; return rounds > 10 })
	if progressing := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing); c.probes > 0 || progressing.Reason != v1beta1.ReasonPreparing || progressing.Message != "the server starts" {
		t.Errorf("%d probes, and the export is %+v", c.probes, progressing)
	}
}

// TestFinalizer holds that an export which a finalizer of others keeps serves nothing after its time.
func TestFinalizer(t *testing.T) {
	c := newCluster(t, func(r *v1beta1.VirtualMachineTemplateExport) { r.Finalizers = []string{"example.com/keep"} })
	c.drive(t, unbounded(), c.serving(t))
	c.clock.SetTime(began.Add(3 * time.Hour))
	c.drive(t, unbounded(), func() bool { return len(c.left(t)) == 0 })
	if stored := c.stored(t); stored == nil || stored.DeletionTimestamp == nil {
		t.Errorf("the export is %+v", stored)
	}
}

// TestPodIsLost holds that another pod follows one that is gone, until the same time.
func TestPodIsLost(t *testing.T) {
	c := newCluster(t)
	c.drive(t, unbounded(), c.serving(t))
	before := c.stored(t).Status
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: exports.Servers.PodName(c.request.UID)}}
	must(t, c.server.Delete(t.Context(), pod))
	c.clock.SetTime(began.Add(90 * time.Minute)) // the deadline counts before the first time only
	c.drive(t, unbounded(), func() bool { return c.stored(t).Status.TokenSecretRef != before.TokenSecretRef && c.serving(t)() })
	if after := c.stored(t).Status; !after.Expires.Equal(before.Expires) {
		t.Errorf("it expires at %s, and before at %s", after.Expires, before.Expires)
	}
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestUnguarded holds that an export which is older than the guard of its clones needs the guard only until it has a pod.
func TestUnguarded(t *testing.T) {
	missing := func(all []admissionpolicies.Guard) *guarded.Guards {
		return &guarded.Guards{Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), All: all}
	}
	rejected := func(t *testing.T, c *cluster) {
		t.Helper()
		c.drive(t, unbounded(), func() bool { return c.ready(t).Reason == guarded.Reason })
		c.drive(t, unbounded(), func() bool { return len(c.left(t)) == 0 })
	}
	c := newCluster(t)
	c.cloneGuards = missing(admissionpolicies.ExportCloneGuards())
	rejected(t, c)

	c = newCluster(t)
	c.drive(t, unbounded(), c.serving(t))
	c.cloneGuards = missing(admissionpolicies.ExportCloneGuards())
	rounds := 0
	c.drive(t, unbounded(), func() bool { rounds++; return rounds > 3 })
	if !c.serving(t)() {
		t.Errorf("the export with a pod is %+v", c.ready(t))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: exports.Servers.PodName(c.request.UID)}}
	must(t, c.server.Delete(t.Context(), pod))
	rejected(t, c)

	c = newCluster(t)
	c.drive(t, unbounded(), c.serving(t))
	c.guards = missing(admissionpolicies.ExportGuards())
	rejected(t, c)
}

// TestServiceChanged holds that an export fails whose Service leads to another pod: clients can have downloaded another file.
func TestServiceChanged(t *testing.T) {
	for name, change := range map[string]func(*corev1.ServiceSpec){
		"selector": func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "other"} },
		"name":     func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" },
		"port":     func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromInt32(1) },
	} {
		for when, begin := range map[string]func(*testing.T, *cluster){
			"before it is ready": func(t *testing.T, c *cluster) {
				c.silent = true
				c.drive(t, unbounded(), func() bool { return c.stored(t).Status.TokenSecretRef != "" })
				c.silent = false
			},
			"while it is ready": func(t *testing.T, c *cluster) { c.drive(t, unbounded(), c.serving(t)) },
			"of a pod that has ended": func(t *testing.T, c *cluster) {
				c.drive(t, unbounded(), c.serving(t))
				for _, o := range c.objects(t) {
					if pod, is := o.(*corev1.Pod); is {
						pod.Status.Phase = corev1.PodFailed
						must(t, c.server.Status().Update(t.Context(), pod))
					}
				}
			},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				c := newCluster(t)
				begin(t, c)
				services := &corev1.ServiceList{}
				must(t, c.server.List(t.Context(), services))
				change(&services.Items[0].Spec)
				must(t, c.server.Update(t.Context(), &services.Items[0]))
				c.drive(t, unbounded(), func() bool { return c.ready(t).Reason == v1beta1.ReasonVerificationFailed })
				if message := c.ready(t).Message; message != "Service catalogue/"+services.Items[0].Name+" was changed, so clients can have downloaded from another server: create the export again" {
					t.Errorf("got %s", message)
				}
				c.drive(t, unbounded(), func() bool { return len(c.left(t)) == 0 })
				if s := c.stored(t).Status; s.Links != nil || s.TokenSecretRef != "" {
					t.Errorf("it still has a link: %+v", s)
				}
			})
		}
	}
}

// TestCleanUpUnguarded holds that what failed or is deleted is cleaned up without reading a guard.
func TestCleanUpUnguarded(t *testing.T) {
	unread := &guarded.Guards{
		Reader: interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build(), interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return errors.New("a guard is read")
			},
		}),
		All: admissionpolicies.ExportGuards(),
	}
	for name, end := range map[string]func(*testing.T, *cluster){
		"failed": func(t *testing.T, c *cluster) {
			c.answer = &exportserver.Status{Phase: exportserver.PhaseFailed, Problem: &transfer.Problem{Reason: "ExportFailed", Message: "it is no image"}}
			c.drive(t, unbounded(), func() bool { return c.ready(t).Reason == v1beta1.ReasonExportFailed })
		},
		"deleted": func(t *testing.T, c *cluster) {
			c.drive(t, unbounded(), c.serving(t))
			must(t, c.server.Delete(t.Context(), c.stored(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(r *v1beta1.VirtualMachineTemplateExport) { r.Finalizers = []string{"example.com/keep"} })
			end(t, c)
			c.guards, c.cloneGuards = unread, unread
			c.drive(t, unbounded(), func() bool { return len(c.left(t)) == 0 })
		})
	}
}

// TestEnds holds why exports fail, and that nothing of them is left.
func TestEnds(t *testing.T) {
	replaced := func(text string) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			template := &v1beta1.VirtualMachineTemplate{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "mill"}, template))
			template.Spec.VirtualMachine.Raw = []byte(text)
			must(t, c.server.Update(t.Context(), template))
		}
	}
	for name, test := range map[string]struct {
		change          func(*v1beta1.VirtualMachineTemplateExportSpec)
		prepare         func(*testing.T, *cluster)
		later           func(*testing.T, *cluster)
		reason, message string
		left            []string
	}{
		"no template":    {change: func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TemplateRef.Name = "a" }, reason: v1beta1.ReasonTemplateNotFound, message: "VirtualMachineTemplate catalogue/a does not exist"},
		"another one":    {change: func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.SourceNamespaces = nil }, reason: v1beta1.ReasonSourceNotPermitted, message: "images in spec.sourceNamespaces"},
		"too long":       {change: func(s *v1beta1.VirtualMachineTemplateExportSpec) { s.TTL = &metav1.Duration{Duration: 25 * time.Hour} }, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.ttl: 25h0m0s is longer than 24h0m0s"},
		"not a template": {prepare: replaced(`{"spec":{}}`), reason: v1beta1.ReasonNotExportable, message: "the template mill: "},
		"a clone fails":  {prepare: func(_ *testing.T, c *cluster) { c.phase = cdiv1beta1.Failed }, reason: v1beta1.ReasonCloneFailed, message: "the volume a: DataVolume catalogue/virtward-ova-"},
		"a disk is wrong": {prepare: func(_ *testing.T, c *cluster) {
			c.answer = &exportserver.Status{Phase: exportserver.PhaseFailed, Problem: &transfer.Problem{Reason: "ExportFailed", Message: "it is no image"}}
		}, reason: v1beta1.ReasonExportFailed, message: "ExportFailed: it is no image"},
		"it takes long": {
			prepare: func(_ *testing.T, c *cluster) { c.silent = true }, later: func(_ *testing.T, c *cluster) { c.clock.SetTime(began.Add(time.Hour)) },
			reason: v1beta1.ReasonDeadlineExceeded, message: "it is not ready after 1h0m0s: the server starts: connection refused",
		},
		"a DataSource moves": {prepare: func(t *testing.T, c *cluster) {
			source := &cdiv1beta1.DataSource{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: "images", Name: "debian"}, source))
			source.Spec.Source = cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "kube-system", Name: "a"}}
			must(t, c.server.Update(t.Context(), source))
		}, reason: v1beta1.ReasonSourceNotPermitted, message: "PersistentVolumeClaim kube-system/a"},
		"DataSources of each other": {prepare: func(t *testing.T, c *cluster) {
			source := &cdiv1beta1.DataSource{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: "images", Name: "debian"}, source))
			source.Spec.Source = cdiv1beta1.DataSourceSource{DataSource: &cdiv1beta1.DataSourceRefSourceDataSource{Namespace: "images", Name: "debian"}}
			must(t, c.server.Update(t.Context(), source))
		}, reason: v1beta1.ReasonNotExportable, message: "the volume a: more than 4 DataSources refer to each other"},
		"a clone of others": {prepare: func(t *testing.T, c *cluster) {
			must(t, c.server.Create(t.Context(), &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: exports.CloneName(c.request, 1)}}))
		}, reason: v1beta1.ReasonNameTaken, message: "exists, and is not of this export", left: []string{"DataVolume"}},
		"a claim of others, which CDI adopts": {prepare: func(t *testing.T, c *cluster) {
			must(t, c.server.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: catalogue, Name: exports.CloneName(c.request, 1), Annotations: map[string]string{"cdi.kubevirt.io/storage.populatedFor": exports.CloneName(c.request, 1)},
			}}))
		}, reason: v1beta1.ReasonNameTaken, message: "-1 exists, and CDI did not create it for this export"},
		"a claim of others for another DataVolume": {prepare: func(t *testing.T, c *cluster) {
			must(t, c.server.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Namespace: catalogue, Name: exports.CloneName(c.request, 0), Annotations: map[string]string{"cdi.kubevirt.io/createdForDataVolume": "another"},
			}}))
		}, reason: v1beta1.ReasonNameTaken, message: "-0 exists, and CDI did not create it for this export"},
		"a clone of others, owned by the export": {prepare: func(t *testing.T, c *cluster) {
			forged := exports.Clone(c.stored(t), &v1beta1.ExportDisk{Name: exports.CloneName(c.request, 1)})
			forged.Labels = nil // a guard denies it
			must(t, c.server.Create(t.Context(), forged))
		}, reason: v1beta1.ReasonNameTaken, message: "exists, and is not of this export", left: []string{"DataVolume"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(r *v1beta1.VirtualMachineTemplateExport) {
				if test.change != nil {
					test.change(&r.Spec)
				}
			})
			if test.prepare != nil {
				test.prepare(t, c)
			}
			if test.later != nil {
				c.drive(t, unbounded(), func() bool { return slices.Contains(c.left(t), "Service") })
				test.later(t, c)
			}
			c.drive(t, unbounded(), func() bool { s := c.stored(t).Status; return s.Expires != nil && len(c.left(t)) == len(test.left) })
			if ready := c.ready(t); ready.Status != metav1.ConditionFalse || ready.Reason != test.reason || !strings.Contains(ready.Message, test.message) {
				t.Errorf("Ready is %+v", ready)
			}
			if diff := cmp.Diff(test.left, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if last := c.told[len(c.told)-1]; !strings.HasPrefix(last, "Warning ") {
				t.Errorf("events %q", c.told)
			}
			c.clock.SetTime(began.Add(4 * time.Hour))
			c.drive(t, unbounded(), func() bool { return c.stored(t) == nil })
		})
	}
}
