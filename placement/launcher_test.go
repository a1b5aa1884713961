package placement_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

// TestFields: reasons name the field of the instance and the layer behind them.
func TestFields(t *testing.T) {
	facts := platform.Defaults(platform.Settings{})
	vmi := object[v1.VirtualMachineInstance](t, `
metadata: {name: db, namespace: shop}
spec:
  architecture: amd64
  nodeSelector: {disk: ssd}
  domain:
    cpu: {cores: 60, model: Haswell}
    memory: {guest: 16Gi}
    machine: {type: q35}
    devices: {gpus: [{name: g, deviceName: example.com/gpu}]}
`)
	changes := []provenance.Change{
		{Path: "spec.domain.cpu.cores", Layer: "base"}, {Path: "spec.domain.memory.guest", Layer: "instancetype/u1.large"}, {Path: "spec.domain.machine.type", Layer: "amd64"},
	}
	result, err := launcher.Render(&launcher.Input{VMI: launcher.Started(vmi, facts), Facts: facts, Renderer: launcher.NewBaseRenderer("amd64"), Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: objects[corev1.Node](t, two)[1:]})
	if err != nil {
		t.Fatal(err)
	}
	p := snapshot.Place(&placement.Subject{Pod: result.Pod, Launcher: result, VMI: vmi, Changes: changes})
	type brief struct{ Field, Layer, Text, Change string }
	got := map[string]brief{}
	for _, r := range p.Reasons(0) {
		got[r.Text] = brief{r.Field, r.Layer, r.Rule, r.Change}
	}
	want := map[string]brief{
		"needs 6005m of CPU; 4 of 4 is free": {"spec.domain.cpu", "base", "", "request 2005m less with spec.domain.cpu: the node is too small even when it is empty"},
		"needs 17.77Gi of memory, 1.74Gi of it KubeVirt's overhead; 8Gi of 8Gi is free": {
			"spec.domain.memory.guest", "instancetype/u1.large", "", "use an instancetype with 9.77Gi less memory than u1.large: the node is too small even when it is empty",
		},
		"the node has no example.com/gpu, and the pod needs 1":                                                           {"spec.domain.devices.gpus[0]", "", "", "install the device plugin of example.com/gpu on the node, or remove the device"},
		"the node has no devices.kubevirt.io/kvm, and the pod needs 1":                                                   {"", "", "each virtual machine needs the hypervisor's device", "check that virt-handler runs on the node, and that the node has the device"},
		"the node does not support the CPU model Haswell":                                                                {"spec.domain.cpu.model", "", "a named CPU model", "use a CPU model that the node supports, or change spec.domain.cpu.model"},
		"the node does not support the machine type q35":                                                                 {"spec.domain.machine.type", "amd64", "the machine type", "use a machine type that the node supports, or change spec.domain.machine.type"},
		"the node lacks the label disk=ssd":                                                                              {"spec.nodeSelector", "", "the node selector of the instance", "label the node disk=ssd, or change spec.nodeSelector"},
		"the node lacks the label kubernetes.io/arch=amd64":                                                              {"spec.architecture", "", "the architecture of the guest", "label the node kubernetes.io/arch=amd64, or change spec.architecture"},
		"the node has no devices.kubevirt.io/tun, and the pod needs 1":                                                   {"spec.domain.devices.interfaces", "", "", "check that virt-handler runs on the node, and that the node has the device"},
		"KubeVirt cannot start virtual machines on the node: virt-handler does not mark it kubevirt.io/schedulable=true": {"", "", "KubeVirt runs on nodes that virt-handler marks", "check the virt-handler pod of the node"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzPlace: no pod and no cluster makes it panic, and each node that does not fit has a reason with a text.
func FuzzPlace(f *testing.F) {
	f.Add(`{"spec":{"nodeSelector":{"a":"b"},"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`, `{"Nodes":[{"metadata":{"name":"a"}}],"Pods":[{"spec":{"nodeName":"a"}}]}`)
	f.Add(`{"metadata":{"namespace":"x"},"spec":{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","labelSelector":{}}]}}`,
		`{"Nodes":[{"metadata":{"name":"a","labels":{"z":"1"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}],"Claims":[{"metadata":{"namespace":"x","name":"c"},"spec":{"storageClassName":"s"}}],"Classes":[{"metadata":{"name":"s"},"volumeBindingMode":"WaitForFirstConsumer"}],"Quotas":[{"metadata":{"namespace":"x"},"spec":{"hard":{"limits.cpu":"1"}}}]}`)
	f.Fuzz(func(t *testing.T, podText, clusterText string) {
		pod, cluster := &corev1.Pod{}, &placement.Cluster{}
		if json.Unmarshal([]byte(podText), pod) != nil || json.Unmarshal([]byte(clusterText), cluster) != nil || hasNil(cluster) {
			t.Skip()
		}
		snapshot, err := placement.NewSnapshot(cluster)
		if err != nil {
			t.Skip()
		}
		p := snapshot.Place(&placement.Subject{Pod: pod})
		for i := range p.Len() {
			reasons := p.Reasons(i)
			if p.Fits(i) != (len(reasons) == 0) || len(reasons) > placement.MaxReasons {
				t.Fatalf("%s: fits %v with %d reasons", p.Node(i), p.Fits(i), len(reasons))
			}
			for _, r := range reasons {
				if r.Text == "" || r.Plugin == "" || r.Kind == "" {
					t.Fatalf("%s: %+v", p.Node(i), r)
				}
			}
		}
	})
}

// FuzzCheck: no virtual machine and no nodes make the way from an instance to its nodes panic, exceed its bounds or contradict itself. The
// seeds have the shapes of the recorded pods.
func FuzzCheck(f *testing.F) {
	recorded, err := os.Open("../conformance/testdata/pods/pod.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	defer recorded.Close()
	lines := bufio.NewScanner(recorded)
	lines.Buffer(nil, 1<<20)
	areas := map[string]bool{}
	for lines.Scan() {
		var c struct {
			Area string          `json:"area"`
			VMI  json.RawMessage `json:"vmi"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			f.Fatal(err)
		}
		if !areas[c.Area] { // one of each kind
			areas[c.Area] = true
			f.Add(string(c.VMI), `[{"metadata":{"name":"a","labels":{"kubernetes.io/arch":"amd64","host-model-cpu.node.kubevirt.io/Haswell":"true","cpu-model-migration.node.kubevirt.io/Haswell":"true"}},"status":{"allocatable":{"cpu":"8","memory":"16Gi","pods":"9"}}},{"metadata":{"name":"b"}}]`)
		}
	}
	if err := lines.Err(); err != nil || len(areas) < 5 {
		f.Fatal(err, areas)
	}
	f.Add(`{"spec":{"nodeSelector":{"a":"b"},"resourceClaims":[{"name":"c"},{"name":"d","resourceClaimName":"e"}],"domain":{"cpu":{"sockets":4294967295,"cores":4294967295}}}}`, `[{"metadata":{"name":"a"},"spec":{"taints":[{}]}}]`)
	facts := platform.Defaults(platform.Settings{})
	f.Fuzz(func(t *testing.T, vmiText, nodesText string) {
		vmi, cluster := &v1.VirtualMachineInstance{}, &placement.Cluster{Unknown: placement.Nothing()}
		if json.Unmarshal([]byte(vmiText), vmi) != nil || json.Unmarshal([]byte(nodesText), &cluster.Nodes) != nil || hasNil(cluster) {
			t.Skip()
		}
		started := launcher.Started(vmi, facts)
		result, err := launcher.Render(&launcher.Input{VMI: started, Facts: facts, Renderer: launcher.NewBaseRenderer("amd64")})
		if err != nil {
			t.Skip()
		}
		snapshot, err := placement.NewSnapshot(cluster)
		if err != nil {
			t.Skip()
		}
		p := snapshot.Place(&placement.Subject{Pod: result.Pod, Launcher: result, VMI: started})
		fitting := 0
		for i := range p.Len() {
			reasons := p.Reasons(i)
			if p.Fits(i) {
				fitting++
			}
			if p.Fits(i) != (len(reasons) == 0) || len(reasons) > placement.MaxReasons || p.Fits(i) && !p.Could(i) {
				t.Fatalf("%s: fits %v, could %v, with %d reasons", p.Node(i), p.Fits(i), p.Could(i), len(reasons))
			}
		}
		if fitting != p.Fitting() || p.Never() && fitting > 0 || len(p.NotChecked) != len(vmi.Spec.ResourceClaims) {
			t.Fatalf("%d of %d nodes, never %v, not checked %v", fitting, p.Fitting(), p.Never(), p.NotChecked)
		}
		for _, ofHost := range []bool{false, true} {
			if n, known := p.MoveTargets(ofHost); n < 0 || n > max(0, p.Len()-1) || !known && n != 0 {
				t.Fatalf("%d targets of %d nodes", n, p.Len())
			}
		}
		for _, g := range p.Groups() {
			if g.Nodes < 1 || g.Nodes > p.Len() || g.Only > g.Nodes {
				t.Fatalf("a group of %d nodes, %d of them only: %d nodes", g.Nodes, g.Only, p.Len())
			}
		}
	})
}

// TestMoves: an answer that is remembered is that of a pod of the same shape.
func TestMoves(t *testing.T) {
	const pods = `
- {metadata: {name: small}, spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: like-small}, spec: {containers: [{name: other, image: x, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: limit}, spec: {containers: [{name: c, resources: {limits: {cpu: "9"}}}]}}
- {metadata: {name: before}, spec: {initContainers: [{name: i, resources: {requests: {cpu: "9"}}}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: beside}, spec: {initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: "3500m"}}}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: overhead}, spec: {overhead: {cpu: "4"}, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: selector}, spec: {nodeSelector: {disk: ssd}, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: node}, spec: {nodeName: b, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: affinity}, spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: DoesNotExist}]}]}}}, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: spread}, spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
- {metadata: {name: tolerates}, spec: {tolerations: [{key: k, operator: Exists}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
`
	nodes := append(objects[corev1.Node](t, two), objects[corev1.Node](t, `
- metadata: {name: c, labels: {kubernetes.io/hostname: c}}
  spec: {taints: [{key: k, effect: NoSchedule}]}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", ephemeral-storage: 10Gi}}
`)...)
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: nodes, Unknown: placement.Nothing()})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[int]bool{}
	for range 2 {
		for _, pod := range objects[corev1.Pod](t, pods) {
			for _, ofHost := range []bool{false, true} {
				s := &placement.Subject{Pod: pod}
				want, known := snapshot.Place(s).MoveTargets(ofHost)
				got, alsoKnown := snapshot.Moves(s, ofHost)
				if counts[want] = true; got != want || known != alsoKnown {
					t.Errorf("%s: %d targets, want %d", pod.Name, got, want)
				}
			}
		}
	}
	if len(counts) != 3 {
		t.Errorf("the pods have only these numbers of targets: %v", counts)
	}
}

// TestDeviceClaims: allocated ResourceClaims decide about nodes, and the others are named.
func TestDeviceClaims(t *testing.T) {
	const allocated = `[{metadata: {namespace: shop, name: gpu}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}}}}, {metadata: {namespace: shop, name: wide}, status: {allocation: {}}}, {metadata: {namespace: shop, name: free}}, {metadata: {namespace: other, name: gone}}]`
	pod := func(claims string) string {
		return `{metadata: {namespace: shop}, spec: {resourceClaims: [` + claims + `], containers: [{name: c}]}}`
	}
	const elsewhere = "a: DynamicResources AllocatedElsewhere: the devices of the ResourceClaim gpu are allocated on nodes with metadata.name in b -> stop the pods that use it, so that it can be allocated again, or use another claim\nb: fits"
	for _, c := range []struct {
		name, pod  string
		unknown    bool
		want       string
		notChecked []string
	}{
		{"allocated on a node", pod(`{name: a, resourceClaimName: gpu}`), false, elsewhere, nil},
		{"allocated on all nodes", pod(`{name: a, resourceClaimName: wide}`), false, "a: fits\nb: fits", nil},
		{"not allocated", pod(`{name: a, resourceClaimName: free}, {name: b, resourceClaimTemplateName: nics}`), false, "a: fits\nb: fits", []string{"the ResourceClaim free", "a ResourceClaim of the template nics"}},
		{"both", pod(`{name: a, resourceClaimName: gpu}, {name: b, resourceClaimTemplateName: nics}`), false, elsewhere, []string{"a ResourceClaim of the template nics"}},
		{
			"none of the namespace", pod(`{name: a, resourceClaimName: gone}`), false,
			"a: DynamicResources DeviceClaimNotFound: there is no ResourceClaim gone -> create it, or name another one\nb: DynamicResources DeviceClaimNotFound: there is no ResourceClaim gone -> create it, or name another one", nil,
		},
		{"made of a template", `{metadata: {namespace: shop}, spec: {resourceClaims: [{name: a, resourceClaimTemplateName: nics}], containers: [{name: c}]}, status: {resourceClaimStatuses: [{name: a, resourceClaimName: gpu}]}}`, false, elsewhere, nil},
		{"not read", pod(`{name: a, resourceClaimName: gpu}, {name: b, resourceClaimTemplateName: nics}`), true, "a: fits\nb: fits", []string{"the ResourceClaim gpu", "a ResourceClaim of the template nics"}},
	} {
		cluster := &placement.Cluster{Nodes: objects[corev1.Node](t, two)}
		if cluster.Unknown.DeviceClaims = c.unknown; !c.unknown {
			cluster.DeviceClaims = objects[resourcev1.ResourceClaim](t, allocated)
		}
		snapshot, err := placement.NewSnapshot(cluster)
		if err != nil {
			t.Fatal(err)
		}
		p := snapshot.Place(&placement.Subject{Pod: object[corev1.Pod](t, c.pod)})
		if diff := cmp.Diff(c.notChecked, p.NotChecked); diff != "" || reasonsOf(p) != c.want {
			t.Errorf("%s: %s %s", c.name, reasonsOf(p), diff)
		}
	}
}

// hasNil reports whether a list has an element without an object, which JSON can have and no cluster has.
func hasNil(c *placement.Cluster) bool {
	return anyNil(c.Nodes) || anyNil(c.Pods) || anyNil(c.Namespaces) || anyNil(c.Claims) || anyNil(c.Volumes) || anyNil(c.Classes) || anyNil(c.CSINodes) ||
		anyNil(c.DeviceClaims) || anyNil(c.Quotas) || anyNil(c.LimitRanges) || anyNil(c.PriorityClasses)
}

func anyNil[T any](all []*T) bool {
	for _, one := range all {
		if one == nil {
			return true
		}
	}
	return false
}
