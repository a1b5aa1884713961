package labeller_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/nodelabels"
	"github.com/virtward/virtward/nodes/labeller"
	"github.com/virtward/virtward/test/isolated"
)

const document = `<domainCapabilities><domain>kvm</domain><arch>x86_64</arch><vcpu max='8'/></domainCapabilities>`

// nodes is a simulator of the API server's nodes.
type nodes struct {
	node    *corev1.Node
	patches []string
	err     error
}

func (n *nodes) Get(context.Context, string, metav1.GetOptions) (*corev1.Node, error) {
	return n.node, n.err
}

func (n *nodes) Patch(_ context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*corev1.Node, error) {
	if name != "node1" || kind != types.ApplyPatchType || o.FieldManager != "virtward-node-labeller" || len(sub) > 0 {
		return nil, errors.New("another patch")
	}
	n.patches = append(n.patches, string(data))
	patch := &corev1.Node{}
	if err := json.Unmarshal(data, patch); err != nil {
		return nil, err
	}
	for key := range n.node.Labels {
		if nodelabels.IsOwn(key) {
			delete(n.node.Labels, key)
		}
	}
	maps.Copy(n.node.Labels, patch.Labels)
	return n.node, nil
}

// devices is a simulator of devices.
type devices map[string]nodelabels.Access

func (d devices) Probe(name string) nodelabels.Access { return d[name] }

type fixture struct {
	*labeller.Labeller

	host     *labeller.Host
	nodes    *nodes
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	labellers, err := registry.Labellers("amd64")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "virsh_domcapabilities.xml"), []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		host: &labeller.Host{
			Sys:  fstest.MapFS{"class/misc/kvm/dev": {Data: []byte("10:232\n")}, "class/misc/tun/dev": {Data: []byte("10:200\n")}},
			Proc: fstest.MapFS{"cpuinfo": {Data: []byte("flags : svm\n")}}, Documents: folder, Probe: devices{"kvm": nodelabels.Works}, Architecture: "amd64",
		},
		nodes: &nodes{node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"a": "b", "kvm.node.virtward.io/old": "true"}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"devices.kubevirt.io/kvm": resource.MustParse("1k")}},
		}},
		clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), registry: prometheus.NewRegistry(),
	}
	f.Labeller, err = labeller.New(labeller.Options{Node: "node1", Interval: time.Minute, Labellers: labellers}, f.host, f.nodes, f.clock, logr.Discard(), f.registry)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPass(t *testing.T) {
	f := newFixture(t)
	changed, err := f.Pass(t.Context())
	if err != nil || !changed {
		t.Fatalf("changed %t, error %v", changed, err)
	}
	want := map[string]string{
		"a": "b", "hypervisor.node.virtward.io/kvm": "ready", "hypervisor.node.virtward.io/mshv": "no-device",
		"device.node.virtward.io/kvm": "ready", "device.node.virtward.io/mshv": "no-device", "device.node.virtward.io/tun": "no-resource",
		"device.node.virtward.io/vhost-net": "no-device", "device.node.virtward.io/vhost-vsock": "no-device",
		"kvm.node.virtward.io/max-vcpus": "8", "cpu.node.virtward.io/virtualization": "svm",
	}
	if diff := cmp.Diff(want, f.nodes.node.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if strings.Contains(f.nodes.patches[0], `"a"`) {
		t.Errorf("the patch has a foreign label: %s", f.nodes.patches[0])
	}
	if changed, err := f.Pass(t.Context()); err != nil || changed || len(f.nodes.patches) != 1 {
		t.Errorf("a second pass changes the node: %t, error %v", changed, err)
	}
}

// TestErrors holds that labels stay as they are while the facts cannot be read.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fixture)
		want   string
	}{
		{"a document that is being written", func(f *fixture) {
			_ = os.WriteFile(filepath.Join(f.host.Documents, "virsh_domcapabilities.xml"), []byte(document[:40]), 0o600)
		}, "virsh_domcapabilities.xml: not an XML document"},
		{"another document", func(f *fixture) {
			_ = os.WriteFile(filepath.Join(f.host.Documents, "virsh_domcapabilities.xml"), []byte("<cpu/>"), 0o600)
		}, "virsh_domcapabilities.xml: it has no domain capabilities"},
		{"too large a document", func(f *fixture) {
			_ = os.WriteFile(filepath.Join(f.host.Documents, "virsh_domcapabilities.xml"), []byte(strings.Repeat(" ", 2<<20)), 0o600)
		}, "the document has 1048577 bytes, more than 1048576"},
		{"no CPU", func(f *fixture) { f.host.Proc = fstest.MapFS{} }, "reading /proc/cpuinfo"},
		{"no API server", func(f *fixture) { f.nodes.err = errors.New("no route") }, "reading the node: no route"},
	} {
		f := newFixture(t)
		tc.change(f)
		if _, err := f.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) || len(f.nodes.patches) > 0 {
			t.Errorf("%s: error %v, want %q; patches %v", tc.name, err, tc.want, f.nodes.patches)
		}
	}
}

// TestWithoutDocuments holds that a node on which virt-handler does not run has labels.
func TestWithoutDocuments(t *testing.T) {
	f := newFixture(t)
	f.host.Documents = t.TempDir()
	if _, err := f.Pass(t.Context()); err != nil || f.nodes.node.Labels["hypervisor.node.virtward.io/kvm"] != "ready" || f.nodes.node.Labels["kvm.node.virtward.io/max-vcpus"] != "" {
		t.Errorf("error %v, labels %v", err, f.nodes.node.Labels)
	}
}

func TestRun(t *testing.T) {
	f := newFixture(t)
	if err := f.Ready(); err == nil || err.Error() != "the node was not read yet" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	waiting := func() {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !f.clock.HasWaiters(); {
			if time.Now().After(deadline) {
				t.Fatal("the labeller does not wait")
			}
			runtime.Gosched()
		}
	}
	waiting()
	if err := f.Ready(); err != nil {
		t.Error(err)
	}
	f.nodes.err = errors.New("no route")
	for range 4 {
		f.clock.Step(2 * time.Minute)
		waiting()
	}
	if err := f.Ready(); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("error %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if count := testutil.CollectAndCount(f.registry, "virtward_node_labeller_passes_total"); count != 3 {
		t.Errorf("%d series", count)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]labeller.Options{
		"the name of the node is empty":               {Interval: time.Minute},
		"an interval of 1ms is shorter than a second": {Node: "a", Interval: time.Millisecond},
	} {
		if _, err := labeller.New(o, nil, nil, nil, logr.Discard(), prometheus.NewRegistry()); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestProbe simulates the ioctl of /dev/kvm, which no test has.
func TestProbe(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"kvm", "mshv", "forbidden"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "broken"), 0o700); err != nil {
		t.Fatal(err)
	}
	answer := func(version uintptr, err error) labeller.Ioctl {
		return func(_, request, _ uintptr) (uintptr, error) {
			if request != 0xAE00 {
				t.Errorf("request %#x", request)
			}
			return version, err
		}
	}
	for _, tc := range []struct {
		device string
		ioctl  labeller.Ioctl
		want   nodelabels.Access
	}{
		{"kvm", answer(12, nil), nodelabels.Works},
		{"kvm", answer(11, nil), nodelabels.Fails},
		{"kvm", answer(0, syscall.ENODEV), nodelabels.Fails},
		{"kvm", nil, nodelabels.Fails}, // a file knows no such request
		{"mshv", nil, nodelabels.Works},
		{"absent", nil, nodelabels.NotOpened},
		{"broken", nil, nodelabels.Fails},
	} {
		if got := (labeller.Devices{Folder: folder, Ioctl: tc.ioctl}).Probe(tc.device); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.device, got, tc.want)
		}
	}
}

// TestWorstCase holds that the bound of parsed documents covers the worst ones.
func TestWorstCase(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	bound := labeller.WorstCase()[0].Bytes
	for name, text := range map[string]string{
		"elements":   "<domainCapabilities>" + strings.Repeat("<a/>", 99_990) + "</domainCapabilities>",
		"attributes": "<domainCapabilities" + attributes(150_000) + "/>",
		"text":       "<domainCapabilities>" + strings.Repeat("a<!---->", 130_000) + "</domainCapabilities>",
	} {
		before := isolated.Heap()
		parsed, err := nodelabels.ParseDocument([]byte(text))
		used := isolated.Heap() - before + int64(len(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if used > bound {
			t.Errorf("%s: %d MiB of %d bytes, more than %d", name, used>>20, len(text), bound>>20)
		}
		runtime.KeepAlive(parsed)
	}
}

func attributes(count int) string {
	var b strings.Builder
	for range count {
		b.WriteString(` a=""`)
	}
	return b.String()
}
