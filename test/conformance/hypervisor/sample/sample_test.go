package sample_test

import (
	"testing"

	"github.com/virtward/virtward/test/conformance/hypervisor"
	"github.com/virtward/virtward/test/conformance/hypervisor/sample"
)

func TestSample(t *testing.T) {
	hypervisor.Run(t, sample.Hypervisor(), hypervisor.Named(sample.Form()), hypervisor.Cases(
		hypervisor.Case{
			Name: "a TPM", Rule: "sample-tpm", VMI: vmi("amd64", `memory: {guest: 1Gi}, devices: {tpm: {}}`),
			Want: []string{`sample-tpm: spec.domain.devices.tpm: Unsupported value: sample has no TPM`},
		},
		hypervisor.Case{Name: "no TPM", Rule: "sample-tpm", VMI: vmi("amd64", `memory: {guest: 1Gi}, cpu: {cores: 2}`)},
		hypervisor.Case{
			Name: "many cores", Rule: "sample-cores", VMI: vmi("s390x", `memory: {guest: 1Gi}, cpu: {cores: 65}`),
			Want: []string{`sample-cores: spec.domain.cpu.cores: Invalid value: 65: sample has at most 64 cores in a socket`},
		},
		hypervisor.Case{Name: "as many cores as there can be", Rule: "sample-cores", VMI: vmi("s390x", `memory: {guest: 1Gi}, cpu: {cores: 64}`)},
		hypervisor.Case{
			Name: "hugepages on arm64", Rule: "sample-arm64-hugepages", VMI: vmi("arm64", `memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`),
			Want: []string{`sample-arm64-hugepages: spec.domain.memory.hugepages: Unsupported value: "2Mi": sample has hugepages on amd64 and s390x only`},
		},
		hypervisor.Case{Name: "hugepages on amd64", Rule: "sample-arm64-hugepages", VMI: vmi("amd64", `memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`)},
		hypervisor.Case{Name: "no hugepages on arm64", Rule: "sample-arm64-hugepages", VMI: vmi("arm64", `memory: {guest: 1Gi}`)},
		hypervisor.Case{
			Name: "BIOS", Rule: "sample-amd64-bios", VMI: vmi("amd64", `memory: {guest: 1Gi}, firmware: {bootloader: {bios: {}}}`),
			Want: []string{`sample-amd64-bios: spec.domain.firmware.bootloader.bios: Invalid value: the next sample boots from EFI only`},
		},
		hypervisor.Case{Name: "no bootloader", Rule: "sample-amd64-bios", VMI: vmi("amd64", `memory: {guest: 1Gi}, firmware: {}`)},
		hypervisor.Case{
			Name: "realtime while the gate is off", Rule: "sample-realtime", VMI: vmi("amd64", realtime),
			Want: []string{`sample-realtime: spec.domain.cpu.realtime: Invalid value: realtime guests are an experiment on sample: it needs KubeVirt's feature gate ConfigurableHypervisor, which is off in this cluster`},
		},
		hypervisor.Case{
			Name: "realtime while the gate is on", Rule: "sample-realtime", VMI: vmi("amd64", realtime),
			Configuration: `{developerConfiguration: {featureGates: [ConfigurableHypervisor]}}`,
		},
	))
}

const realtime = `cpu: {cores: 2, dedicatedCpuPlacement: true, realtime: {}, numa: {guestMappingPassthrough: {}}}, memory: {guest: 1Gi, hugepages: {pageSize: 2Mi}}`

// vmi is one whose domain says something.
func vmi(architecture, domain string) string {
	return `{metadata: {name: vm, namespace: default}, spec: {architecture: ` + architecture + `, domain: {` + domain + `}}}`
}
