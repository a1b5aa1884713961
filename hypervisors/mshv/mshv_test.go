package mshv_test

import (
	"testing"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/conformance/hypervisor"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
)

// How a cluster may name it: as VEP 97 does and as KubeVirt does, and with the feature gate closed.
const (
	seed     = `{developerConfiguration: {featureGates: [ConfigurableHypervisor]}, hypervisor: [{name: mshv, hypervisorDevice: mshv, virtType: hyperv}]}`
	kubevirt = `{developerConfiguration: {featureGates: [ConfigurableHypervisor]}, hypervisors: [{name: hyperv-direct}]}`
	gateOff  = `{hypervisor: [{name: mshv, hypervisorDevice: mshv, virtType: hyperv}]}`
	// models of the cluster, which the hypervisor's wish comes before.
	seedModel = `{cpuModel: Haswell, developerConfiguration: {featureGates: [ConfigurableHypervisor]}, hypervisor: [{name: mshv}]}`
)

func TestMSHV(t *testing.T) {
	hypervisor.Run(t, hypervisor.BuiltIn(t, platform.MSHV), hypervisor.Cases(
		hypervisor.Case{
			Name: "mshv, and a model of one's own", Rule: "mshv-cpu-model", Configuration: seed, VMI: vmi("amd64", "host-model"),
			Want: []string{`mshv-cpu-model: spec.domain.cpu.model: Unsupported value: "host-model": mshv runs amd64 guests with the CPU model qemu64-v1 only`},
		},
		hypervisor.Case{
			Name: "mshv, and a VM with a model of its own", Rule: "mshv-cpu-model", Configuration: seed,
			VM:   `{metadata: {name: vm, namespace: default}, spec: {runStrategy: Halted, template: {spec: {domain: {memory: {guest: 1Gi}, cpu: {model: EPYC}}}}}}`,
			Want: []string{`mshv-cpu-model: spec.template.spec.domain.cpu.model: Unsupported value: "EPYC": mshv runs amd64 guests with the CPU model qemu64-v1 only`},
		},
		hypervisor.Case{Name: "mshv, and its model", Rule: "mshv-cpu-model", Configuration: seed, VMI: vmi("amd64", "qemu64-v1")},
		hypervisor.Case{Name: "mshv, and no model", Rule: "mshv-cpu-model", Configuration: seed, VMI: vmi("amd64", "")},
		hypervisor.Case{Name: "mshv, no model, and one of the cluster", Rule: "mshv-cpu-model", Configuration: seedModel, VMI: vmi("", "")},
		hypervisor.Case{Name: "hyperv-direct, and a model of one's own", Rule: "mshv-cpu-model", Configuration: kubevirt, VMI: vmi("amd64", "EPYC")},
		hypervisor.Case{Name: "hyperv-direct, and no model", Rule: "mshv-cpu-model", Configuration: kubevirt, VMI: vmi("amd64", "")},
		hypervisor.Case{
			Name: "hyperv-direct, and another model than the installation's", Rule: "mshv-cpu-model", Configuration: kubevirt,
			Settings: platform.Settings{MSHVCPUModel: "Skylake-Server"}, VMI: vmi("amd64", "EPYC"),
			Want: []string{`mshv-cpu-model: spec.domain.cpu.model: Unsupported value: "EPYC": hyperv-direct runs amd64 guests with the CPU model Skylake-Server only`},
		},
		hypervisor.Case{
			Name: "hyperv-direct, and the installation's model", Rule: "mshv-cpu-model", Configuration: kubevirt,
			Settings: platform.Settings{MSHVCPUModel: "Skylake-Server"}, VMI: vmi("amd64", "Skylake-Server"),
		},
		hypervisor.Case{
			Name: "mshv, and another model than the installation's", Rule: "mshv-cpu-model", Configuration: seed,
			Settings: platform.Settings{MSHVCPUModel: "EPYC"}, VMI: vmi("amd64", "qemu64-v1"),
			Want: []string{`mshv-cpu-model: spec.domain.cpu.model: Unsupported value: "qemu64-v1": mshv runs amd64 guests with the CPU model EPYC only`},
		},
		hypervisor.Case{
			Name: "mshv, and an installation without a wish", Rule: "mshv-cpu-model", Configuration: seed,
			Settings: platform.Settings{MSHVCPUModel: "none"}, VMI: vmi("amd64", "EPYC"),
		},
		hypervisor.Case{Name: "the gate is closed", Rule: "mshv-cpu-model", Configuration: gateOff, VMI: vmi("amd64", "EPYC")},
		hypervisor.Case{Name: "arm64", Rule: "mshv-cpu-model", Configuration: seed, VMI: vmi("arm64", "host-passthrough")},
		hypervisor.Case{Name: "s390x", Rule: "mshv-cpu-model", Configuration: seed, VMI: vmi("s390x", "host-model")},
		hypervisor.Case{Name: "kvm", Rule: "mshv-cpu-model", Configuration: `{}`, VMI: vmi("amd64", "EPYC")},
	))
}

func vmi(architecture, model string) string {
	return `{metadata: {name: vm, namespace: default}, spec: {architecture: "` + architecture + `", domain: {memory: {guest: 1Gi}, cpu: {model: "` + model + `"}}}}`
}

// TestWhereTheRuleHolds: what is no mshv on amd64 does not have the rule at all.
func TestWhereTheRuleHolds(t *testing.T) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, hypervisor := range []string{platform.KVM, platform.MSHV} {
		for _, architecture := range []string{architectures.AMD64, architectures.ARM64, architectures.S390X} {
			validator, err := registry.Validator(hypervisor, architecture)
			if err != nil {
				t.Fatal(err)
			}
			has := false
			for _, rule := range validator.Rules() {
				has = has || rule.ID == "mshv-cpu-model"
			}
			if want := hypervisor == platform.MSHV && architecture == architectures.AMD64; has != want {
				t.Errorf("%s/%s has the rule mshv-cpu-model: %v, want %v", hypervisor, architecture, has, want)
			}
		}
	}
}
