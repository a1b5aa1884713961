package advice

import (
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"

	"github.com/virtward/virtward/policies/export"
)

// CheckAbsent is the name of the check of fields that can be absent.
const CheckAbsent = "absent-field"

// Absent returns fields of vm.spec that virtual machines have only if their authors, instancetypes, preferences or defaults
// set them. It is not complete. A test compares it with a small virtual machine.
func Absent() []string {
	return []string{
		"accessCredentials", "affinity", "dnsConfig", "dnsPolicy", "livenessProbe", "nodeSelector", "priorityClassName", "readinessProbe",
		"schedulerName", "startStrategy", "subdomain", "tolerations", "topologySpreadConstraints",
		"domain.chassis", "domain.cpu.dedicatedCpuPlacement", "domain.cpu.features", "domain.cpu.isolateEmulatorThread", "domain.cpu.numa",
		"domain.cpu.realtime", "domain.devices.clientPassthrough", "domain.devices.filesystems", "domain.devices.gpus",
		"domain.devices.hostDevices", "domain.devices.inputs", "domain.devices.rng", "domain.devices.sound", "domain.devices.tpm",
		"domain.devices.watchdog", "domain.features.hyperv", "domain.features.kvm", "domain.features.smm", "domain.ioThreadsPolicy",
		"domain.launchSecurity", "domain.memory.hugepages",
	}
}

// absentFields finds reads of fields that can be absent. If an expression of the policy tests one, or reads it as an
// optional, it is not found.
func absentFields(p *policy, e *expression) {
	warned := map[string]bool{}
	visit(e, func(node celast.Expr) {
		if node.Kind() != celast.SelectKind || node.AsSelect().IsTestOnly() {
			return
		}
		steps, root := export.Chain(node)
		if root != "vm" || len(steps) < 2 || steps[0] != "spec" {
			return
		}
		field := strings.Join(steps[1:], ".")
		if !slices.Contains(Absent(), field) || warned[field] || p.tests(steps) {
			return
		}
		warned[field] = true
		last := len(steps) - 1
		p.warn(e, node, "vm.%s can be absent, and reading it fails then: use vm.%s.?%s, or has()", strings.Join(steps, "."), strings.Join(steps[:last], "."), steps[last])
	})
}

// tests reports whether an expression of the policy tests a field of vm, or reads it as an optional.
func (p *policy) tests(steps []string) bool {
	found := false
	for _, e := range p.all {
		visit(e, func(node celast.Expr) {
			read, root := export.Chain(node)
			if root != "vm" || !slices.Equal(read, steps) {
				return
			}
			if node.Kind() == celast.CallKind || node.AsSelect().IsTestOnly() {
				found = true
			}
		})
	}
	return found
}
