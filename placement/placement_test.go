package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/placement"
)

// objects reads a list of objects in YAML.
func objects[T any](t testing.TB, text string) []*T {
	t.Helper()
	var all []*T
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func object[T any](t testing.TB, text string) *T {
	t.Helper()
	one := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), one); err != nil {
		t.Fatal(err)
	}
	return one
}

// two are nodes with room for a small pod.
const two = `
- metadata: {name: a, labels: {kubernetes.io/hostname: a, topology.kubernetes.io/zone: east, disk: ssd}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", ephemeral-storage: 10Gi}}
- metadata: {name: b, labels: {kubernetes.io/hostname: b, topology.kubernetes.io/zone: west}}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10", ephemeral-storage: 10Gi}}
`

// reasonsOf are the reasons of all nodes, a line for each, and first those for which the pod is not created.
func reasonsOf(p *placement.Placement) string {
	var lines []string
	line := func(node string, r *placement.Reason) {
		lasting := ""
		if r.Lasting {
			lasting = " (lasting)"
		}
		lines = append(lines, fmt.Sprintf("%s: %s %s%s: %s -> %s", node, r.Plugin, r.Kind, lasting, r.Text, r.Change))
	}
	for i := range p.Creation {
		line("-", &p.Creation[i])
	}
	for i := range p.Len() {
		if p.Fits(i) {
			lines = append(lines, p.Node(i)+": fits")
		}
		for _, r := range p.Reasons(i) {
			line(p.Node(i), &r)
		}
	}
	return strings.Join(lines, "\n")
}

// claimed are a claim with the volume mine, and its storage class.
func claimed(t *testing.T, c *placement.Cluster, claim, volume string) {
	t.Helper()
	c.Claims = objects[corev1.PersistentVolumeClaim](t, claim)
	c.Volumes = objects[corev1.PersistentVolume](t, volume)
	c.Classes = objects[storagev1.StorageClass](t, `
- {metadata: {name: late}, provisioner: example.com/csi, volumeBindingMode: WaitForFirstConsumer, allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [west]}]}]}
- {metadata: {name: local}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
- {metadata: {name: everywhere}, provisioner: example.com/csi, volumeBindingMode: WaitForFirstConsumer}
- {metadata: {name: now}, provisioner: example.com/csi, volumeBindingMode: Immediate}
`)
}

const bound = `[{metadata: {namespace: shop, name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}, spec: {volumeName: v1, accessModes: [%s]}}]`

func TestPlace(t *testing.T) {
	pods := func(text string) func(*testing.T, *placement.Cluster) {
		return func(t *testing.T, c *placement.Cluster) { c.Pods = objects[corev1.Pod](t, text) }
	}
	node := func(change func(a *corev1.Node)) func(*testing.T, *placement.Cluster) {
		return func(_ *testing.T, c *placement.Cluster) { change(c.Nodes[0]) }
	}
	mounts := `spec: {containers: [{name: compute}], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}`
	for _, c := range []struct {
		name, pod string
		cluster   func(*testing.T, *placement.Cluster)
		want      string
	}{
		{"fits", `spec: {containers: [{name: compute, resources: {requests: {cpu: "1", memory: 1Gi}}}]}`, nil, "a: fits\nb: fits"},
		{"a node by name", `spec: {nodeName: b}`, nil, "a: NodeName OtherNode (lasting): the pod names the node b -> \nb: fits"},
		{"cordoned", `{}`, node(func(a *corev1.Node) { a.Spec.Unschedulable = true }), "a: NodeUnschedulable Unschedulable: the node is cordoned -> kubectl uncordon a\nb: fits"},
		{"cordoned and tolerated", `spec: {tolerations: [{operator: Exists}]}`, node(func(a *corev1.Node) { a.Spec.Unschedulable = true }), "a: fits\nb: fits"},
		{"a taint", `{}`, node(func(a *corev1.Node) {
			a.Spec.Taints = []corev1.Taint{{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
		}), "a: TaintToleration UntoleratedTaint (lasting): the node has the taint gpu=yes:NoSchedule, which the virtual machine does not tolerate -> add a toleration of gpu to spec.tolerations, or remove the taint\nb: fits"},
		{"a taint of Kubernetes", `{}`, node(func(a *corev1.Node) {
			a.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		}), "a: TaintToleration UntoleratedTaint: the node has the taint node.kubernetes.io/not-ready:NoSchedule, which the virtual machine does not tolerate -> repair the node: Kubernetes removes this taint itself\nb: fits"},
		{
			"a selector", `spec: {nodeSelector: {disk: ssd, kubevirt.io/schedulable: "true"}}`, node(func(a *corev1.Node) { a.Labels["kubevirt.io/schedulable"] = "true" }),
			"a: fits\n" +
				"b: NodeAffinity LabelMismatch (lasting): the node lacks the label disk=ssd -> label the node disk=ssd\n" +
				"b: NodeAffinity LabelMismatch: KubeVirt cannot start virtual machines on the node: virt-handler does not mark it kubevirt.io/schedulable=true -> check the virt-handler pod of the node",
		},
		{"a CPU model", `spec: {nodeSelector: {cpu-model.node.kubevirt.io/Skylake: "true"}}`, node(func(a *corev1.Node) {
			for _, model := range []string{"Penryn", "Haswell", "Nehalem", "Opteron_G1", "Westmere"} {
				a.Labels["cpu-model.node.kubevirt.io/"+model] = "true"
			}
		}), "a: NodeAffinity LabelMismatch (lasting): the node does not support the CPU model Skylake -> use a CPU model that the node supports\n" +
			"b: NodeAffinity LabelMismatch (lasting): the node does not support the CPU model Skylake -> use a CPU model that the node supports"},
		{
			"an expression", `spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [hdd, ssd]}, {key: topology.kubernetes.io/zone, operator: NotIn, values: [east]}]}]}}}}`, nil,
			"a: NodeAffinity LabelMismatch (lasting): the node has the label topology.kubernetes.io/zone=east, and the node affinity demands topology.kubernetes.io/zone not in east -> change the label of the node, or spec.affinity.nodeAffinity\n" +
				"b: NodeAffinity LabelMismatch (lasting): the node affinity demands disk in hdd, ssd -> label the node, or change spec.affinity.nodeAffinity",
		},
		{
			"terms", `spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}, {matchFields: [{key: metadata.name, operator: In, values: [a]}]}, {matchExpressions: [{key: disk, operator: Gt, values: [x]}]}]}}}}`, nil,
			"a: fits\nb: NodeAffinity LabelMismatch (lasting): the node matches none of the 3 terms of the node affinity -> label the node, or change spec.affinity.nodeAffinity",
		},
		{
			"ports", `spec: {containers: [{name: c, ports: [{hostPort: 80}]}]}`, pods(`[{metadata: {name: p, namespace: x}, spec: {nodeName: b, containers: [{name: c, ports: [{hostPort: 80, protocol: TCP, hostIP: 10.0.0.1}]}]}}]`),
			"a: fits\nb: NodePorts PortInUse: port 80/TCP of the node is in use -> use another port",
		},
		{
			"too little", `spec: {containers: [{name: c, resources: {requests: {cpu: 2500m, memory: 9Gi}, limits: {example.com/gpu: "2"}}}]}`, pods(`[{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: "2"}}}]}}, {metadata: {name: ended}, spec: {nodeName: b, containers: [{name: c, resources: {requests: {cpu: "4"}}}]}, status: {phase: Succeeded}}]`),
			"a: NodeResourcesFit Insufficient: needs 2500m of CPU; 2 of 4 is free -> free 500m on the node, or request 500m less\n" +
				"a: NodeResourcesFit Insufficient (lasting): needs 9Gi of memory; 8Gi of 8Gi is free -> request 1Gi less: the node is too small even when it is empty\n" +
				"a: NodeResourcesFit Insufficient (lasting): the node has no example.com/gpu, and the pod needs 2 -> install the device plugin of example.com/gpu on the node, or remove the device\n" +
				"b: NodeResourcesFit Insufficient (lasting): needs 9Gi of memory; 8Gi of 8Gi is free -> request 1Gi less: the node is too small even when it is empty\n" +
				"b: NodeResourcesFit Insufficient (lasting): the node has no example.com/gpu, and the pod needs 2 -> install the device plugin of example.com/gpu on the node, or remove the device",
		},
		{
			"init containers and sidecars", `spec: {initContainers: [{name: side, restartPolicy: Always, resources: {requests: {cpu: "1"}}}, {name: once, resources: {requests: {cpu: 3500m}}}], containers: [{name: c, resources: {requests: {cpu: "1"}}}]}`, nil,
			"a: NodeResourcesFit Insufficient (lasting): needs 4500m of CPU; 4 of 4 is free -> request 500m less: the node is too small even when it is empty\n" +
				"b: NodeResourcesFit Insufficient (lasting): needs 4500m of CPU; 4 of 4 is free -> request 500m less: the node is too small even when it is empty",
		},
		{
			"huge pages", `spec: {containers: [{name: c, resources: {requests: {hugepages-2Mi: 1Gi}}}]}`, node(func(a *corev1.Node) { a.Status.Allocatable["hugepages-2Mi"] = quantity("512Mi") }),
			"a: NodeResourcesFit Insufficient (lasting): needs 1Gi of huge pages of 2Mi; 512Mi of 512Mi is free -> request 512Mi less: the node is too small even when it is empty\n" +
				"b: NodeResourcesFit Insufficient (lasting): needs 1Gi of huge pages of 2Mi; 0 of 0 is free -> request 1Gi less: the node is too small even when it is empty",
		},
		{"too many pods", `{}`, func(t *testing.T, c *placement.Cluster) {
			c.Nodes[0].Status.Allocatable["pods"] = quantity("1")
			c.Pods = objects[corev1.Pod](t, `[{metadata: {name: p}, spec: {nodeName: a}}]`)
		}, "a: NodeResourcesFit TooManyPods: the node runs 1 pods, of at most 1 -> move a pod to another node\nb: fits"},
		{
			"spread", `{metadata: {namespace: shop, labels: {app: db}}, spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}, {maxSkew: 1, topologyKey: x, whenUnsatisfiable: ScheduleAnyway}]}}`,
			pods(`[{metadata: {name: p, namespace: shop, labels: {app: db}}, spec: {nodeName: a}}, {metadata: {name: q, namespace: other, labels: {app: db}}, spec: {nodeName: b}}]`),
			"a: PodTopologySpread Spread: topology.kubernetes.io/zone=east has 1 such pods, and the smallest number is 0: one more would exceed maxSkew 1 -> raise maxSkew in spec.topologySpreadConstraints, or move such a pod\nb: fits",
		},
		{
			"spread without label", `spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: disk, whenUnsatisfiable: DoNotSchedule}]}`, nil,
			"a: fits\nb: PodTopologySpread SpreadLabelMissing (lasting): the node lacks the label disk, by which pods are spread -> label the node, or change spec.topologySpreadConstraints",
		},
		{
			"few domains", `{metadata: {labels: {app: db}}, spec: {topologySpreadConstraints: [{maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: db}}}]}}`,
			pods(`[{metadata: {name: p, labels: {app: db}}, spec: {nodeName: a}}, {metadata: {name: q, labels: {app: db}}, spec: {nodeName: b}}]`),
			"a: PodTopologySpread Spread: topology.kubernetes.io/zone=east has 1 such pods, and the smallest number is 0: one more would exceed maxSkew 1 -> raise maxSkew in spec.topologySpreadConstraints, or move such a pod\n" +
				"b: PodTopologySpread Spread: topology.kubernetes.io/zone=west has 1 such pods, and the smallest number is 0: one more would exceed maxSkew 1 -> raise maxSkew in spec.topologySpreadConstraints, or move such a pod",
		},
		{
			"apart", `{metadata: {namespace: shop}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}}}`,
			pods(`[{metadata: {name: p, namespace: shop, labels: {app: db}}, spec: {nodeName: a}}, {metadata: {name: q, namespace: other, labels: {app: db}}, spec: {nodeName: b}}]`),
			"a: InterPodAffinity AntiAffinity: the pod shop/p runs on a node with the same kubernetes.io/hostname, and the pod anti-affinity forbids that -> move that pod, or change spec.affinity.podAntiAffinity\nb: fits",
		},
		{
			"together", `{metadata: {namespace: shop}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, namespaceSelector: {}, labelSelector: {matchLabels: {app: db}}}]}}}}`,
			pods(`[{metadata: {name: q, namespace: other, labels: {app: db}}, spec: {nodeName: b}}]`),
			"a: InterPodAffinity Affinity: no pod that the pod affinity demands runs on nodes with the same topology.kubernetes.io/zone -> start such a pod there, or change spec.affinity.podAffinity\nb: fits",
		},
		{
			"the first of a group", `{metadata: {namespace: shop, labels: {app: db}}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: disk, labelSelector: {matchLabels: {app: db}}}]}}}}`, nil,
			"a: fits\nb: InterPodAffinity Affinity: the node lacks the label disk, which the pod affinity needs -> label the node, or change spec.affinity.podAffinity",
		},
		{
			"kept away", `{metadata: {namespace: shop, labels: {app: db}}}`,
			pods(`[{metadata: {name: q, namespace: shop}, spec: {nodeName: b, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: db}}}]}}}}]`),
			"a: fits\nb: InterPodAffinity ExistingAntiAffinity: the pod anti-affinity of shop/q forbids other such pods near it -> move that pod, or change its anti-affinity",
		},
		{"no claim", "metadata: {namespace: shop}\n" + mounts, nil, "a: VolumeBinding ClaimNotFound: there is no claim data -> create the claim, or its DataVolume\nb: VolumeBinding ClaimNotFound: there is no claim data -> create the claim, or its DataVolume"},
		{"a local volume", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, fmt.Sprintf(bound, "ReadWriteMany"), `[{metadata: {name: v1, labels: {topology.kubernetes.io/zone: east}}, spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a]}]}]}}}}]`)
		}, "a: fits\n" +
			"b: VolumeBinding VolumeElsewhere (lasting): the volume v1 of the claim data is only on nodes with kubernetes.io/hostname in a -> copy the volume to other storage, or let the virtual machine run there\n" +
			"b: VolumeZone OtherZone (lasting): the volume v1 of the claim data is in topology.kubernetes.io/zone east -> let the virtual machine run there, or copy the volume"},
		{
			"a volume that is lost", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) { claimed(t, c, fmt.Sprintf(bound, "ReadWriteMany"), `[]`) },
			"a: VolumeBinding VolumeNotFound: the volume v1 of the claim data does not exist -> restore the volume, or use another claim\nb: VolumeBinding VolumeNotFound: the volume v1 of the claim data does not exist -> restore the volume, or use another claim",
		},
		{"attached elsewhere", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, fmt.Sprintf(bound, "ReadWriteOnce"), `[{metadata: {name: v1}}]`)
			c.Pods = objects[corev1.Pod](t, `[{metadata: {name: user, namespace: shop}, spec: {nodeName: b, volumes: [{name: x, persistentVolumeClaim: {claimName: data}}]}}]`)
		}, "a: VolumeAttachment AttachedElsewhere: the claim data is ReadWriteOnce, and the pod user uses it on b -> stop that pod, or use a ReadWriteMany claim\nb: fits"},
		{"used by one pod", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, fmt.Sprintf(bound, "ReadWriteOncePod"), `[{metadata: {name: v1}}]`)
			c.Pods = objects[corev1.Pod](t, `[{metadata: {name: user, namespace: shop}, spec: {nodeName: b, volumes: [{name: x, persistentVolumeClaim: {claimName: data}}]}}]`)
		}, "a: VolumeRestrictions ClaimInUse: the pod user uses the claim data, which only one pod can use -> stop that pod\nb: VolumeRestrictions ClaimInUse: the pod user uses the claim data, which only one pod can use -> stop that pod"},
		{"an unbound claim", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, `[{metadata: {namespace: shop, name: data}, spec: {storageClassName: now}}]`, `[]`)
		}, "a: VolumeBinding ClaimUnbound: the claim data has no volume yet: it is Pending -> see its events: kubectl describe pvc data -n shop\nb: VolumeBinding ClaimUnbound: the claim data has no volume yet: it is Pending -> see its events: kubectl describe pvc data -n shop"},
		{"a class for one zone", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, `[{metadata: {namespace: shop, name: data}, spec: {storageClassName: late}}]`, `[]`)
		}, "a: VolumeBinding VolumeUnavailable: no volume on the node, and no new one, can serve the claim data of the class late -> use a storage class that serves the node\nb: fits"},
		{"a free local volume", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, `[{metadata: {namespace: shop, name: data}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}}]`, `
- {metadata: {name: small}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}}, status: {phase: Available}}
- {metadata: {name: other}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], capacity: {storage: 3Gi}, claimRef: {namespace: x, name: y}}, status: {phase: Bound}}
- {metadata: {name: good}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], capacity: {storage: 3Gi}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}, status: {phase: Available}}
`)
		}, "a: fits\nb: VolumeBinding VolumeUnavailable: no volume on the node, and no new one, can serve the claim data of the class local -> use a storage class that serves the node"},
		{"a class with room in one zone", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, `[{metadata: {namespace: shop, name: data}, spec: {storageClassName: everywhere, resources: {requests: {storage: 2Gi}}}}]`, `[]`)
			c.Drivers = objects[storagev1.CSIDriver](t, `[{metadata: {name: example.com/csi}, spec: {storageCapacity: true}}]`)
			c.Capacities = objects[storagev1.CSIStorageCapacity](t, `
- {metadata: {name: full}, storageClassName: everywhere, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: west}}, capacity: 9Gi, maximumVolumeSize: 1Gi}
- {metadata: {name: free}, storageClassName: everywhere, nodeTopology: {matchLabels: {topology.kubernetes.io/zone: east}}, capacity: 2Gi}
- {metadata: {name: others}, storageClassName: late, nodeTopology: {}, capacity: 9Gi}
- {metadata: {name: nowhere}, storageClassName: everywhere, capacity: 9Gi}
`)
		}, "a: fits\nb: VolumeBinding StorageFull: the class everywhere has no room on the node for the claim data of 2Gi -> free storage, request less, or use another storage class"},
		{"a driver that reports no capacity", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, `[{metadata: {namespace: shop, name: data}, spec: {storageClassName: everywhere, resources: {requests: {storage: 2Gi}}}}]`, `[]`)
			c.Drivers = objects[storagev1.CSIDriver](t, `[{metadata: {name: example.com/csi}}, {metadata: {name: other}, spec: {storageCapacity: true}}]`)
		}, "a: fits\nb: fits"},
		{"a runtime class", `{metadata: {namespace: shop}, spec: {runtimeClassName: isolated, containers: [{name: c, resources: {requests: {memory: 7Gi}}}]}}`, func(t *testing.T, c *placement.Cluster) {
			c.RuntimeClasses = objects[nodev1.RuntimeClass](t, `[{metadata: {name: isolated}, overhead: {podFixed: {memory: 2Gi}}, scheduling: {nodeSelector: {disk: ssd}}}]`)
		}, "a: NodeResourcesFit Insufficient (lasting): needs 9Gi of memory; 8Gi of 8Gi is free -> request 1Gi less: the node is too small even when it is empty\n" +
			"b: NodeAffinity LabelMismatch (lasting): the node lacks the label disk=ssd -> label the node disk=ssd\n" +
			"b: NodeResourcesFit Insufficient (lasting): needs 9Gi of memory; 8Gi of 8Gi is free -> request 1Gi less: the node is too small even when it is empty"},
		{"too many volumes", "metadata: {namespace: shop}\n" + mounts, func(t *testing.T, c *placement.Cluster) {
			claimed(t, c, fmt.Sprintf(bound, "ReadWriteMany"), `[{metadata: {name: v1}, spec: {csi: {driver: example.com/csi, volumeHandle: h1}}}]`)
			c.CSINodes = objects[storagev1.CSINode](t, `[{metadata: {name: a}, spec: {drivers: [{name: example.com/csi, allocatable: {count: 0}}]}}]`)
		}, "a: NodeVolumeLimits TooManyVolumes: the driver example.com/csi has attached 0 volumes to the node, of at most 0 -> move a pod with such volumes, or use fewer volumes\nb: fits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := &placement.Cluster{Nodes: objects[corev1.Node](t, two)}
			if c.cluster != nil {
				c.cluster(t, cluster)
			}
			snapshot, err := placement.NewSnapshot(cluster)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, reasonsOf(snapshot.Place(&placement.Subject{Pod: object[corev1.Pod](t, c.pod)}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCreation(t *testing.T) {
	const pod = `{metadata: {namespace: shop}, spec: {priorityClassName: high, containers: [{name: c, resources: {requests: {memory: 1Gi, cpu: 100m}, limits: {memory: 2Gi}}}]}}`
	for _, c := range []struct {
		name    string
		cluster placement.Cluster
		want    string
	}{
		{"quota", placement.Cluster{Quotas: objects[corev1.ResourceQuota](t, `
- {metadata: {name: q, namespace: shop}, status: {hard: {requests.memory: 4Gi, limits.memory: 4Gi, pods: "3", count/pods: "1"}, used: {requests.memory: 3584Mi, limits.memory: 2Gi, pods: "1", count/pods: "1"}}}
- {metadata: {name: other, namespace: x}, status: {hard: {pods: "0"}}}
- {metadata: {name: scoped, namespace: shop}, spec: {scopes: [BestEffort]}, status: {hard: {pods: "0"}}}
- {metadata: {name: class, namespace: shop}, spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}, status: {hard: {limits.cpu: "3"}}}
`)}, "-: ResourceQuota QuotaNeedsAmount (lasting): ResourceQuota class counts limits.cpu, and the container c has none -> set limits.cpu of the virtual machine in spec.domain.resources, or a default with a LimitRange\n" +
			"-: ResourceQuota QuotaExceeded (lasting): ResourceQuota q: the pod needs 1 of count/pods; 1 of 1 is used -> raise the quota by 1, stop another virtual machine, or request 1 less\n" +
			"-: ResourceQuota QuotaExceeded (lasting): ResourceQuota q: the pod needs 1Gi of requests.memory; 3.5Gi of 4Gi is used -> raise the quota by 512Mi, stop another virtual machine, or request 512Mi less"},
		{"limit range", placement.Cluster{LimitRanges: objects[corev1.LimitRange](t, `
- {metadata: {name: l, namespace: shop}, spec: {limits: [{type: Container, max: {memory: 1Gi, cpu: "1"}, min: {cpu: 200m}, maxLimitRequestRatio: {memory: "1.5"}}, {type: Pod, max: {memory: 1Gi}}]}}
`)}, "-: LimitRanger LimitRangeViolated (lasting): LimitRange l: the container c requests 100m of CPU, at least 200m is required -> change the virtual machine, or the LimitRange\n" +
			"-: LimitRanger LimitRangeViolated (lasting): LimitRange l: the container c must limit its CPU, to at most 1 -> change the virtual machine, or the LimitRange\n" +
			"-: LimitRanger LimitRangeViolated (lasting): LimitRange l: the container c has a limit of 2Gi of memory, at most 1Gi is allowed -> change the virtual machine, or the LimitRange\n" +
			"-: LimitRanger LimitRangeViolated (lasting): LimitRange l: the container c has a limit of memory that must be at most 1500m times its request -> change the virtual machine, or the LimitRange\n" +
			"-: LimitRanger LimitRangeViolated (lasting): LimitRange l: the pod has a limit of 2Gi of memory, at most 1Gi is allowed -> change the virtual machine, or the LimitRange"},
		{
			"Pod Security",
			placement.Cluster{Namespaces: objects[corev1.Namespace](t, `[{metadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restricted}}}]`)},
			`-: PodSecurity PodSecurityViolated (lasting): the namespace enforces the Pod Security level restricted, which the pod violates: allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost") -> label the namespace pod-security.kubernetes.io/enforce=privileged, or use another namespace`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cluster.Unknown.PriorityClasses = true
			snapshot, err := placement.NewSnapshot(&c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, reasonsOf(snapshot.Place(&placement.Subject{Pod: object[corev1.Pod](t, pod)}))); diff != "" {
				t.Error(diff)
			}
		})
	}
	// The pod of a virtual machine names networks and a runtime class.
	made := &placement.Subject{
		Pod:      object[corev1.Pod](t, `{metadata: {namespace: shop}, spec: {runtimeClassName: isolated, nodeSelector: {disk: hdd}}}`),
		Launcher: &launcher.Result{Attachments: []launcher.Attachment{{Namespace: "shop", Name: "blue", Field: "spec.networks[0].multus.networkName"}, {Namespace: "lab", Name: "sea", Field: "spec.networks[1].multus.networkName"}}},
	}
	isolated := objects[nodev1.RuntimeClass](t, `[{metadata: {name: isolated}, scheduling: {nodeSelector: {disk: ssd}}}]`)
	blue := []*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "blue"}}}
	const noSea, noBlue = "-: KubeVirt NetworkNotFound (lasting): there is no NetworkAttachmentDefinition lab/sea -> create it, or name another one", "-: KubeVirt NetworkNotFound (lasting): there is no NetworkAttachmentDefinition shop/blue -> create it, or name another one"
	for _, c := range []struct {
		name    string
		cluster placement.Cluster
		want    string
		assumed []string
	}{
		{
			"a contradiction",
			placement.Cluster{Networks: blue, RuntimeClasses: isolated},
			noSea + "\n-: RuntimeClass RuntimeClassConflict (lasting): RuntimeClass isolated demands nodes with disk=ssd, and the pod nodes with disk=hdd -> remove disk from spec.nodeSelector", nil,
		},
		{
			"nothing is there",
			placement.Cluster{},
			noBlue + "\n" + noSea + "\n-: RuntimeClass NoRuntimeClass (lasting): there is no RuntimeClass isolated -> create it, or change KubeVirt's spec.configuration.defaultRuntimeClass", nil,
		},
		{"other namespaces are unknown", placement.Cluster{Unknown: placement.Unknown{OtherNetworks: true, RuntimeClasses: true}}, noBlue, []string{
			"the NetworkAttachmentDefinition lab/sea exists", "the RuntimeClass isolated exists, and adds nothing to the pod",
		}},
		{"all are unknown", placement.Cluster{Unknown: placement.Unknown{Networks: true}, RuntimeClasses: objects[nodev1.RuntimeClass](t, `[{metadata: {name: isolated}}]`)}, "", []string{
			"the NetworkAttachmentDefinition shop/blue exists", "the NetworkAttachmentDefinition lab/sea exists",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			snapshot, err := placement.NewSnapshot(&c.cluster)
			if err != nil {
				t.Fatal(err)
			}
			placed := snapshot.Place(made)
			assumed := slices.DeleteFunc(placed.Assumptions, func(text string) bool { return strings.HasPrefix(text, "the namespace ") })
			if diff := cmp.Diff(c.want, reasonsOf(placed)) + cmp.Diff(c.assumed, assumed, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if made.Pod.Spec.NodeSelector["disk"] != "hdd" {
				t.Error("the pod was changed")
			}
		})
	}
	snapshot, err := placement.NewSnapshot(&placement.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	want := "-: Priority NoPriorityClass (lasting): there is no PriorityClass high -> create it, or name another one in spec.priorityClassName"
	if diff := cmp.Diff(want, reasonsOf(snapshot.Place(&placement.Subject{Pod: object[corev1.Pod](t, pod)}))); diff != "" {
		t.Error(diff)
	}
}

// TestNever: load does not decide whether a node could ever run a pod.
func TestNever(t *testing.T) {
	for _, c := range []struct {
		name, memory string
		taint        string
		want         bool
	}{
		{"fits", "1Gi", "", false},
		{"full", "6Gi", "", false},
		{"too large", "9Gi", "", true},
		{"a taint that comes and goes", "1Gi", corev1.TaintNodeNotReady, false},
		{"a taint that stays", "1Gi", "gpu", true},
	} {
		cluster := &placement.Cluster{
			Nodes: objects[corev1.Node](t, two)[:1],
			Pods:  objects[corev1.Pod](t, `[{metadata: {name: p}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {memory: 4Gi}}}]}}]`),
		}
		if c.taint != "" {
			cluster.Nodes[0].Spec.Taints = []corev1.Taint{{Key: c.taint, Effect: corev1.TaintEffectNoSchedule}}
		}
		snapshot, err := placement.NewSnapshot(cluster)
		if err != nil {
			t.Fatal(err)
		}
		pod := object[corev1.Pod](t, `spec: {containers: [{name: c, resources: {requests: {memory: `+c.memory+`}}}]}`)
		if got := snapshot.Place(&placement.Subject{Pod: pod}).Never(); got != c.want {
			t.Errorf("%s: never is %v", c.name, got)
		}
	}
}

// TestBounds: a cluster beyond the bounds is an error, and a node has a bounded number of reasons.
func TestBounds(t *testing.T) {
	if _, err := placement.NewSnapshot(&placement.Cluster{Nodes: make([]*corev1.Node, placement.MaxNodes+1)}); err == nil || !strings.Contains(err.Error(), "10001 nodes") {
		t.Errorf("too many nodes: %v", err)
	}
	if _, err := placement.NewSnapshot(&placement.Cluster{Pods: make([]*corev1.Pod, placement.MaxPods+1)}); err == nil || !strings.Contains(err.Error(), "200001 pods") {
		t.Errorf("too many pods: %v", err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{}}}
	for i := range 1000 {
		pod.Spec.NodeSelector[fmt.Sprint("label-", i)] = "true"
	}
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(snapshot.Place(&placement.Subject{Pod: pod}).Reasons(0)); got != placement.MaxReasons {
		t.Errorf("%d reasons", got)
	}
}

// TestTrim: what is trimmed does not change an answer.
func TestTrim(t *testing.T) {
	cluster := &placement.Cluster{
		Nodes: objects[corev1.Node](t, two),
		Pods: objects[corev1.Pod](t, `
- metadata: {name: q, namespace: shop, annotations: {large: text}}
  spec: {nodeName: b, containers: [{name: c, image: x, env: [{name: y}], ports: [{hostPort: 80}, {containerPort: 9}], resources: {requests: {cpu: "1"}}}], volumes: [{name: v, emptyDir: {}}, {name: w, persistentVolumeClaim: {claimName: data}}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: db}}}]}}}
- {metadata: {name: ended}, spec: {nodeName: a}, status: {phase: Failed}}
- {metadata: {name: waits}}
`),
	}
	trimmed := &placement.Cluster{}
	for _, n := range cluster.Nodes {
		trimmed.Nodes = append(trimmed.Nodes, placement.TrimNode(n))
	}
	for _, p := range cluster.Pods {
		if small := placement.TrimPod(p); small != nil {
			trimmed.Pods = append(trimmed.Pods, small)
		}
	}
	if len(trimmed.Pods) != 1 || len(trimmed.Pods[0].Spec.Volumes) != 1 || trimmed.Pods[0].Annotations != nil || trimmed.Pods[0].Spec.Containers[0].Image != "" {
		t.Errorf("the pods are not trimmed: %v", trimmed.Pods)
	}
	pod := object[corev1.Pod](t, `{metadata: {namespace: shop, labels: {app: db}}, spec: {containers: [{name: c, ports: [{hostPort: 80}], resources: {requests: {cpu: 3500m}}}], volumes: [{name: w, persistentVolumeClaim: {claimName: data}}]}}`)
	answer := func(c *placement.Cluster) string {
		snapshot, err := placement.NewSnapshot(c)
		if err != nil {
			t.Fatal(err)
		}
		return reasonsOf(snapshot.Place(&placement.Subject{Pod: pod}))
	}
	if diff := cmp.Diff(answer(cluster), answer(trimmed)); diff != "" || strings.Count(answer(cluster), "\n") < 3 {
		t.Errorf("%s\n%s", answer(cluster), diff)
	}
}

// TestConditions: everything that a pod can repeat, and that is compared with each node, is counted.
func TestConditions(t *testing.T) {
	for text, want := range map[string]int{
		`{}`: 0,
		`{nodeSelector: {a: "1", b: "2"}, tolerations: [{key: a}]}`:                 3,
		`{containers: [{name: c, resources: {requests: {cpu: "1", memory: 1Gi}}}]}`: 2,
		`{topologySpreadConstraints: [{topologyKey: zone}, {topologyKey: rack}]}`:   2,
		`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
			{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: In, values: [x, y, z]}], matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}}`: 5,
		`{affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]},
			podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}, {topologyKey: rack}]}}}`: 3,
		`{affinity: {nodeAffinity: {}, podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}`: 0,
	} {
		subject := &placement.Subject{Pod: &corev1.Pod{Spec: *object[corev1.PodSpec](t, text)}}
		if got := subject.Conditions(); got != want {
			t.Errorf("%s: %d conditions, want %d", text, got, want)
		}
	}
}
