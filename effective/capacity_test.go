package effective_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/cputime"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/validators"
)

const capableNode = `
metadata: {name: worker, labels: {kubernetes.io/arch: amd64, machine-type.node.kubevirt.io/q35: "true"}}
status: {allocatable: {cpu: "8", memory: 16Gi, ephemeral-storage: 100Gi, pods: "9", devices.kubevirt.io/kvm: 1k, devices.kubevirt.io/tun: 1k, devices.kubevirt.io/vhost-net: 1k}}
`

// TestCapacity: the findings are about the pod of the virtual machine that runs, at the field of the author, and name nothing of the cluster.
func TestCapacity(t *testing.T) {
	of := func(memory string, strategy v1.VirtualMachineRunStrategy) *v1.VirtualMachine {
		vm := build.VMOf(build.VMI("db").Memory(memory)).Obj()
		vm.Spec.RunStrategy, vm.Spec.Running = &strategy, nil
		return vm
	}
	const (
		never = "node-fits spec.template.spec.domain.memory.guest: no node of the cluster could run the virtual machine, even if nothing else ran there"
		quota = `{metadata: {name: q}, spec: {hard: {requests.memory: 8Gi, limits.cpu: "64"}}, status: {hard: {requests.memory: 8Gi, limits.cpu: "64"}, used: {requests.memory: 5Gi}}}`
	)
	large := choosing("large")
	for name, c := range map[string]struct {
		in    effective.Input
		node  string
		quota string
		want  []string
	}{
		"fits":           {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways)}, node: capableNode},
		"too large":      {in: effective.Input{VM: of("32Gi", v1.RunStrategyAlways)}, node: capableNode, want: []string{never}},
		"the overhead":   {in: effective.Input{VM: of("16Gi", v1.RunStrategyAlways)}, node: capableNode, want: []string{never}},
		"an instance":    {in: effective.Input{VMI: build.VMI("db").Memory("32Gi").Obj()}, node: capableNode, want: []string{"node-fits spec.domain.memory.guest: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"a hypervisor":   {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways)}, node: `{metadata: {name: worker}, status: {allocatable: {cpu: "8", memory: 16Gi, pods: "9"}}}`, want: []string{"node-fits spec.template.spec.architecture: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"instancetype":   {in: effective.Input{VM: large, References: effective.References{Instancetype: instancetypeOf("32Gi")}}, node: capableNode, want: []string{"node-fits spec.instancetype.name: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"of KubeVirt":    {in: effective.Input{VMI: build.VMI("db").Memory("32Gi").Obj(), Requester: "system:serviceaccount:kubevirt:kubevirt-controller"}, node: capableNode},
		"quota":          {in: effective.Input{VM: of("9Gi", v1.RunStrategyAlways)}, quota: quota, want: []string{"quota-fits spec.template.spec.domain.memory.guest: the pod needs 9.31Gi of requests.memory, more than a ResourceQuota of the namespace allows"}},
		"quota in use":   {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways)}, quota: quota, want: []string{"quota-left spec.template.spec.domain.memory.guest: the pod needs 4.31Gi of requests.memory, more than a ResourceQuota of the namespace has left now"}},
		"a halted VM":    {in: effective.Input{VM: of("4Gi", v1.RunStrategyHalted)}, quota: quota},
		"an update":      {in: effective.Input{VM: of("4Gi", v1.RunStrategyAlways), OldVM: of("4Gi", v1.RunStrategyAlways)}, quota: quota},
		"a small VM":     {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways)}, quota: quota},
		"many labels":    {in: effective.Input{VM: selecting(40)}, node: capableNode, want: []string{"node-fits spec.template.spec.nodeSelector: no node of the cluster could run the virtual machine, even if nothing else ran there"}},
		"too many":       {in: effective.Input{VM: selecting(100)}, node: capableNode},
		"nothing known":  {in: effective.Input{VM: of("1Ti", v1.RunStrategyAlways)}},
		"no nodes":       {in: effective.Input{VM: of("1Ti", v1.RunStrategyAlways)}, node: "none"},
		"cannot be made": {in: effective.Input{VM: of("1Gi", v1.RunStrategyAlways), References: effective.References{}}, node: capableNode, quota: `{metadata: {name: q}, spec: {hard: {pods: "1"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.in
			in.Facts = platform.Defaults(platform.Settings{})
			in.Facts.Namespace = "kubevirt"
			if c.node != "" {
				cluster := &placement.Cluster{Unknown: placement.Nothing()}
				if c.node != "none" {
					node := &corev1.Node{}
					if err := yaml.UnmarshalStrict([]byte(c.node), node); err != nil {
						t.Fatal(err)
					}
					cluster.Nodes = append(cluster.Nodes, node)
				}
				var err error
				if in.Nodes, err = placement.NewSnapshot(cluster); err != nil {
					t.Fatal(err)
				}
			}
			if c.quota != "" {
				quota := &corev1.ResourceQuota{}
				if err := yaml.UnmarshalStrict([]byte(c.quota), quota); err != nil {
					t.Fatal(err)
				}
				quota.Namespace = "default"
				in.Quotas = []*corev1.ResourceQuota{quota}
			}
			verdict, err := pipeline(t).Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range verdict.Findings {
				if f.Severity != validators.Warn {
					t.Errorf("a finding denies: %v", f.Error)
				}
				got = append(got, f.Rule+" "+f.Error.Field+": "+f.Error.Detail)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// selecting is a virtual machine that asks for a number of labels that no node has.
func selecting(n int) *v1.VirtualMachine {
	vm := build.VMOf(build.VMI("db").Memory("1Gi")).Obj()
	vm.Spec.Template.Spec.NodeSelector = map[string]string{}
	for i := range n {
		vm.Spec.Template.Spec.NodeSelector[fmt.Sprintf("example.com/label-%d", i)] = "x"
	}
	return vm
}

// TestMigrationTargets: policies read how many other nodes could take the virtual machine, or why that is not known.
func TestMigrationTargets(t *testing.T) {
	named := func(name, cpu string, takes ...string) *corev1.Node {
		node := &corev1.Node{}
		if err := yaml.UnmarshalStrict([]byte(capableNode), node); err != nil {
			t.Fatal(err)
		}
		node.Name = name
		node.Labels[v1.HostModelCPULabel+cpu] = "true"
		for _, model := range append(takes, cpu) {
			node.Labels[v1.SupportedHostModelMigrationCPU+model], node.Labels[v1.CPUModelLabel+model] = "true", "true"
		}
		return node
	}
	var many []*corev1.Node
	for i := range 300 {
		many = append(many, named(fmt.Sprint("n", i), fmt.Sprint("cpu", i)))
	}
	old := []*corev1.Node{named("a", "Haswell"), named("b", "Haswell"), named("c", "Haswell")}
	mixed := []*corev1.Node{old[0], old[1], named("new", "Icelake", "Haswell")}
	cordoned := old[2].DeepCopy()
	cordoned.Spec.Unschedulable = true
	of := func(model string) *v1.VirtualMachineInstance {
		vmi := build.VMI("db").Memory("1Gi").Obj()
		vmi.Spec.Domain.CPU = &v1.CPU{Model: model}
		vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
		vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
		return vmi
	}
	runs := of("Haswell")
	runs.Status.NodeName, runs.UID = "a", "u"
	bridged := of("Haswell")
	bridged.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
	huge := of("Haswell")
	huge.Spec.Domain.CPU.Sockets = 200_000
	selects := of("Haswell")
	selects.Spec.NodeSelector = selecting(100).Spec.Template.Spec.NodeSelector
	for name, c := range map[string]struct {
		vmi   *v1.VirtualMachineInstance
		nodes []*corev1.Node
		want  int
		err   string
	}{
		"a model":                 {vmi: of("Haswell"), nodes: mixed, want: 2},
		"of the new node":         {vmi: of("Icelake"), nodes: mixed, want: 0},
		"of no node":              {vmi: of("EPYC"), nodes: mixed, want: 0},
		"of the host":             {vmi: of(v1.CPUModeHostModel), nodes: old, want: 2},
		"of the newest host":      {vmi: of(v1.CPUModeHostModel), nodes: mixed, want: 0},
		"of too many kinds":       {vmi: of(v1.CPUModeHostModel), nodes: many, err: "more kinds of CPUs than are compared"},
		"a model, of many kinds":  {vmi: of("cpu7"), nodes: many, want: 0},
		"a cordoned node":         {vmi: of("Haswell"), nodes: []*corev1.Node{old[0], cordoned}, want: 1},
		"one node":                {vmi: of("Haswell"), nodes: old[:1], want: 0},
		"no node":                 {vmi: of("Haswell"), nodes: []*corev1.Node{}, want: 0},
		"one that runs":           {vmi: runs, nodes: mixed, want: 2},
		"a bridge":                {vmi: bridged, nodes: mixed, want: 0},
		"nodes that are unknown":  {vmi: of("Haswell"), err: "the nodes of the cluster are not known"},
		"a pod that is too large": {vmi: huge, nodes: mixed, err: "KubeVirt cannot make the pod"},
		"many conditions":         {vmi: selects, nodes: mixed, err: "more than 100 conditions on nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			in := effective.Input{VMI: c.vmi}
			if c.nodes != nil {
				var err error
				if in.PolicyNodes, err = placement.NewSnapshot(&placement.Cluster{Nodes: c.nodes, Unknown: placement.Nothing()}); err != nil {
					t.Fatal(err)
				}
			}
			want := fmt.Sprint(c.want, " targets")
			if c.err != "" {
				want = c.err
			}
			for language, policy := range map[string]string{
				"CEL":  `{enforcement: Deny, validations: [{expression: "migrationTargets < 0", message: no, messageExpression: "string(migrationTargets) + ' targets'"}]}`,
				"Rego": `{enforcement: Deny, rego: {module: "package virtward\ndeny contains {\"msg\": sprintf(\"%d targets\", [input.migrationTargets])} if input.migrationTargets >= 0\n"}}`,
			} {
				in.Facts, in.Policies = platform.Defaults(platform.Settings{}), active(t, policy)
				verdict, err := pipeline(t).Decide(in)
				if err != nil {
					t.Fatal(err)
				}
				found := 0
				for _, f := range verdict.Findings {
					if strings.Contains(f.Error.Detail, want) {
						found++
					}
				}
				if found != 1 {
					t.Errorf("%s: %v, want %q", language, verdict.Findings, want)
				}
			}
		})
	}
}

// frequencies are nodes with a time stamp counter: two of 2.1 GHz, and one of 2.9 GHz. Another one has none.
func frequencies(t *testing.T) []*corev1.Node {
	t.Helper()
	var nodes []*corev1.Node
	for name, hz := range map[string]string{"a": "2100000000", "b": "2100000000", "c": "2900000000", "d": ""} {
		node := &corev1.Node{}
		if err := yaml.UnmarshalStrict([]byte(capableNode), node); err != nil {
			t.Fatal(err)
		}
		node.Name = name
		node.Labels[v1.CPUModelLabel+"Haswell"], node.Labels[v1.CPUFeatureLabel+"invtsc"], node.Labels[v1.NodeSchedulable] = "true", "true", "true"
		if hz != "" {
			node.Labels[v1.CPUTimerLabel+"tsc-frequency"] = hz
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// fixed is an instance with a fixed frequency of the time stamp counter, by the policy of invtsc.
func fixed(policy string) *v1.VirtualMachineInstance {
	vmi := build.VMI("db").Memory("1Gi").Obj()
	vmi.Spec.Domain.CPU = &v1.CPU{Model: "Haswell", Features: []v1.CPUFeature{{Name: "invtsc", Policy: policy}}}
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	return vmi
}

// TestFrequencies: a guest with invtsc moves only to nodes that can have the frequency of the time stamp counter that it starts with.
func TestFrequencies(t *testing.T) {
	nodes := frequencies(t)
	hz := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		vmi      *v1.VirtualMachineInstance
		minimum  *int64
		scalable bool
		want     string
	}{
		"a fixed frequency":     {vmi: fixed("require"), want: "1 targets"},
		"scaled":                {vmi: fixed("require"), scalable: true, want: "2 targets"},
		"another minimum":       {vmi: fixed("require"), minimum: hz(2900000000), want: "0 targets"},
		"a minimum that scales": {vmi: fixed("require"), minimum: hz(1900000000), scalable: true, want: "2 targets"},
		"a minimum of no node":  {vmi: fixed("require"), minimum: hz(1900000000), want: "0 targets"},
		"no fixed frequency":    {vmi: fixed("disable"), want: "3 targets"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := platform.Defaults(platform.Settings{})
			facts.Configuration.DeveloperConfiguration.MinimumClusterTSCFrequency = c.minimum
			here := make([]*corev1.Node, 0, len(nodes))
			for _, n := range nodes {
				n = n.DeepCopy()
				n.Labels[v1.CPUTimerLabel+"tsc-scalable"] = fmt.Sprint(c.scalable)
				here = append(here, n)
			}
			snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: here, Unknown: placement.Nothing()})
			if err != nil {
				t.Fatal(err)
			}
			in := effective.Input{VMI: c.vmi, Facts: facts, PolicyNodes: snapshot}
			in.Policies = active(t, `{enforcement: Deny, validations: [{expression: "migrationTargets < 0", message: no, messageExpression: "string(migrationTargets) + ' targets'"}]}`)
			if got := policyMessages(evaluate(t, in)); !slices.Equal(got, []string{c.want}) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestFrequencyOfRunning: an instance that runs has the frequency in its status, whatever one that starts now would have.
func TestFrequencyOfRunning(t *testing.T) {
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: frequencies(t), Unknown: placement.Nothing()})
	if err != nil {
		t.Fatal(err)
	}
	for hz, want := range map[int64]migrations.Level{2_100_000_000: migrations.OneTarget, 2_900_000_000: migrations.NoTarget, 0: migrations.NoTarget} {
		vmi := fixed("require")
		vmi.Status.TopologyHints = &v1.TopologyHints{TSCFrequency: &hz}
		if got := evaluate(t, effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), TargetNodes: snapshot}).Targets; got != want {
			t.Errorf("%d Hz: %s, want %s", hz, got, want)
		}
	}
}

// TestBlockedTargets: what kubectl virtward migratable calls a blocker of a running instance makes migrationTargets 0 of one that has not
// started, and nothing else does.
func TestBlockedTargets(t *testing.T) {
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{}
		if err := yaml.UnmarshalStrict([]byte(capableNode), node); err != nil {
			t.Fatal(err)
		}
		node.Name = name
		node.Labels[v1.CPUModelLabel+"Haswell"] = "true"
		nodes = append(nodes, node)
	}
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: nodes, Unknown: placement.Nothing()})
	if err != nil {
		t.Fatal(err)
	}
	const rwo, rwx = "ReadWriteOnce", "ReadWriteMany"
	disk := func(claim string) func(*v1.VirtualMachineInstance) {
		return func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}})
		}
	}
	files := func(shared bool) func(*v1.VirtualMachineInstance) {
		return func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Volumes = append(vmi.Spec.Volumes, v1.Volume{Name: "h", VolumeSource: v1.VolumeSource{HostDisk: &v1.HostDisk{Path: "/d/x.img", Type: v1.HostDiskExists, Shared: &shared}}})
		}
	}
	covered := map[string]bool{}
	for name, c := range map[string]struct {
		change func(*v1.VirtualMachineInstance)
		claims map[string]string
		// reason blocks the migration; empty if nothing does.
		reason string
	}{
		"nothing":         {change: func(*v1.VirtualMachineInstance) {}},
		"a claim":         {change: disk("c"), claims: map[string]string{"c": rwo}, reason: v1.VirtualMachineInstanceReasonDisksNotMigratable},
		"a shared claim":  {change: disk("c"), claims: map[string]string{"c": rwx}},
		"the second disk": {change: func(vmi *v1.VirtualMachineInstance) { disk("c")(vmi); disk("d")(vmi) }, claims: map[string]string{"c": rwx, "d": rwo}, reason: v1.VirtualMachineInstanceReasonDisksNotMigratable},
		"a DataVolume": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}}}
		}, claims: map[string]string{"root": rwo}, reason: v1.VirtualMachineInstanceReasonDisksNotMigratable},
		"a memory dump": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{MemoryDump: &v1.MemoryDumpVolumeSource{PersistentVolumeClaimVolumeSource: v1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "dump"}}}}}}
		}, claims: map[string]string{"dump": rwo}},
		"a file of the node": {change: files(false), reason: v1.VirtualMachineInstanceReasonDisksNotMigratable},
		"a shared file":      {change: files(true)},
		"a bridge": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultBridgeNetworkInterface()}
		}, reason: v1.VirtualMachineInstanceReasonInterfaceNotMigratable},
		"a GPU": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.GPUs = []v1.GPU{{Name: "g", DeviceName: "example.com/gpu"}}
		}, reason: v1.VirtualMachineInstanceReasonHostDeviceNotMigratable},
		"encryption": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.LaunchSecurity = &v1.LaunchSecurity{SEV: &v1.SEV{}}
		}, reason: v1.VirtualMachineInstanceReasonSEVNotMigratable},
		"TDX": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.LaunchSecurity = &v1.LaunchSecurity{TDX: &v1.TDX{}}
		}, reason: v1.VirtualMachineInstanceReasonTDXNotMigratable},
		"Secure Execution": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Architecture, vmi.Spec.Domain.LaunchSecurity = "s390x", &v1.LaunchSecurity{}
		}, reason: v1.VirtualMachineInstanceReasonSecureExecutionNotMigratable},
		"reenlightenment": {change: func(vmi *v1.VirtualMachineInstance) {
			enabled := true
			vmi.Spec.Domain.Features = &v1.Features{Hyperv: &v1.FeatureHyperv{Reenlightenment: &v1.FeatureState{Enabled: &enabled}}}
		}, reason: v1.VirtualMachineInstanceReasonNoTSCFrequencyMigratable},
		"a reservation": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "d", DiskDevice: v1.DiskDevice{LUN: &v1.LunTarget{Reservation: true}}}}
		}, reason: v1.VirtualMachineInstanceReasonPRNotMigratable},
		"Hyper-V of the node": {change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Domain.Features = &v1.Features{HypervPassthrough: &v1.HyperVPassthrough{}}
		}, reason: v1.VirtualMachineInstanceReasonHypervPassthroughNotMigratable},
		"the CPU of the node": {change: func(vmi *v1.VirtualMachineInstance) { vmi.Spec.Domain.CPU.Model = v1.CPUModeHostPassthrough }, reason: v1.VirtualMachineInstanceReasonCPUModeNotMigratable},
	} {
		t.Run(name, func(t *testing.T) {
			covered[c.reason] = true
			vmi := build.VMI("db").Memory("1Gi").Obj()
			vmi.Spec.Domain.CPU = &v1.CPU{Model: "Haswell"}
			vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
			vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
			c.change(vmi)
			facts := platform.Defaults(platform.Settings{})

			running, gathered := vmi.DeepCopy(), cel.NewReferences()
			running.Status.NodeName = "a"
			for i := range running.Spec.Volumes {
				claim := running.Spec.Volumes[i].Name
				if v := running.Spec.Volumes[i].DataVolume; v != nil {
					claim = v.Name
				}
				if mode := c.claims[claim]; mode != "" {
					info := &v1.PersistentVolumeClaimInfo{ClaimName: claim, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(mode)}}
					running.Status.VolumeStatus = append(running.Status.VolumeStatus, v1.VolumeStatus{Name: running.Spec.Volumes[i].Name, PersistentVolumeClaimInfo: info})
				}
			}
			for claim, mode := range c.claims {
				gathered.PersistentVolumeClaims = append(gathered.PersistentVolumeClaims, cel.VolumeReference{Reference: cel.Reference{Name: claim, Found: true}, AccessModes: []string{mode}})
			}
			pod := &corev1.Pod{}
			pod.Name, pod.Spec.NodeName = "virt-launcher-db", "a"
			result := migrations.Check(&migrations.Machine{VMI: running, Pod: pod}, snapshot, facts)
			if blocked := len(result.Blockers) > 0; blocked != (c.reason != "") || blocked && result.Blockers[0].Reason != c.reason || result.TargetCount != 2 {
				t.Errorf("migratable: %+v", result)
			}

			in := effective.Input{VMI: vmi, Facts: facts, PolicyNodes: snapshot, Gathered: gathered}
			in.Policies = active(t, `{enforcement: Deny, validations: [{expression: "migrationTargets < 0", message: no, messageExpression: "string(migrationTargets) + ' targets'"}]}`)
			want := "2 targets"
			if c.reason != "" {
				want = "0 targets"
			}
			if got := policyMessages(evaluate(t, in)); !slices.Equal(got, []string{want}) {
				t.Errorf("the variable: %q, want %q", got, want)
			}
		})
	}
	page, err := os.ReadFile("../docs/drains.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile("`([A-Za-z]+NotLiveMigratable)`").FindAllStringSubmatch(string(page), -1)
	if len(reasons) < 6 {
		t.Errorf("the page lists only %v", reasons)
	}
	for _, reason := range reasons {
		if !covered[reason[1]] {
			t.Errorf("no case has the reason %s", reason[1])
		}
	}
}

// policyMessages are the messages of policies.
func policyMessages(verdict *effective.Verdict) []string {
	var texts []string
	for _, f := range verdict.Findings {
		if strings.HasPrefix(f.Rule, policies.RulePrefix) {
			texts = append(texts, f.Error.Detail)
		}
	}
	return texts
}

// TestUnknownTargets: a number that depends on what is not known is an error, and one that does not is the number.
func TestUnknownTargets(t *testing.T) {
	volume := func(name string, found bool, modes ...string) cel.VolumeReference {
		return cel.VolumeReference{Reference: cel.Reference{Name: name, Found: found}, AccessModes: modes}
	}
	absent := volume("root", false)
	shared := &cel.References{PersistentVolumeClaims: []cel.VolumeReference{volume("root", true, "ReadWriteMany")}}
	term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
	near := func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
	far := func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
	notGiven := cel.NewReferences()
	notGiven.Unknown["persistentVolumeClaims"] = fmt.Errorf("%w: spec.volumes[0].dataVolume.name", cel.ErrReferenceNotGiven)
	var nodes []*corev1.Node
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{}
		if err := yaml.UnmarshalStrict([]byte(capableNode), node); err != nil {
			t.Fatal(err)
		}
		node.Name = name
		nodes = append(nodes, node)
	}
	for name, c := range map[string]struct {
		references *cel.References
		nodes      int
		change     func(*v1.VirtualMachineInstance)
		want       string
	}{
		"nothing is read":               {nodes: 2, want: "migrationTargets cannot be previewed: the access modes of the claim root are not known: unknown: policies may not read it: add persistentvolumeclaims and datavolumes to the chart's value policies.references"},
		"nothing is read, nor matters":  {nodes: 1, want: "0 targets"},
		"not given":                     {references: notGiven, nodes: 2, want: "unknown: not in the files: spec.volumes[0].dataVolume.name"},
		"not made yet":                  {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{absent}, DataVolumes: []cel.VolumeReference{volume("root", true)}}, nodes: 2, want: "the claim does not exist yet, and no DataVolume states them"},
		"not made yet, stated shared":   {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{absent}, DataVolumes: []cel.VolumeReference{volume("root", true, "ReadWriteMany")}}, nodes: 2, want: "1 targets"},
		"not made yet, stated unshared": {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{absent}, DataVolumes: []cel.VolumeReference{volume("root", true, "ReadWriteOnce")}}, nodes: 2, want: "0 targets"},
		"the claim is another":          {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{volume("root", true, "ReadWriteOnce")}, DataVolumes: []cel.VolumeReference{volume("root", true, "ReadWriteMany")}}, nodes: 2, want: "0 targets"},
		"devices": {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{volume("root", true, "ReadWriteMany")}}, nodes: 2, change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.ResourceClaims = []v1.VirtualMachineInstanceResourceClaim{{Name: "nic"}}
		}, want: "which nodes can allocate the ResourceClaim nic of spec.resourceClaims is not known"},
		"near pods":                        {references: shared, nodes: 2, change: near, want: "which nodes have the pods of spec.affinity.podAffinity is not known"},
		"near pods, of one node":           {references: shared, nodes: 1, change: near, want: "0 targets"},
		"far from pods":                    {references: shared, nodes: 2, change: far, want: "which nodes have the pods of spec.affinity.podAntiAffinity is not known"},
		"far from pods, with a local disk": {references: &cel.References{PersistentVolumeClaims: []cel.VolumeReference{volume("root", true, "ReadWriteOnce")}}, nodes: 2, change: far, want: "0 targets"},
		"preferably far from pods": {references: shared, nodes: 2, change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}
		}, want: "1 targets"},
		"a device of a network": {references: shared, nodes: 2, change: func(vmi *v1.VirtualMachineInstance) {
			vmi.Spec.Networks = append(vmi.Spec.Networks, v1.Network{Name: "fast", NetworkSource: v1.NetworkSource{Multus: &v1.MultusNetwork{NetworkName: "fast"}}})
			vmi.Spec.Domain.Devices.Interfaces = append(vmi.Spec.Domain.Devices.Interfaces, v1.Interface{Name: "fast", InterfaceBindingMethod: v1.InterfaceBindingMethod{SRIOV: &v1.InterfaceSRIOV{}}})
		}, want: "which nodes have devices of the network fast of spec.networks is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: nodes[:c.nodes], Unknown: placement.Nothing()})
			if err != nil {
				t.Fatal(err)
			}
			vmi := build.VMI("db").Memory("1Gi").Obj()
			vmi.Spec.Domain.CPU = &v1.CPU{Model: v1.CPUModeHostModel}
			vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
			vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
			vmi.Spec.Volumes = []v1.Volume{{Name: "d", VolumeSource: v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "root"}}}}
			if c.change != nil {
				c.change(vmi)
			}
			in := effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), PolicyNodes: snapshot, Gathered: c.references}
			in.Policies = active(t, `{enforcement: Deny, validations: [{expression: "migrationTargets < 0", message: no, messageExpression: "string(migrationTargets) + ' targets'"}]}`)
			if got := strings.Join(policyMessages(evaluate(t, in)), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestTargetsOfRunning: what is counted of an instance that runs takes its time from the policies that do not deny, and is unknown without.
func TestTargetsOfRunning(t *testing.T) {
	node := &corev1.Node{}
	if err := yaml.UnmarshalStrict([]byte(capableNode), node); err != nil {
		t.Fatal(err)
	}
	other := node.DeepCopy()
	other.Name = "other"
	snapshot, err := placement.NewSnapshot(&placement.Cluster{Nodes: []*corev1.Node{node, other}, Unknown: placement.Nothing()})
	if err != nil {
		t.Fatal(err)
	}
	vmi := build.VMI("db").Memory("1Gi").Obj()
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	for _, hurry := range []bool{false, true} {
		measured := 0
		in := effective.Input{
			VMI: vmi, Facts: platform.Defaults(platform.Settings{}), TargetNodes: snapshot, Hurry: func() bool { return hurry },
			Evaluating: func(int64) func() { return func() { measured++ } },
		}
		want, times := migrations.OneTarget, 1
		if hurry {
			want, times = migrations.UnknownTargets, 0
		}
		if got := evaluate(t, in).Targets; got != want || measured != times {
			t.Errorf("in a hurry %v: %s, measured %d times", hurry, got, measured)
		}
	}
}

// TestOnePlacement: the rule node-fits and policies that read migrationTargets compare the nodes once in a request. A comparison
// allocates four bytes for each node at least.
func TestOnePlacement(t *testing.T) {
	const count = 5000
	capable := &corev1.Node{}
	if err := yaml.UnmarshalStrict([]byte(capableNode), capable); err != nil {
		t.Fatal(err)
	}
	cluster := &placement.Cluster{Unknown: placement.Nothing()}
	for i := range count {
		node := capable.DeepCopy()
		node.Name = fmt.Sprint("node-", i)
		cluster.Nodes = append(cluster.Nodes, node)
	}
	snapshot, err := placement.NewSnapshot(cluster)
	if err != nil {
		t.Fatal(err)
	}
	vmi := build.VMI("db").Memory("1Gi").Obj()
	vmi.Spec.Networks = []v1.Network{*v1.DefaultPodNetwork()}
	vmi.Spec.Domain.Devices.Interfaces = []v1.Interface{*v1.DefaultMasqueradeNetworkInterface()}
	set := active(t, `{enforcement: Deny, validations: [{expression: "migrationTargets >= 0", message: no}]}`)
	p := pipeline(t)
	allocated := func(rule, policy bool) int64 {
		in := effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{})}
		if rule {
			in.Nodes = snapshot
		}
		if policy {
			in.PolicyNodes, in.Policies = snapshot, set
		}
		one := func() {
			if _, err := p.Decide(in); err != nil {
				t.Fatal(err)
			}
		}
		one()
		return testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				one()
			}
		}).AllocedBytesPerOp()
	}
	without, rule, policy, both := allocated(false, false), allocated(true, false), allocated(false, true), allocated(true, true)
	t.Logf("bytes without %d, rule %d, policy %d, both %d", without, rule, policy, both)
	if rule-without < 4*count {
		t.Errorf("the rule allocates only %d bytes", rule-without)
	}
	if both-policy > 4*count/2 {
		t.Errorf("the rule allocates %d bytes more beside the policy", both-policy)
	}
}

// TestCostOfTargets compares what policies pay for migrationTargets with what it takes, with the nodes of a large cluster.
func TestCostOfTargets(t *testing.T) {
	if !isolated.Run(t) { // the CPU time of the process is measured
		return
	}
	cluster := &placement.Cluster{Unknown: placement.Nothing(), Shared: map[string]map[string]string{}}
	shared := map[string]string{}
	for i := range 150 {
		shared[fmt.Sprint("cpu-feature.node.kubevirt.io/f", i)] = "true"
	}
	for i := range 5000 {
		node := &corev1.Node{}
		node.Name = fmt.Sprint("node-", i)
		node.Labels = map[string]string{"kubernetes.io/hostname": node.Name}
		cluster.Nodes, cluster.Shared[node.Name] = append(cluster.Nodes, node), shared
	}
	snapshot, err := placement.NewSnapshot(cluster)
	if err != nil {
		t.Fatal(err)
	}
	selector := func(vmi *v1.VirtualMachineInstance) {
		vmi.Spec.NodeSelector = map[string]string{}
		for i := range 80 {
			vmi.Spec.NodeSelector[fmt.Sprintf("example.com/%d", i)] = "x"
		}
	}
	terms := func(expressions, values int) func(*v1.VirtualMachineInstance) {
		return func(vmi *v1.VirtualMachineInstance) {
			var all []corev1.NodeSelectorTerm
			for i := range expressions {
				one := corev1.NodeSelectorRequirement{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpNotIn}
				for k := range values {
					one.Values = append(one.Values, fmt.Sprintf("node-%d-%d", i, k))
				}
				if i%2 == 0 {
					one.Operator = corev1.NodeSelectorOpIn
				}
				all = append(all, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{one}})
			}
			vmi.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: all}}}
		}
	}
	for name, state := range map[string]func(*v1.VirtualMachineInstance){
		"none": func(*v1.VirtualMachineInstance) {}, "labels": selector, "terms": terms(8, 1), "values": terms(1, 60), "lists": terms(3, 20),
	} {
		t.Run(name, func(t *testing.T) {
			vmi := build.VMI("db").Memory("1Gi").Obj()
			state(vmi)
			in := effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), PolicyNodes: snapshot}
			in.Policies = active(t, `{enforcement: Deny, validations: [{expression: "migrationTargets > 0", message: "no"}]}`)
			verdict, err := pipeline(t).Complete(in)
			if err != nil {
				t.Fatal(err)
			}
			preview := func() cel.Preview {
				previews, _ := effective.Previews(pipeline(t), &in, verdict)
				return (&cel.Documents{Previews: previews}).Preview("migrationTargets")
			}
			made := preview()
			if made.Err != nil {
				t.Fatal(made.Err)
			}
			cputime.Check(t, made.Units, func() { preview() })
		})
	}
}
