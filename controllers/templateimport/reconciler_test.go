package templateimport_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/ovf/servers"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/signatures"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/vmdk"
)

const catalogue = "catalogue"

var began = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// descriptor has two disks, one with content and one without.
const descriptor = `<Envelope xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"><References><File ovf:id="f" ovf:href="a.vmdk"/></References>
<DiskSection><Disk ovf:diskId="d" ovf:fileRef="f" ovf:capacity="1048576"/><Disk ovf:diskId="e" ovf:capacity="2097152"/></DiskSection>
<NetworkSection><Network ovf:name="lan"/></NetworkSection>
<VirtualSystem ovf:id="v"><Name>Quay</Name><OperatingSystemSection ovf:id="96"/><VirtualHardwareSection>
<Item><InstanceID>1</InstanceID><ResourceType>3</ResourceType><VirtualQuantity>1</VirtualQuantity></Item><Item><InstanceID>2</InstanceID><ResourceType>4</ResourceType><VirtualQuantity>64</VirtualQuantity></Item>
<Item><Connection>lan</Connection><InstanceID>5</InstanceID><ResourceType>10</ResourceType></Item>
<Item><HostResource>ovf:/disk/d</HostResource><InstanceID>3</InstanceID><ResourceType>17</ResourceType></Item>
<Item><HostResource>ovf:/disk/e</HostResource><InstanceID>4</InstanceID><ResourceType>17</ResourceType></Item></VirtualHardwareSection></VirtualSystem></Envelope>`

func sumOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// ova is an appliance of the descriptor, with a manifest. damaged has a disk that the manifest does not have.
func ova(t testing.TB, descriptor string, manifest, damaged bool) []byte {
	t.Helper()
	var disk, out bytes.Buffer
	must(t, vmdk.Write(&disk, bytes.NewReader(append([]byte("boot"), make([]byte, 1<<20-4)...)), 1<<20, "a.vmdk"))
	files := [][2]string{{"quay.ovf", descriptor}, {"a.vmdk", disk.String()}}
	if manifest {
		content := disk.String()
		if damaged {
			content += "x"
		}
		files = slices.Insert(files, 1, [2]string{"quay.mf", "SHA256(quay.ovf)= " + sumOf(descriptor) + "\nSHA256(a.vmdk)= " + sumOf(content) + "\n"})
	}
	w := tar.NewWriter(&out)
	for _, f := range files {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(len(f[1]))}))
		_, err := io.WriteString(w, f[1])
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// cluster is a fake API server with an import, CDI, the garbage collector, and a web server with an appliance.
type cluster struct {
	server  client.WithWatch
	clock   *clocktesting.FakePassiveClock
	request *v1beta1.VirtualMachineTemplateImport
	web     *httptest.Server
	// file is the appliance, and tag its ETag.
	file atomic.Pointer[[]byte]
	tag  string
	// withoutRanges tells that the web server sends no parts of the file, and without that it states no size.
	withoutRanges, unsized atomic.Bool
	// requests counts those to the web server.
	requests atomic.Int64
	// phase is that of DataVolumes, Succeeded if it is empty.
	phase cdiv1beta1.DataVolumePhase
	// adopts tells that CDI finds claims with the names of DataVolumes, and takes them for their content.
	adopts bool
	told   []string
	// nodes run the pods of claims; nil without one.
	nodes *nodes
	// signatures say who must have signed artifacts.
	signatures *signatures.Requirements
}

func newCluster(t *testing.T, file []byte, change ...func(*v1beta1.VirtualMachineTemplateImport)) *cluster {
	t.Helper()
	return newClusterAt(t, began, file, change...)
}

// newClusterAt is a cluster at a time.
func newClusterAt(t *testing.T, now time.Time, file []byte, change ...func(*v1beta1.VirtualMachineTemplateImport)) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme, authorizationv1.AddToScheme, storagev1.AddToScheme, v1beta1.AddToScheme, cdiv1beta1.AddToScheme} {
		must(t, add(scheme))
	}
	c := &cluster{clock: clocktesting.NewFakePassiveClock(now), tag: `"v1"`}
	c.file.Store(&file)
	c.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		if c.withoutRanges.Load() {
			if file := *c.file.Load(); c.unsized.Load() {
				_, _ = io.Copy(w, struct{ io.Reader }{bytes.NewReader(file)})
			} else {
				w.Header().Set("Content-Length", strconv.Itoa(len(file)))
				_, _ = w.Write(file)
			}
			return
		}
		w.Header().Set("ETag", c.tag)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(*c.file.Load()))
	}))
	t.Cleanup(c.web.Close)
	c.server = kills.Server(scheme, c.clock, []client.Object{&v1beta1.VirtualMachineTemplateImport{}, &v1beta1.VirtualMachineTemplate{}, &cdiv1beta1.DataVolume{}, &corev1.Pod{}})
	c.request = &v1beta1.VirtualMachineTemplateImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "quay"},
		Spec:       v1beta1.VirtualMachineTemplateImportSpec{Source: v1beta1.ImportSource{HTTP: &v1beta1.ImportHTTP{URL: c.web.URL + "/quay.ova?signature=secret"}}},
	}
	for _, how := range change {
		how(c.request)
	}
	must(t, c.server.Create(t.Context(), c.request))
	return c
}

// controller is a new controller.
func (c *cluster) controller(t *testing.T, connection *kills.Connection) *templateimport.Reconciler {
	t.Helper()
	to := connection.Fake(c.server)
	return templateimport.New(t.Context(), templateimport.Options{
		Client: to, Server: servers.Program{Image: "example.com/import-server:1"}, Namespace: "virtward-system", Deadlines: templateimport.Deadlines{Source: time.Minute, Import: time.Hour}, Clock: c.clock,
		Source: &templateimport.LiveSource{Reader: to, Permitted: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Signatures: c.signatures},
		Tell:   func(_ *v1beta1.VirtualMachineTemplateImport, e events.Event) { c.told = append(c.told, e.String()) },
	})
}

// plays is CDI and the garbage collector.
func (c *cluster) plays(t *testing.T) {
	t.Helper()
	volumes := &cdiv1beta1.DataVolumeList{}
	must(t, c.server.List(t.Context(), volumes))
	for i := range volumes.Items {
		if dv := &volumes.Items[i]; dv.Status.Phase == "" {
			if dv.Labels[v1beta1.LabelImportUID] != "" && dv.Annotations["cdi.kubevirt.io/allowClaimAdoption"] != "false" {
				t.Errorf("CDI can adopt a claim for %s", dv.Name)
			}
			if c.adopts {
				dv.Annotations["cdi.kubevirt.io/storage.prePopulated"] = dv.Name
				must(t, c.server.Update(t.Context(), dv))
			}
			dv.Status.Phase, dv.Status.Progress = cdiv1beta1.Succeeded, "100.0%"
			if c.phase != "" && dv.Spec.Source.Blank == nil {
				dv.Status.Phase, dv.Status.Progress = c.phase, "25.00%"
			}
			must(t, c.server.Status().Update(t.Context(), dv))
		}
	}
	if c.nodes != nil {
		c.nodes.run(t, c)
	}
	kills.Collect(t, c.server, map[types.UID]bool{c.request.UID: c.stored(t) != nil}, func() []client.Object { return c.objects(t) })
}

// objects are all but the import.
func (c *cluster) objects(t *testing.T) []client.Object {
	t.Helper()
	return kills.Objects(t, c.server, &v1beta1.VirtualMachineTemplateList{}, &cdiv1beta1.DataVolumeList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		&corev1.ServiceList{}, &networkingv1.NetworkPolicyList{})
}

// stored is the import; nil if it does not exist.
func (c *cluster) stored(t *testing.T) *v1beta1.VirtualMachineTemplateImport {
	t.Helper()
	stored := &v1beta1.VirtualMachineTemplateImport{}
	err := c.server.Get(t.Context(), client.ObjectKeyFromObject(c.request), stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(t, err)
	return stored
}

func (c *cluster) completed(t *testing.T) metav1.Condition {
	t.Helper()
	if found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestCompleted); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// settled reports whether the import has ended and has no finalizer, or does not exist.
func (c *cluster) settled(t *testing.T) bool {
	t.Helper()
	stored := c.stored(t)
	return stored == nil || meta.IsStatusConditionFalse(stored.Status.Conditions, v1beta1.RequestProgressing) && len(stored.Finalizers) == 0
}

// drive reconciles with one controller until the import has ended, until a function says so, or until the connection ends.
func (c *cluster) drive(t *testing.T, connection *kills.Connection, until ...func() bool) {
	t.Helper()
	c.driveBy(t, c.controller(t, connection), until...)
}

// driveBy drives with a controller.
func (c *cluster) driveBy(t *testing.T, r *templateimport.Reconciler, until ...func() bool) {
	t.Helper()
	for range 10_000 {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c.request)})
		switch {
		case errors.Is(err, kills.Err):
			return
		case err != nil:
			t.Fatal(err)
		}
		c.plays(t)
		if len(until) > 0 && until[0]() || len(until) == 0 && c.settled(t) {
			return
		}
		time.Sleep(time.Millisecond) // for readings of this process
	}
	t.Fatalf("the import does not end: %+v", c.stored(t))
}

// left are the objects of the import, with their owners.
func (c *cluster) left(t *testing.T) (left []string) {
	t.Helper()
	names := map[types.UID]string{c.request.UID: "import"}
	all := c.objects(t)
	for _, o := range all {
		names[o.GetUID()] = strings.TrimPrefix(fmt.Sprintf("%T", o), "*")
	}
	for _, o := range all {
		kind := names[o.GetUID()]
		kind = kind[strings.LastIndexByte(kind, '.')+1:]
		owner := "nothing"
		if of := metav1.GetControllerOf(o); of != nil {
			owner = names[of.UID]
			owner = owner[strings.LastIndexByte(owner, '.')+1:]
		}
		left = append(left, kind+" of "+owner)
	}
	slices.Sort(left)
	return left
}

// whole are the objects after an import.
var whole = []string{"DataVolume of VirtualMachineTemplate", "VirtualMachineTemplate of nothing"}

func unbounded() *kills.Connection { return &kills.Connection{Left: -1} }

// TestImport holds what an import creates on its way, and what is left.
func TestImport(t *testing.T) {
	c, all := newCluster(t, ova(t, descriptor, true, false)), unbounded()
	c.phase = cdiv1beta1.ImportInProgress
	c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "25%" })
	want := []string{
		"ConfigMap of Pod", "DataVolume of import", "NetworkPolicy of Pod", "Pod of import", "Secret of Pod", "Secret of Pod", "Service of Pod",
	}
	if diff := cmp.Diff(want, c.left(t)); diff != "" {
		t.Errorf("while CDI imports (-want +got):\n%s", diff)
	}
	c.served(t)
	status := c.stored(t).Status
	if d := status.Disks; len(d) != 1 || d[0].Name != "quay-disk-1" || d[0].File != "a.vmdk" || d[0].Size != 1<<20 || d[0].Progress != "25%" || status.Source.Validator != `"v1"` {
		t.Errorf("got the status %+v", status)
	}
	dv := &cdiv1beta1.DataVolume{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay-disk-1"}, dv))
	dv.Status.Phase = cdiv1beta1.Succeeded
	must(t, c.server.Status().Update(t.Context(), dv))
	c.drive(t, all)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay"}, template))
	if raw := string(template.Spec.VirtualMachine.Raw); !strings.Contains(raw, `"pvc":{"name":"quay-disk-1","namespace":"catalogue"}`) || !strings.Contains(raw, `"blank"`) {
		t.Errorf("got the template %s", raw)
	}
	if got := c.stored(t).Status; got.TemplateRef == nil || got.Progress != "100%" || c.completed(t).Status != metav1.ConditionTrue || len(got.Warnings) == 0 {
		t.Errorf("got the status %+v", got)
	}
	var reasons []string
	for _, e := range c.told {
		reasons = append(reasons, strings.Join(strings.Fields(e)[:2], " "))
	}
	if diff := cmp.Diff([]string{"Normal ReadingSource:", "Normal Preparing:", "Normal Importing:", "Normal CreatingTemplate:", "Normal Completed:"}, slices.Compact(reasons)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// served holds that the plan of the pod is valid, and that no URL is outside of its Secret.
func (c *cluster) served(t *testing.T) {
	t.Helper()
	var pod *corev1.Pod
	for _, o := range c.objects(t) {
		switch of := o.(type) {
		case *corev1.Pod:
			pod = of
		case *corev1.Secret:
			if data := of.Data["plan.json"]; data != nil {
				plan, err := transfer.Parse(data)
				must(t, errors.Join(err))
				if plan.Files[0].Validator != `"v1"` || len(plan.Disks) != 1 || plan.Disks[0].Parts[0].Digest == "" {
					t.Errorf("got the plan %+v", plan)
				}
				continue
			}
			if !strings.HasPrefix(string(of.Data["header"]), transfer.TokenHeader+": ") {
				t.Errorf("got the Secret %+v", of)
			}
		}
	}
	if text := fmt.Sprint(pod); strings.Contains(text, "signature") || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
		t.Errorf("got the pod %s", text)
	}
}

// TestKills holds that an import converges after a kill at each write, whether its answer arrives or not, and leaves the same.
func TestKills(t *testing.T) {
	t.Parallel()
	file := ova(t, descriptor, true, false)
	k := &killed{begin: func(t *testing.T) *cluster { return newCluster(t, file) }, want: whole, least: 14}
	k.converges(t)
}

// TestDeletion holds that an import which is deleted after each write leaves nothing, or the whole template.
func TestDeletion(t *testing.T) {
	t.Parallel()
	file := ova(t, descriptor, true, false)
	k := &killed{begin: func(t *testing.T) *cluster { return newCluster(t, file) }, want: whole, least: 14}
	k.leavesNothing(t)
}

// TestMisled changes the Service of an import while CDI imports: the finished disk is not believed.
func TestMisled(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"the selector": func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} },
		"the port":     func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(1) },
		"the type":     func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"the name":     func(s *corev1.Service) { s.Spec.ExternalName = "example.com" },
	} {
		t.Run(name, func(t *testing.T) {
			c, all := newCluster(t, ova(t, descriptor, true, false)), unbounded()
			c.phase = cdiv1beta1.ImportInProgress
			c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "25%" })
			services := &corev1.ServiceList{}
			must(t, c.server.List(t.Context(), services))
			if len(services.Items) != 1 {
				t.Fatalf("got %d Services", len(services.Items))
			}
			change(&services.Items[0])
			must(t, c.server.Update(t.Context(), &services.Items[0]))
			dv := &cdiv1beta1.DataVolume{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay-disk-1"}, dv))
			dv.Status.Phase = cdiv1beta1.Succeeded
			must(t, c.server.Status().Update(t.Context(), dv))
			c.drive(t, all)
			c.plays(t)
			if done := c.completed(t); done.Reason != v1beta1.ReasonVerificationFailed || !strings.Contains(done.Message, "was changed") {
				t.Errorf("got %+v", done)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// TestEnds holds why imports fail, and that nothing of them is left.
func TestEnds(t *testing.T) {
	good := ova(t, descriptor, true, false)
	two := strings.Replace(descriptor, "<VirtualSystem ", `<VirtualSystemCollection ovf:id="c"><VirtualSystem ovf:id="w"/><VirtualSystem `, 1)
	two = strings.Replace(two, "</Envelope>", "</VirtualSystemCollection></Envelope>", 1)
	eula := strings.Replace(descriptor, "<VirtualHardwareSection>", "<EulaSection><License>Pay</License></EulaSection><VirtualHardwareSection>", 1)
	for name, test := range map[string]struct {
		file            []byte
		change          func(*v1beta1.VirtualMachineTemplateImportSpec)
		prepare         func(*testing.T, *cluster)
		reason, message string
		left            []string
	}{
		"not an archive": {file: []byte(strings.Repeat("x", 2000)), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive"},
		"a choice":       {file: ova(t, two, false, false), reason: v1beta1.ReasonChoiceRequired, message: "spec.virtualSystem: "},
		"no such choice": {file: good, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.VirtualSystem = "no" }, reason: v1beta1.ReasonChoiceRequired, message: `spec.virtualSystem: the descriptor has no virtual system "no"`},
		"a license":      {file: ova(t, eula, false, false), reason: v1beta1.ReasonChoiceRequired, message: "spec.acceptEula: "},
		"no such network": {
			file: good, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				s.NetworkMappings = []v1beta1.NetworkMapping{{Source: "wan", Target: "pod"}}
			}, reason: v1beta1.ReasonInvalidConfiguration, message: `spec.networkMappings[0].source: no interface of the virtual system is in the network "wan"`,
		},
		"no such property": {
			file: good, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Properties = map[string]string{"a": "b"} },
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.properties[a]: ",
		},
		"another checksum": {
			file: good, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Checksum = "sha256:" + strings.Repeat("0", 64) },
			reason: v1beta1.ReasonVerificationFailed, message: "spec.checksum: the file has the checksum sha256:",
		},
		"no manifest": {
			file: ova(t, descriptor, false, false), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifyRequire },
			reason: v1beta1.ReasonVerificationFailed, message: "no manifest",
		},
		"a manifest without the descriptor": {
			file: bytes.Replace(good, []byte("SHA256(quay.ovf)= "), []byte("SHA256(quay.xml)= "), 1), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifyRequire },
			reason: v1beta1.ReasonVerificationFailed, message: "spec.verify: the manifest does not list the descriptor",
		},
		"another manifest": {
			file: ova(t, descriptor, true, true), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Verify = v1beta1.ImportVerifyRequire },
			reason: v1beta1.ReasonVerificationFailed, message: "ManifestMismatch: a.vmdk: the file does not have the digest of the manifest",
		},
		"not permitted": {
			file: good, change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.HTTP.URL = "http://169.254.169.254/a.ova" },
			reason: "SourceNotPermitted", message: "not public",
		},
		"a template of others": {
			file: good, prepare: func(t *testing.T, c *cluster) {
				must(t, c.server.Create(t.Context(), &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "quay"}}))
			}, reason: v1beta1.ReasonNameTaken, message: "VirtualMachineTemplate catalogue/quay exists", left: []string{"VirtualMachineTemplate of nothing"},
		},
		"a volume of others": {
			file: good, prepare: func(t *testing.T, c *cluster) {
				must(t, c.server.Create(t.Context(), &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "quay-disk-1"}}))
			}, reason: v1beta1.ReasonNameTaken, message: "DataVolume catalogue/quay-disk-1 exists", left: []string{"DataVolume of nothing"},
		},
		"a claim of others": {
			file: good, prepare: func(_ *testing.T, c *cluster) { c.adopts = true },
			reason: v1beta1.ReasonNameTaken, message: "PersistentVolumeClaim catalogue/quay-disk-1 existed before its DataVolume, so CDI wrote nothing to it: use another templateName",
		},
		"a disk fails": {file: good, prepare: func(_ *testing.T, c *cluster) { c.phase = cdiv1beta1.Failed }, reason: v1beta1.ReasonImportFailed, message: "DataVolume catalogue/quay-disk-1 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.file, func(r *v1beta1.VirtualMachineTemplateImport) {
				if test.change != nil {
					test.change(&r.Spec)
				}
			})
			if test.prepare != nil {
				test.prepare(t, c)
			}
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Status != metav1.ConditionFalse || ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			if diff := cmp.Diff(test.left, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if last := c.told[len(c.told)-1]; !strings.HasPrefix(last, "Warning ") {
				t.Errorf("events %q", c.told)
			}
		})
	}
}

// TestVerified holds that the whole file is compared before the pod exists, and that the status notes it.
func TestVerified(t *testing.T) {
	file := ova(t, descriptor, true, false)
	c := newCluster(t, file, func(r *v1beta1.VirtualMachineTemplateImport) {
		r.Spec.Verify, r.Spec.Checksum = v1beta1.ImportVerifyRequire, "sha256:"+sumOf(string(file))
	})
	c.drive(t, unbounded())
	at := bytes.Index(file, []byte("KDMV"))
	disk := c.stored(t).Status.Disks[0].Digests
	if s := c.stored(t).Status.Source; s == nil || !s.Verified || s.Digest != "sha256:"+sumOf(string(file)) || len(disk) != 1 || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("got %+v", c.stored(t).Status)
	}
	var size int64
	_, err := fmt.Sscanf(strings.TrimRight(string(file[at-512+124:at-512+136]), " \x00"), "%o", &size) // the size in the header of tar
	must(t, err)
	if want := "sha256:" + sumOf(string(file[at:int64(at)+size])); disk[0] != want {
		t.Errorf("the disk has the digest %s, want %s", disk[0], want)
	}
}

// TestChanged holds that another file at the URL ends an import, also for a controller that was started afterwards.
func TestChanged(t *testing.T) {
	c := newCluster(t, ova(t, descriptor, true, false))
	c.phase = cdiv1beta1.ImportInProgress
	c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Progress == "25%" })
	other := ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), true, false)
	c.file.Store(&other)
	dv := &cdiv1beta1.DataVolume{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: "quay-disk-1"}, dv))
	dv.Status.Phase = cdiv1beta1.Succeeded
	must(t, c.server.Status().Update(t.Context(), dv))
	c.drive(t, unbounded())
	c.plays(t)
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonSourceChanged {
		t.Errorf("got %+v", ended)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestUnavailable holds that a source which does not answer is read again until the deadline.
func TestUnavailable(t *testing.T) {
	c := newCluster(t, nil)
	c.web.Close()
	reason := func() bool {
		found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing)
		return found != nil && found.Reason == v1beta1.ReasonSourceUnavailable
	}
	c.drive(t, unbounded(), reason)
	c.clock.SetTime(began.Add(time.Minute))
	c.drive(t, unbounded())
	if ended := c.completed(t); ended.Reason != v1beta1.ReasonDeadlineExceeded || !strings.HasPrefix(ended.Message, "it took longer than 1m0s: ") {
		t.Errorf("got %+v", ended)
	}
}

// TestReplacedPod holds that a DataVolume is created again for another pod, if the node of the first one is lost.
func TestReplacedPod(t *testing.T) {
	c := newCluster(t, ova(t, descriptor, true, false))
	c.phase = cdiv1beta1.ImportInProgress
	c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Progress == "25%" })
	for _, o := range c.objects(t) {
		if pod, is := o.(*corev1.Pod); is {
			pod.Status.Phase = corev1.PodFailed
			must(t, c.server.Status().Update(t.Context(), pod))
		}
	}
	c.phase = ""
	c.drive(t, unbounded())
	if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v; left (-want +got):\n%s", c.completed(t), diff)
	}
}

// TestQuota holds that no pod is created while a quota does not permit the volumes.
func TestQuota(t *testing.T) {
	c := newCluster(t, ova(t, descriptor, true, false))
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "small"}, Status: corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")}, Used: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("10Gi")},
	}}
	must(t, c.server.Create(t.Context(), quota))
	c.drive(t, unbounded(), func() bool { return c.completed(t).Reason == v1beta1.ReasonQuotaExceeded })
	if got := c.completed(t).Message; got != "ResourceQuota small: the volumes need 1Mi of requests.storage, and 0 are left" {
		t.Errorf("got %q", got)
	}
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	must(t, c.server.Delete(t.Context(), quota))
	c.drive(t, unbounded())
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestTTL holds that a completed import is deleted after its time, and that its template stays.
func TestTTL(t *testing.T) {
	c := newCluster(t, ova(t, descriptor, true, false), func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.TTLSecondsAfterFinished = new(int32) })
	c.drive(t, unbounded(), func() bool { return c.stored(t) == nil })
	c.plays(t)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// TestCredentials holds that an import says which permission an admin can give, if the controller may not read the Secret.
func TestCredentials(t *testing.T) {
	c := newCluster(t, ova(t, descriptor, true, false), func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Source.HTTP.SecretRef = "login" })
	c.drive(t, unbounded())
	if ended := c.completed(t); ended.Reason != "CredentialsMissing" || ended.Message != "spec.source.http: there is no Secret login" {
		t.Errorf("got %+v", ended)
	}
}
