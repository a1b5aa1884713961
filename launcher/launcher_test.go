package launcher_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// instance is one in YAML, with KubeVirt's status.
func instance(t testing.TB, text string) *v1.VirtualMachineInstance {
	t.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := yaml.UnmarshalStrict([]byte(text), vmi); err != nil {
		t.Fatal(err)
	}
	vmi.Name, vmi.Namespace = "db", "shop"
	return launcher.Started(vmi, platform.Defaults(platform.Settings{}))
}

// input is that of a cluster with KubeVirt's defaults.
func input(vmi *v1.VirtualMachineInstance, architecture string) *launcher.Input {
	return &launcher.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{}), Renderer: launcher.NewBaseRenderer(architecture)}
}

func render(t *testing.T, in *launcher.Input) *launcher.Result {
	t.Helper()
	result, err := launcher.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestOverheadByComponent(t *testing.T) {
	for _, tc := range []struct {
		name, architecture, spec string
		want                     []string
	}{
		{
			name: "a plain guest", architecture: "amd64", spec: `{domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, devices: {}}}`,
			want: []string{"processes 240Mi", "vcpus 16Mi", "io-thread 8Mi", "graphics 32Mi", "total 296Mi"},
		},
		{
			name: "flash of arm64", architecture: "arm64", spec: `{domain: {devices: {autoattachGraphicsDevice: false}}}`,
			want: []string{"processes 240Mi", "vcpus 8Mi", "io-thread 8Mi", "firmware 128Mi", "total 384Mi"},
		},
		{
			name: "all", architecture: "amd64", spec: `{
				livenessProbe: {exec: {command: [a]}}, readinessProbe: {exec: {command: [b]}}, volumes: [{name: m, downwardMetrics: {}}],
				domain: {
					resources: {requests: {memory: 64Gi, cpu: "2"}, limits: {memory: 64Gi, cpu: "2"}}, launchSecurity: {snp: {}},
					memory: {reservedOverhead: {addedOverhead: 5Mi}},
					devices: {tpm: {}, gpus: [{name: g, deviceName: v.example/g}], interfaces: [{name: net, passtBinding: {}}]}}}`,
			want: []string{
				"page-tables 128Mi", "processes 240Mi", "vcpus 16Mi", "io-thread 8Mi", "graphics 32Mi", "vfio 1Gi", "downward-metrics 1Mi",
				"probes 120Mi", "sev 256Mi", "tpm 53Mi", "guaranteed 100Mi", "reserved 5Mi", "passt 250Mi", "total 2.18Gi",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overhead := render(t, input(instance(t, `spec: `+tc.spec), tc.architecture)).Overhead
			var got []string
			for i := range overhead.Components {
				c := &overhead.Components[i]
				got = append(got, c.Name+" "+launcher.Readable(&c.Amount))
				if c.Title == "" {
					t.Errorf("%s has no title", c.Name)
				}
			}
			got = append(got, "total "+launcher.Readable(&overhead.Total))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsualRatio holds that the fast division of CPUs is KubeVirt's.
func TestUsualRatio(t *testing.T) {
	for count := int64(1); count < 2000; count++ {
		fast, err := launcher.Share(count, 10)
		if err != nil {
			t.Fatal(err)
		}
		if slow := launcher.SlowShare(count, 10); fast.Cmp(slow) != 0 {
			t.Errorf("%d CPUs: %s, want %s", count, fast.String(), slow.String())
		}
	}
}

func TestDemands(t *testing.T) {
	in := input(instance(t, `spec: {
		architecture: amd64, nodeSelector: {disk: ssd},
		domain: {machine: {type: q35}, cpu: {model: host-model, dedicatedCpuPlacement: true, features: [{name: a}, {name: b, policy: forbid}]}, devices: {}}}`), "amd64")
	in.Changes = []provenance.Change{{Path: "spec.domain.cpu", Layer: "preference/fast"}, {Path: "spec.domain.machine.type", Layer: "amd64"}}
	got := make([]string, 0, 8)
	for _, d := range render(t, in).Demands {
		got = append(got, strings.Join([]string{d.Key, string(d.Operator), d.Value, d.Field, d.Layer}, " "))
	}
	want := []string{
		"kubevirt.io/schedulable In true  ",
		"kubernetes.io/arch In amd64 spec.architecture ",
		"disk In ssd spec.nodeSelector ",
		"kubevirt.io/cpumanager In true spec.domain.cpu.dedicatedCpuPlacement preference/fast",
		"machine-type.node.kubevirt.io/q35 In true spec.domain.machine.type amd64",
		"cpu-feature.node.kubevirt.io/a In true spec.domain.cpu.features[0] preference/fast",
		"node-labeller.kubevirt.io/obsolete-host-model DoesNotExist  spec.domain.cpu.model preference/fast",
		"cpu-feature.node.kubevirt.io/b DoesNotExist  spec.domain.cpu.features[1] preference/fast",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("demands (-want +got):\n%s", diff)
	}
}

func TestRemarks(t *testing.T) {
	for _, tc := range []struct {
		name, spec, want string
		change           func(*v1.KubeVirtConfiguration)
	}{
		{name: "none", spec: `{domain: {memory: {guest: 256Mi}, devices: {}}}`},
		{name: "page tables", spec: `{domain: {memory: {guest: 64Gi}, devices: {}}}`, want: "spec.domain.memory.guest: KubeVirt adds no memory for the page tables of memory.guest, only of requests.memory. They need 128Mi, so that the overhead would be 416Mi."},
		{name: "a small limit", spec: `{domain: {memory: {guest: 256Mi}, resources: {limits: {memory: 200Mi}}, devices: {}}}`, want: "spec.domain.resources.limits.memory: The limit is less than the memory of the guest, so that the pod can be killed."},
		{name: "overcommitted pages", spec: `{domain: {memory: {guest: 256Mi, hugepages: {pageSize: 2Mi}}, devices: {}}}`, change: func(c *v1.KubeVirtConfiguration) { c.DeveloperConfiguration.MemoryOvercommit = 200 }, want: "spec.domain.memory.hugepages: The pod requests 128Mi of huge pages, less than the memory of the guest: huge pages cannot be overcommitted."},
		{name: "a part of a page", spec: `{domain: {memory: {guest: 63Mi, hugepages: {pageSize: 2Mi}}, devices: {}}}`, want: "spec.domain.memory.hugepages: The pod requests 63Mi of huge pages, which is no whole number of pages of 2Mi."},
		{name: "a fraction of a byte", spec: `{domain: {memory: {guest: 0.1Gi}, devices: {}}}`, want: "spec.domain.resources.requests: The pod requests a fraction of a byte: 409364070400m. Kubernetes warns about it."},
		{name: "a fraction of a CPU", spec: `{domain: {memory: {guest: 256Mi}, cpu: {cores: 1}, devices: {}}}`, change: func(c *v1.KubeVirtConfiguration) { c.DeveloperConfiguration.CPUAllocationRatio = 3 }, want: "spec.domain.resources.requests: The pod requests a fraction of a thousandth of a CPU: 333333334n. Kubernetes rounds it up."},
		{name: "a selector", spec: `{nodeSelector: {kubevirt.io/schedulable: "false"}, domain: {devices: {}}}`, want: "spec.nodeSelector: A node selector replaces KubeVirt's own demand for kubevirt.io/schedulable."},
		{name: "dedicated requests", spec: `{domain: {cpu: {dedicatedCpuPlacement: true}, resources: {requests: {cpu: "2"}}, devices: {}}}`, want: "spec.domain.cpu.dedicatedCpuPlacement: The pod has no CPU limit, so that it is not Guaranteed and gets no dedicated CPUs. State the CPUs as limits, or as cores."},
		{name: "threads", spec: `{domain: {ioThreads: {supplementalPoolThreadCount: 2}, devices: {}}}`, want: "spec.domain.ioThreads: The pod requests CPUs for I/O threads that the guest does not get without ioThreadsPolicy: supplementalPool."},
		{name: "USB", spec: `{domain: {devices: {hostDevices: [{name: u, deviceName: v.example/u}]}}}`, change: func(c *v1.KubeVirtConfiguration) {
			c.PermittedHostDevices = &v1.PermittedHostDevices{USB: []v1.USBHostDevice{{ResourceName: "v.example/u"}}}
		}, want: "spec.domain.devices.hostDevices: KubeVirt adds 1Gi for VFIO, which USB devices do not need."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := input(instance(t, `spec: `+tc.spec), "amd64")
			if tc.change != nil {
				tc.change(in.Facts.Configuration)
			}
			var got []string
			for _, r := range render(t, in).Remarks {
				got = append(got, r.Field+": "+r.Text)
			}
			if text := strings.Join(got, "\n"); text != tc.want {
				t.Errorf("remarks:\n%s\nwant:\n%s", text, tc.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	huge := instance(t, `spec: {domain: {cpu: {sockets: 4294967295, cores: 4294967295, threads: 4294967295}, devices: {}}}`)
	many := instance(t, `spec: {domain: {devices: {}}}`)
	many.Spec.Volumes = make([]v1.Volume, launcher.MaxDevices+1)
	hooks := instance(t, `metadata: {annotations: {hooks.kubevirt.io/hookSidecars: "[`+strings.Repeat("{},", launcher.MaxDevices)+`{}]"}}`)
	for name, vmi := range map[string]*v1.VirtualMachineInstance{"vCPUs": huge, "devices": many, "hooks": hooks} {
		if _, err := launcher.Render(input(vmi, "amd64")); !errors.Is(err, launcher.ErrTooLarge) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestAmounts holds that amounts as large as they can be do not panic, and give no negative requests.
func TestAmounts(t *testing.T) {
	vmi := instance(t, `spec: {domain: {memory: {guest: 8Ei}, resources: {requests: {memory: 9Ei}}, devices: {}}}`)
	in := input(vmi, "amd64")
	for _, ratio := range []string{"1e300", "-1e300", "NaN", "Inf", "x"} {
		in.Facts.Configuration.AdditionalGuestMemoryOverheadRatio = &ratio
		render(t, in)
	}
	tables := launcher.Components()[0].Of(vmi, in.Facts)
	if tables.Cmp(*resource.NewQuantity(math.MaxInt64/600, resource.BinarySI)) < 0 {
		t.Errorf("page tables %s", tables.String())
	}
}

// TestPure holds that two renderings are equal, and change no input.
func TestPure(t *testing.T) {
	in := input(instance(t, everything), "amd64")
	before := in.VMI.DeepCopy()
	once, twice := render(t, in), render(t, in)
	if diff := cmp.Diff(once.Pod, twice.Pod); diff != "" {
		t.Errorf("pods (-once +twice):\n%s", diff)
	}
	if diff := cmp.Diff(before, in.VMI); diff != "" {
		t.Errorf("the instance was changed (-before +after):\n%s", diff)
	}
	if len(once.Assumptions) == 0 {
		t.Error("nothing is assumed, though the cluster is unknown")
	}
}

// everything uses most parts of a pod.
const everything = `{metadata: {labels: {a: b, logVerbosity: "6"}, annotations: {sidecar.istio.io/inject: "true", hooks.kubevirt.io/hookSidecars: '[{"image":"i","configMap":{"name":"c"},"pvc":{"name":"p","sharedComputePath":"/s"}}]'}}, spec: {
	architecture: amd64, nodeSelector: {disk: ssd}, tolerations: [{key: a}], priorityClassName: high,
	affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}},
	livenessProbe: {exec: {command: [a, b]}}, readinessProbe: {guestAgentPing: {}},
	accessCredentials: [{sshPublicKey: {source: {secret: {secretName: keys}}}}],
	networks: [{name: net, pod: {}}, {name: m, multus: {networkName: red}}],
	volumes: [{name: a, containerDisk: {image: i}}, {name: b, persistentVolumeClaim: {claimName: b}}, {name: c, cloudInitNoCloud: {secretRef: {name: u}, networkDataSecretRef: {name: w}}}, {name: d, hostDisk: {path: /a/b, type: Disk}}, {name: e, sysprep: {secret: {name: s}}}, {name: f, configMap: {name: f}}, {name: g, serviceAccount: {serviceAccountName: g}}],
	domain: {
		cpu: {sockets: 2, model: Haswell, features: [{name: x}, {name: z, policy: forbid}]}, memory: {guest: 2Gi, hugepages: {pageSize: 2Mi}}, firmware: {bootloader: {efi: {persistent: true}}},
		resources: {limits: {v.example/x: "1"}},
		devices: {tpm: {persistent: true}, disks: [{name: f}, {name: b, lun: {reservation: true}}], filesystems: [{name: g, virtiofs: {}}], interfaces: [{name: net, masquerade: {}, ports: [{port: 80}]}, {name: m, sriov: {}}], gpus: [{name: g, deviceName: v.example/g}]}}}}`

// FuzzRender holds that no instance that can be decoded panics, or makes an invalid amount.
func FuzzRender(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{spec: {domain: {cpu: {dedicatedCpuPlacement: true, isolateEmulatorThread: true}, devices: {}}}}`))
	f.Add([]byte(`{spec: {volumes: [{name: a, ephemeral: {}}, {name: b, sysprep: {}}], domain: {memory: {hugepages: {pageSize: x}}, devices: {}}}}`))
	facts := platform.Defaults(platform.Settings{})
	renderer := launcher.NewBaseRenderer("arm64")
	f.Fuzz(func(t *testing.T, data []byte) {
		vmi := &v1.VirtualMachineInstance{}
		if yaml.Unmarshal(data, vmi) != nil {
			t.Skip()
		}
		result, err := launcher.Render(&launcher.Input{VMI: vmi, Facts: facts, Renderer: renderer})
		if err != nil {
			return
		}
		if compute := &result.Pod.Spec.Containers[0]; compute.Name != "compute" || compute.Resources.Requests[corev1.ResourceMemory].Format == "" {
			t.Errorf("container %s, memory %v", compute.Name, compute.Resources.Requests)
		}
	})
}
