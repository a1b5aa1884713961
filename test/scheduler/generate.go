package scheduler

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
)

// Pair is a pod, and the cluster that it needs a node of.
type Pair struct {
	Pod     *corev1.Pod
	Cluster *placement.Cluster
}

// Namespaces of the pods. The first one is that of the pod that needs a node.
var Namespaces = []string{"default", "other"}

const (
	// driver of the volumes, of the classes late and now.
	driver    = "csi.example.com"
	zoneLabel = corev1.LabelTopologyZone
	hostLabel = corev1.LabelHostname
)

// generator draws from a seed: the same pair for the same one.
type generator struct {
	*rand.Rand
	c *placement.Cluster
}

// Generate returns the pair of a seed.
func Generate(seed uint64) *Pair {
	g := &generator{rand.New(rand.NewPCG(seed, 0)), &placement.Cluster{}} //nolint:gosec // a pair is no secret
	for i := range 2 + g.IntN(4) {
		g.c.Nodes = append(g.c.Nodes, g.node(i))
	}
	for i := range g.IntN(7) {
		g.c.Pods = append(g.c.Pods, g.running(i))
	}
	for _, name := range Namespaces {
		g.c.Namespaces = append(g.c.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}})
	}
	g.c.Classes = classes()
	pod := g.pod()
	if g.oneIn(3) {
		g.volume(pod)
		g.capacities()
	}
	return &Pair{Pod: pod, Cluster: g.c}
}

func (g *generator) oneIn(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

func (g *generator) node(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d", i)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			hostLabel: name, corev1.LabelArchStable: pick(g, "amd64", "amd64", "amd64", "arm64"), v1.NodeSchedulable: pick(g, "true", "true", "true", "false"),
			v1.SupportedMachineTypeLabel + "q35": "true",
		}},
		Spec: corev1.NodeSpec{Unschedulable: g.oneIn(10)},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(pick(g, "2", "4", "8")), corev1.ResourceMemory: resource.MustParse(pick(g, "2Gi", "4Gi", "8Gi")),
			corev1.ResourcePods: resource.MustParse(pick(g, "1", "2", "110", "110")), corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
			"devices.kubevirt.io/kvm": resource.MustParse(pick(g, "0", "1", "110", "110")), "devices.kubevirt.io/tun": resource.MustParse("110"),
			"devices.kubevirt.io/vhost-net": resource.MustParse("110"), "hugepages-2Mi": resource.MustParse(pick(g, "0", "1Gi")),
		}},
	}
	n.Status.Capacity = n.Status.Allocatable
	if !g.oneIn(5) {
		n.Labels[zoneLabel] = pick(g, "east", "west")
	}
	if g.oneIn(2) {
		n.Labels["disk"] = pick(g, "ssd", "hdd")
	}
	if g.oneIn(3) {
		n.Labels["generation"] = pick(g, "1", "5", "x")
	}
	if g.oneIn(4) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: pick(g, "gpu", "team"), Value: pick(g, "", "a"), Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule)})
	}
	return n
}

func (g *generator) labels() map[string]string {
	return map[string]string{"app": pick(g, "db", "web"), "tier": pick(g, "front", "back")}
}

func (g *generator) selector() *metav1.LabelSelector {
	switch g.IntN(5) {
	case 0:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: []string{"front"}}}}
	case 1:
		return &metav1.LabelSelector{}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "db", "web")}}
}

func (g *generator) terms() []corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{LabelSelector: g.selector(), TopologyKey: pick(g, hostLabel, zoneLabel, "disk")}
	switch g.IntN(4) {
	case 0:
		term.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		term.Namespaces = []string{Namespaces[1]}
	}
	return []corev1.PodAffinityTerm{term}
}

// running is a pod that runs on a node.
func (g *generator) running(i int) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, Namespaces...), Name: fmt.Sprintf("running-%d", i), Labels: g.labels()},
		Spec:       corev1.PodSpec{NodeName: pick(g, g.c.Nodes...).Name, Containers: []corev1.Container{g.container("main")}},
	}
	if g.oneIn(4) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.terms()}}
	}
	return p
}

func (g *generator) container(name string) corev1.Container {
	c := corev1.Container{Name: name, Image: "example.com/image", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	if !g.oneIn(4) {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(pick(g, "100m", "1500m", "2", "3"))
	}
	if !g.oneIn(4) {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse(pick(g, "64Mi", "1Gi", "3Gi", "5Gi"))
	}
	if g.oneIn(5) {
		c.Ports = []corev1.ContainerPort{{HostPort: pick[int32](g, 80, 443), ContainerPort: pick[int32](g, 80, 443), Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolUDP), HostIP: pick(g, "", "", "10.0.0.1")}}
		c.Ports[0].ContainerPort = c.Ports[0].HostPort
	}
	return c
}

// pod needs a node: the launcher of a virtual machine, or another pod.
func (g *generator) pod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: g.labels()}, Spec: corev1.PodSpec{Containers: []corev1.Container{g.container("main")}}}
	if g.oneIn(2) {
		p = g.launcher()
	}
	p.Namespace, p.Name, p.GenerateName, p.OwnerReferences = Namespaces[0], "subject", "", nil
	if g.oneIn(4) {
		always := corev1.ContainerRestartPolicyAlways
		once, side := g.container("once"), g.container("side")
		once.Ports, side.Ports, side.RestartPolicy = nil, nil, &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, side, once)
	}
	if g.oneIn(8) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("512Mi"), corev1.ResourceMemory: resource.MustParse("64Mi")}
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": resource.MustParse("512Mi")}
	}
	g.place(&p.Spec)
	return p
}

// place adds what decides on the node.
func (g *generator) place(spec *corev1.PodSpec) {
	if g.oneIn(3) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: pick(g, "gpu", "team", ""), Operator: corev1.TolerationOpExists})
	}
	if g.oneIn(4) {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector["disk"] = pick(g, "ssd", "hdd")
	}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if g.oneIn(4) {
		selector := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{g.nodeTerm()}}
		if g.oneIn(3) {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, g.nodeTerm())
		}
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}
	}
	if g.oneIn(5) {
		spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.terms()}
	}
	if g.oneIn(5) {
		spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: g.terms()}
	}
	if g.oneIn(4) {
		t := corev1.TopologySpreadConstraint{MaxSkew: pick[int32](g, 1, 2), TopologyKey: pick(g, hostLabel, zoneLabel), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: g.selector()}
		if g.oneIn(3) {
			domains := pick[int32](g, 2, 4)
			t.MinDomains = &domains
		}
		if g.oneIn(3) {
			policy := pick(g, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
			t.NodeTaintsPolicy, t.NodeAffinityPolicy = &policy, &policy
		}
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{t}
	}
}

func (g *generator) nodeTerm() corev1.NodeSelectorTerm {
	switch g.IntN(4) {
	case 0:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "generation", Operator: pick(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt), Values: []string{"3"}}}}
	case 1:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: pick(g, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist)}}}
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zoneLabel, Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn), Values: []string{"east"}}}}
}

// launcher is the pod of a virtual machine.
func (g *generator) launcher() *corev1.Pod {
	guest := resource.MustParse(pick(g, "512Mi", "1Gi", "3Gi", "6Gi"))
	vmi := &v1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: Namespaces[0], Labels: g.labels()}}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.CPU = &v1.CPU{Cores: pick[uint32](g, 1, 4, 30)}
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	vmi.Spec.Domain.Machine = &v1.Machine{Type: "q35"}
	facts := platform.Defaults(platform.Settings{})
	result, err := launcher.Render(&launcher.Input{VMI: launcher.Started(vmi, facts), Facts: facts, Renderer: launcher.NewBaseRenderer("amd64"), Image: "example.com/virt-launcher"})
	if err != nil {
		panic(err) // the generator makes nothing that cannot be rendered
	}
	return result.Pod
}

func classes() []*storagev1.StorageClass {
	late, now := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	return []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: driver, VolumeBindingMode: &late, AllowedTopologies: []corev1.TopologySelectorTerm{
			{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: zoneLabel, Values: []string{"west"}}}},
		}},
		{ObjectMeta: metav1.ObjectMeta{Name: "anywhere"}, Provisioner: driver, VolumeBindingMode: &late},
		{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late},
		{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: driver, VolumeBindingMode: &now},
	}
}

// capacities are those that the driver of the storage classes reports: for no node, for some zones, and for volumes that are too small.
func (g *generator) capacities() {
	reports := !g.oneIn(4)
	g.c.Drivers = []*storagev1.CSIDriver{{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &reports}}}
	for i := range g.IntN(4) {
		size, most := resource.MustParse(pick(g, "512Mi", "1Gi", "2Gi")), resource.MustParse(pick(g, "512Mi", "1Gi"))
		one := &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Namespace: Namespaces[1], Name: fmt.Sprintf("capacity-%d", i)},
			StorageClassName: pick(g, "late", "anywhere", "anywhere"), NodeTopology: g.selector(), Capacity: &size,
		}
		if g.oneIn(2) {
			one.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{zoneLabel: pick(g, "east", "west")}}
		}
		if g.oneIn(3) {
			one.MaximumVolumeSize = &most
		}
		g.c.Capacities = append(g.c.Capacities, one)
	}
}

// volume gives the pod a claim: bound, waiting, or missing.
func (g *generator) volume(p *corev1.Pod) {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}})
	mode := pick(g, corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadWriteOncePod)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	class := pick(g, "late", "anywhere", "local", "now")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespaces[0], Name: "data"},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode}, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: claim.Spec.AccessModes, Capacity: size,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle"}},
		},
	}
	if g.oneIn(2) {
		volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"node-0", "node-1"}}}},
		}}}
	}
	if g.oneIn(3) {
		volume.Labels = map[string]string{zoneLabel: pick(g, "east", "east__west")}
	}
	switch g.IntN(8) {
	case 0: // there is no claim
	case 1, 2, 3: // it has no volume yet
		g.c.Claims = append(g.c.Claims, claim)
	case 4: // there is a volume for it
		volume.Status.Phase = corev1.VolumeAvailable
		g.c.Claims, g.c.Volumes = append(g.c.Claims, claim), append(g.c.Volumes, volume)
	default:
		claim.Spec.VolumeName = volume.Name
		claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name}
		volume.Status.Phase = corev1.VolumeBound
		g.c.Claims, g.c.Volumes = append(g.c.Claims, claim), append(g.c.Volumes, volume)
	}
}
