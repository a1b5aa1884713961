package templateimport_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/importserver/stages"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/test/kills"
)

// stage runs the program of a pod that copies a file, to its end.
func (n *nodes) stage(t *testing.T, c *cluster, pod *corev1.Pod, secret *corev1.Secret) {
	t.Helper()
	if pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	if len(n.started) == 0 || n.started[len(n.started)-1] != imports.Servers.Suffix(pod) {
		n.started = append(n.started, imports.Servers.Suffix(pod))
	}
	plan, err := transfer.Parse(secret.Data["plan.json"])
	must(t, err)
	permitted, err := plan.Sources.Permitted()
	must(t, err)
	options := web.Options{Sources: permitted, Authorities: secret.Data["authorities.pem"], Timeout: time.Minute, Stall: time.Minute}
	reader, err := web.New(options)
	must(t, err)
	defer reader.Close()
	registry, stop, err := artifacts.Guarded(&options, plan.Sources.Values)
	must(t, err)
	defer stop()
	plan.Volume.Folder = n.folder
	err = stages.New(reader, &registry, plan.Stage, plan.Volume).Run(t.Context())
	var coded *transfer.ExitError
	switch {
	case n.exit != 0:
		err, coded = errors.New("a test"), &transfer.ExitError{Code: n.exit}
	case errors.As(err, &coded):
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
	if err != nil {
		ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(coded.Code), Reason: "Error", Message: "what a user of the namespace writes"}}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "server", LastTerminationState: ended}}}
	}
	must(t, c.server.Status().Update(t.Context(), pod))
}

// newStaged is a cluster whose web server sends no ranges.
func newStaged(t *testing.T, file []byte, change ...func(*v1beta1.VirtualMachineTemplateImport)) *cluster {
	t.Helper()
	c := newClusterAt(t, time.Now(), file, append([]func(*v1beta1.VirtualMachineTemplateImport){func(r *v1beta1.VirtualMachineTemplateImport) {
		r.Spec.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("2Mi")}
	}}, change...)...)
	c.withoutRanges.Store(true)
	c.nodes = &nodes{folder: t.TempDir(), stops: map[types.UID]func(){}, seen: map[types.UID]int{}}
	return c
}

func gzipped(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(content)
	must(t, errors.Join(err, z.Close()))
	return out.Bytes()
}

// filtered is a file of xz with a filter for programs.
func filtered(content []byte) []byte {
	file := xztest.Stored(content, 22)
	header := file[12:24]
	header[2] = 4
	binary.LittleEndian.PutUint32(header[8:], crc32.ChecksumIEEE(header[:8]))
	return file
}

func require(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Verify = v1beta1.ImportVerifyRequire }

// TestStaging holds which pods and volumes an import creates for each kind of file that is copied, and what is left.
func TestStaging(t *testing.T) {
	file := ova(t, descriptor, true, false)
	for name, test := range map[string]struct {
		file            []byte
		ranges, unsized bool
		compression     string
	}{
		"no ranges":             {file: file},
		"no ranges and no size": {file: file, unsized: true},
		"gzip":                  {file: gzipped(t, file), compression: "gzip"},
		"gzip with ranges":      {file: gzipped(t, file), ranges: true, compression: "gzip"},
		"xz":                    {file: xztest.Stored(file, 28), compression: "xz"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newStaged(t, test.file, require, func(r *v1beta1.VirtualMachineTemplateImport) {
				r.Spec.Checksum = "sha256:" + sumOf(string(test.file))
				r.Spec.Storage = &v1beta1.ImportStorage{Class: "fast", AccessMode: "ReadWriteMany"}
			})
			c.withoutRanges.Store(!test.ranges)
			c.unsized.Store(test.unsized)
			c.phase = cdiv1beta1.ImportInProgress
			all := unbounded()
			copies := &corev1.Pod{}
			c.drive(t, all, func() bool { return c.stored(t).Status.Staging != nil })
			if want := map[bool]int64{true: 1, false: 2}[test.ranges]; c.requests.Load() != want { // without ranges, the second one has no range
				t.Errorf("%d requests for the beginning of the file", c.requests.Load())
			}
			c.drive(t, all, func() bool {
				for _, o := range c.objects(t) {
					if pod, is := o.(*corev1.Pod); is && imports.IsStager(imports.Servers.Suffix(pod)) {
						copies = pod
					}
				}
				return c.stored(t).Status.Progress == "25%"
			})
			if v := copies.Spec.Volumes; len(v) != 2 || v[1].PersistentVolumeClaim == nil || v[1].PersistentVolumeClaim.ReadOnly || v[1].PersistentVolumeClaim.ClaimName != copies.Name {
				t.Errorf("the pod that copies has the volumes %+v", v)
			}
			volume := &cdiv1beta1.DataVolume{}
			must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: catalogue, Name: copies.Name}, volume))
			if s := volume.Spec.Storage; volume.Spec.Source.Blank == nil || s.Resources.Requests.Storage().String() != "2Mi" || *s.StorageClassName != "fast" || *s.VolumeMode != corev1.PersistentVolumeFilesystem || len(s.AccessModes) > 0 {
				t.Errorf("the copy is in %+v", volume.Spec)
			}
			written, err := os.ReadFile(filepath.Join(c.nodes.folder, "disk.img"))
			must(t, err)
			if !bytes.Equal(written, file) {
				t.Error("the copy has other bytes")
			}
			if diff := cmp.Diff([]string{"s", "r", ""}, c.nodes.marks()); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			c.servesCopy(t)
			status := c.stored(t).Status
			if s := status.Source; !s.Verified || s.Size != int64(len(file)) || s.Digest != "sha256:"+sumOf(string(test.file)) || status.Staging.Compression != test.compression || len(status.Disks[0].Digests) != 1 {
				t.Errorf("got the status %+v, %+v, %+v", s, status.Staging, status.Disks)
			}
			c.endsWhole(t, all)
			if text := strings.Join(c.told, "\n"); strings.Count(text, "Normal Staging: ") != 1 {
				t.Errorf("events:\n%s", text)
			}
		})
	}
}

// marks are the first characters of the suffixes of the pods that started: of one that copies, of one that reads, and of one with disks.
func (n *nodes) marks() (marks []string) {
	for _, suffix := range n.started {
		marks = append(marks, strings.TrimRight(suffix[:1], "0123456789abcdef"))
	}
	return marks
}

// servesCopy holds that the pod of the disks mounts the copy without writing to it, connects to nothing, has no credentials, and compares
// the digests that the controller computed.
func (c *cluster) servesCopy(t *testing.T) {
	t.Helper()
	for _, o := range c.objects(t) {
		switch of := o.(type) {
		case *corev1.Pod:
			if v := of.Spec.Volumes; len(v) != 2 || !v[1].PersistentVolumeClaim.ReadOnly {
				t.Errorf("the pod of the disks has the volumes %+v", v)
			}
		case *networkingv1.NetworkPolicy:
			if len(of.Spec.PolicyTypes) != 2 || len(of.Spec.Egress) > 0 {
				t.Errorf("the pod of the disks connects to %+v", of.Spec)
			}
		case *corev1.Secret:
			if data := of.Data["plan.json"]; data != nil {
				plan, err := transfer.Parse(data)
				must(t, err)
				if f := plan.Files[0]; !f.Volume || f.URL != "" || plan.Credentials != nil || plan.Disks[0].Parts[0].Digest != c.stored(t).Status.Disks[0].Digests[0] {
					t.Errorf("got the plan %+v", plan)
				}
			}
		}
	}
}

// TestUnstaged holds that a file which can be read by ranges is not copied, although the import permits it.
func TestUnstaged(t *testing.T) {
	c := newStaged(t, ova(t, descriptor, true, false))
	c.withoutRanges.Store(false)
	c.nodes = nil
	c.drive(t, unbounded())
	if s := c.stored(t).Status; s.Staging != nil || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("got %+v", s)
	}
}

// TestStagingKills holds that an import with a copy converges after a kill at each write, whether its answer arrives or not.
func TestStagingKills(t *testing.T) {
	t.Parallel()
	file := gzipped(t, ova(t, descriptor, true, false))
	k := &killed{begin: func(t *testing.T) *cluster { return newStaged(t, file, require) }, want: whole, least: 28}
	k.converges(t)
}

// TestStagingDeletion holds that an import with a copy which is deleted after each write leaves nothing, or the whole template.
func TestStagingDeletion(t *testing.T) {
	t.Parallel()
	file := ova(t, descriptor, true, false)
	k := &killed{begin: func(t *testing.T) *cluster { return newStaged(t, file) }, want: whole, least: 26}
	k.leavesNothing(t)
}

// TestStagingEnds holds why imports with a copy fail, and that nothing of them is left.
func TestStagingEnds(t *testing.T) {
	good := ova(t, descriptor, true, false)
	small := func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Staging.Size = resource.MustParse("1Ki") }
	none := func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Staging = nil }
	other := ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), true, false)
	for name, test := range map[string]struct {
		file            []byte
		change          func(*v1beta1.VirtualMachineTemplateImport)
		prepare         func(*testing.T, *cluster)
		reason, message string
		left            []string
	}{
		"no ranges without permission":     {file: good, change: none, reason: "SourceWithoutRanges", message: "spec.source.http: the server does not send ranges of the file: set spec.staging.size, and Virtward copies it into a volume first"},
		"gzip without permission":          {file: gzipped(t, good), change: none, reason: v1beta1.ReasonNotImportable, message: "spec.source.http: NotAnArchive: the file is compressed with gzip: set spec.staging.size"},
		"zip":                              {file: []byte("PK\x03\x04" + strings.Repeat("x", 600)), reason: v1beta1.ReasonNotImportable, message: "compressed with zip, which is not read: decompress it first"},
		"xz, damaged":                      {file: xztest.Stored(good, 22)[:1000], reason: v1beta1.ReasonNotImportable, message: "spec.source.http: the compressed file is damaged or truncated"},
		"xz with a dictionary":             {file: xztest.Stored(good, 29), reason: v1beta1.ReasonNotImportable, message: "spec.source.http: xz needs a dictionary of more than 64 MiB: compress the file with one of the presets, such as xz -9"},
		"xz with a filter":                 {file: filtered(good), reason: v1beta1.ReasonNotImportable, message: "spec.source.http: xz has a filter for programs, which is not read"},
		"a page":                           {file: []byte("<html>" + strings.Repeat("x", 600)), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive: the file is not an OVA"},
		"too large":                        {file: good, change: small, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.staging.size: the file has "},
		"too large, decompressed":          {file: gzipped(t, good), change: small, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.staging.size: the OVA is larger"},
		"too large, without a size":        {file: good, change: small, prepare: func(_ *testing.T, c *cluster) { c.unsized.Store(true) }, reason: v1beta1.ReasonInvalidConfiguration, message: "spec.staging.size: the OVA is larger"},
		"damaged":                          {file: append(gzipped(t, good)[:200], "damaged"...), reason: v1beta1.ReasonNotImportable, message: "spec.source.http: the compressed file is damaged or truncated"},
		"not an appliance":                 {file: gzipped(t, []byte(strings.Repeat("x", 2000))), reason: v1beta1.ReasonNotImportable, message: "NotAnArchive"},
		"another checksum":                 {file: gzipped(t, good), change: func(r *v1beta1.VirtualMachineTemplateImport) { r.Spec.Checksum = "sha256:" + strings.Repeat("0", 64) }, reason: v1beta1.ReasonVerificationFailed, message: "spec.checksum: the file has the checksum sha256:"},
		"another manifest":                 {file: ova(t, descriptor, true, true), change: require, reason: v1beta1.ReasonVerificationFailed, message: "ManifestMismatch: a.vmdk"},
		"a redirect that is not permitted": {file: good, prepare: func(_ *testing.T, c *cluster) { c.nodes.exit = transfer.StageNotPermitted }, reason: "SourceNotPermitted", message: "spec.source.http: the server redirects to a host"},
		"a volume of others": {file: good, prepare: func(t *testing.T, c *cluster) {
			must(t, c.server.Create(t.Context(), &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: imports.CopyName(c.stored(t))}, Spec: cdiv1beta1.DataVolumeSpec{Source: &cdiv1beta1.DataVolumeSource{}}}))
		}, reason: v1beta1.ReasonNameTaken, message: "exists, and is not of this import", left: []string{"DataVolume of nothing"}},
		"a claim of others":              {file: good, prepare: func(_ *testing.T, c *cluster) { c.adopts = true }, reason: v1beta1.ReasonNameTaken, message: "existed before its DataVolume, so CDI wrote nothing to it: create the import again"},
		"a copy with another descriptor": {file: good, change: require, prepare: func(t *testing.T, c *cluster) { c.forges(t, other) }, reason: v1beta1.ReasonSourceChanged, message: "the file at the URL, or its copy in the volume, is not the one"},
		"a larger file for the controller": {file: good, change: require, prepare: func(t *testing.T, c *cluster) {
			c.drive(t, unbounded(), func() bool { s := c.stored(t).Status.Staging; return s != nil && s.Complete })
			larger := append(bytes.Clone(good), 0)
			c.file.Store(&larger)
		}, reason: v1beta1.ReasonSourceChanged, message: "the file at the URL, or its copy in the volume, is not the one"},
		"a bomb for the controller": {file: gzipped(t, good), change: require, prepare: func(t *testing.T, c *cluster) {
			c.drive(t, unbounded(), func() bool { s := c.stored(t).Status.Staging; return s != nil && s.Complete })
			larger := gzipped(t, append(bytes.Clone(good), make([]byte, 1<<20)...))
			c.file.Store(&larger)
		}, reason: v1beta1.ReasonSourceChanged, message: "the file at the URL, or its copy in the volume, is not the one"},
		"a copy that is deleted": {file: good, prepare: func(t *testing.T, c *cluster) {
			c.phase = cdiv1beta1.ImportInProgress
			c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Progress == "25%" })
			must(t, c.server.Delete(t.Context(), &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: imports.CopyName(c.stored(t))}}))
		}, reason: v1beta1.ReasonSourceChanged, message: "with the copy of the file is deleted"},
		"a file that is gone from the volume": {file: good, prepare: func(t *testing.T, c *cluster) {
			c.drive(t, unbounded(), func() bool { s := c.stored(t).Status.Staging; return s != nil && s.Complete })
			must(t, os.Remove(filepath.Join(c.nodes.folder, "disk.img")))
		}, reason: v1beta1.ReasonSourceChanged, message: "the copy of the file is not in its volume any more"},
	} {
		t.Run(name, func(t *testing.T) {
			change := test.change
			if change == nil {
				change = func(*v1beta1.VirtualMachineTemplateImport) {}
			}
			c := newStaged(t, test.file, change)
			if test.prepare != nil {
				test.prepare(t, c)
			}
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) || strings.Contains(fmt.Sprint(c.stored(t).Status, c.told), "what a user") {
				t.Errorf("got %+v", ended)
			}
			if diff := cmp.Diff(test.left, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCopied holds what is believed of a pod that says how far its copy is: who can execute programs in it controls that.
func TestCopied(t *testing.T) {
	for answer, want := range map[string]*transfer.StageStatus{
		`{"disks":[],"stage":{"done":5,"total":7}}`: {Done: 5, Total: 7},
		`{"disks":[]}`:   nil,
		`{"stage":null}`: nil,
		`[]`:             nil,
		strings.Repeat(" ", 1<<20) + `{"stage":{"done":1}}`: nil,
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		t.Cleanup(server.Close)
		at := &templateimport.Place{
			URL: server.URL + transfer.PathStatus, Address: server.Listener.Addr().String(), Token: "token",
			Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		}
		got, err := (&templateimport.LiveSource{}).Copied(t.Context(), at)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil) {
			t.Errorf("%.60s: %v (-want +got):\n%s", answer, err, diff)
		}
	}
}

// forges replaces the copy, as a user of the namespace with the claim can, before it is read.
func (c *cluster) forges(t *testing.T, file []byte) {
	t.Helper()
	c.drive(t, unbounded(), func() bool { s := c.stored(t).Status.Staging; return s != nil && s.Complete })
	must(t, os.WriteFile(filepath.Join(c.nodes.folder, "disk.img"), file, 0o600))
}

// TestStagingProgress holds that the status says how far a copy is, also while the pod does not answer, and that the import continues.
func TestStagingProgress(t *testing.T) {
	c := newStaged(t, ova(t, descriptor, true, false))
	var requests atomic.Int64
	c.nodes.copying = func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, `{"disks":[],"stage":{"done":5,"total":7}}`)
	}
	r := c.controller(t, unbounded())
	c.driveBy(t, r, func() bool {
		found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing)
		return requests.Load() > 1 && found.Reason == v1beta1.ReasonStaging && strings.HasPrefix(found.Message, "5 B of 7 B of the file are copied into DataVolume catalogue/")
	})
	c.nodes.copying = nil
	c.driveBy(t, r)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v; left (-want +got):\n%s", c.completed(t), diff)
	}
}

// TestVolumeLost holds that an import fails whose file has to be read again after its template was created, but which has no claim any more:
// without a template, other steps find it.
func TestVolumeLost(t *testing.T) {
	file := ova(t, descriptor, true, false)
	for name, begin := range map[string]func(*testing.T) *cluster{
		"of the copy":   func(t *testing.T) *cluster { return newStaged(t, file) },
		"of the source": func(t *testing.T) *cluster { return newClaim(t, "disk.img", file) },
	} {
		t.Run(name, func(t *testing.T) {
			all := unbounded()
			begin(t).drive(t, all)
			template := slices.Index(all.Accepted(), "POST VirtualMachineTemplate/"+catalogue+"/quay")
			c := begin(t)
			c.drive(t, &kills.Connection{Left: template + 1})
			if c.stored(t).Status.TemplateRef != nil || c.left(t)[len(c.left(t))-1] != "VirtualMachineTemplate of nothing" {
				t.Fatalf("left: %q", c.left(t))
			}
			for _, o := range append(c.objects(t), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "upload"}}) {
				if _, is := o.(*v1beta1.VirtualMachineTemplate); !is {
					must(t, client.IgnoreNotFound(c.server.Delete(t.Context(), o)))
				}
			}
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Reason != v1beta1.ReasonSourceChanged || ended.Message != "the volume with the file is deleted: create the import again" {
				t.Errorf("got %+v", ended)
			}
			if left := c.left(t); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

// TestStagingWaits holds what the status says while a file cannot be copied, and that the import continues.
func TestStagingWaits(t *testing.T) {
	c := newStaged(t, ova(t, descriptor, true, false))
	r := c.controller(t, unbounded())
	says := func(reason, message string) {
		t.Helper()
		c.driveBy(t, r, func() bool {
			found := meta.FindStatusCondition(c.stored(t).Status.Conditions, v1beta1.RequestProgressing)
			return found != nil && found.Reason == reason && strings.Contains(found.Message, message)
		})
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: catalogue, Name: "small"}, Status: corev1.ResourceQuotaStatus{
		Hard: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("1Mi")},
	}}
	must(t, c.server.Create(t.Context(), quota))
	says(v1beta1.ReasonQuotaExceeded, "ResourceQuota small: the volumes need 2Mi of requests.storage, and 1Mi are left")
	if left := c.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	must(t, c.server.Delete(t.Context(), quota))
	for _, end := range []struct {
		code    transfer.StageExit
		message string
	}{
		{transfer.StageUnavailable, "the server does not send the whole file"},
		{transfer.StageUnwritable, "the volume cannot be written"},
		{1, "the program ended with the code 1"},
		{137, "the program ended with the code 137"},
	} {
		c.nodes.exit = end.code
		says(v1beta1.ReasonStaging, "failed, and is tried again: "+end.message)
	}
	c.clock.SetTime(c.clock.Now().Add(10 * time.Minute)) // longer than the deadline of reading
	c.nodes.exit = 0
	c.driveBy(t, r)
	if diff := cmp.Diff(whole, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("%+v; left (-want +got):\n%s", c.completed(t), diff)
	}
}
