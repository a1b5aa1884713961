package bench

import (
	"testing"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// validations are fifty of the kind that policies for VMs have; all hold for a typical VM.
var validations = []string{
	"quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0",
	"vm.spec.domain.cpu.cores * vm.spec.domain.cpu.?sockets.orValue(1) * vm.spec.domain.cpu.?threads.orValue(1) <= 16",
	"!has(vm.spec.domain.cpu.dedicatedCpuPlacement) || object.metadata.namespace == 'realtime'",
	"!has(vm.spec.domain.memory.hugepages)",
	"vm.spec.domain.devices.disks.all(d, !has(d.disk) || d.disk.bus in ['virtio', 'scsi', 'sata'])",
	"vm.spec.domain.devices.interfaces.all(i, has(i.masquerade) || has(i.bridge))",
	"vm.spec.domain.devices.interfaces.all(i, !has(i.macAddress))",
	"vm.spec.volumes.all(v, !has(v.hostDisk))",
	"vm.spec.volumes.all(v, !has(v.containerDisk) || v.containerDisk.image.startsWith('quay.io/'))",
	"vm.spec.volumes.all(v, !has(v.cloudInitNoCloud) || has(v.cloudInitNoCloud.secretRef))",
	"!has(vm.spec.domain.devices.gpus)",
	"!has(vm.spec.domain.devices.hostDevices)",
	"vm.spec.networks.all(n, has(n.pod) || n.multus.networkName in ['storage-net', 'backup-net'])",
	"vm.spec.domain.machine.type.startsWith('q35') || vm.spec.domain.machine.type.startsWith('pc-q35')",
	"vm.spec.architecture == 'amd64'",
	"platform.hypervisor == 'kvm'",
	"object.metadata.namespace != 'production' || has(object.spec.instancetype)",
	"object.metadata.name.matches('^[a-z][a-z0-9-]*$')",
	"has(object.spec.template.metadata.labels) && 'app' in object.spec.template.metadata.labels",
	"object.spec.template.metadata.labels['app'].size() < 64",
	"object.spec.runStrategy in ['Halted', 'Always', 'RerunOnFailure']",
	"!has(object.spec.dataVolumeTemplates) || object.spec.dataVolumeTemplates.size() < 10",
	"object.metadata.namespace != 'kube-system'",
	"!has(vm.spec.domain.firmware) || !has(vm.spec.domain.firmware.kernelBoot)",
	"!has(vm.spec.domain.devices.clientPassthrough)",
	"!has(vm.spec.domain.devices.filesystems)",
	"!has(vm.spec.domain.devices.watchdog) || vm.spec.domain.devices.watchdog.name != ''",
	"!has(vm.spec.domain.launchSecurity)",
	"!has(vm.spec.nodeSelector) || !('node-role.kubernetes.io/control-plane' in vm.spec.nodeSelector)",
	"!has(vm.spec.tolerations) || vm.spec.tolerations.all(t, t.operator != 'Exists')",
	"!has(vm.spec.priorityClassName) || !vm.spec.priorityClassName.startsWith('system-')",
	"vm.spec.domain.devices.disks.size() <= 16",
	"vm.spec.volumes.size() == vm.spec.domain.devices.disks.size()",
	"vm.spec.domain.devices.disks.all(d, vm.spec.volumes.exists(v, v.name == d.name))",
	"vm.spec.domain.devices.disks.all(d, d.name.size() <= 32)",
	"vm.spec.domain.devices.disks.filter(d, has(d.bootOrder)).size() <= 1",
	"!has(vm.spec.evictionStrategy) || vm.spec.evictionStrategy in ['None', 'LiveMigrate']",
	"!has(vm.spec.dnsPolicy) || vm.spec.dnsPolicy != 'None'",
	"!has(vm.spec.terminationGracePeriodSeconds) || vm.spec.terminationGracePeriodSeconds <= 600",
	"request.operation == 'CREATE' || object.spec.template == oldObject.spec.template",
	"request.userInfo.groups.exists(g, g == 'system:authenticated')",
	"requester != 'system:anonymous'",
	"namespaceObject == null || has(namespaceObject.metadata.labels)",
	"instancetype == null || instancetype.cpu.guest <= 16",
	"preference == null || !has(preference.firmware)",
	"!('spec.domain.machine.type' in provenance) || provenance['spec.domain.machine.type'] != 'user'",
	"params.maxDisks >= vm.spec.domain.devices.disks.size()",
	"params.networks.exists(n, n == 'storage-net')",
	"has(vm.spec.domain.memory.guest) && quantity(vm.spec.domain.memory.guest).isGreaterThan(quantity('256Mi'))",
	"vm.metadata.name == object.metadata.name && !has(vm.metadata.annotations)",
}

// typicalDocuments returns the documents of the creation of a typical VM.
func typicalDocuments(tb testing.TB) func() *cel.Documents {
	tb.Helper()
	vm, facts := build.VMOf(build.Typical("db")).Obj(), platform.Defaults(platform.Settings{})
	verdict, err := pipeline(tb).Decide(effective.Input{VM: vm, Facts: facts})
	if err != nil {
		tb.Fatal(err)
	}
	effectiveVM := build.Typical("db").Obj()
	effectiveVM.Spec = *verdict.Spec
	params := map[string]any{"maxDisks": int64(8), "networks": []any{"backup-net", "storage-net"}}
	return func() *cel.Documents {
		d := &cel.Documents{
			Kind: apikinds.VirtualMachine, Object: vm, VM: effectiveVM, Provenance: verdict.Changes, Facts: facts,
			Requester: "alice", Params: params,
		}
		d.Request.Operation = "CREATE"
		d.Request.UserInfo.Username = "alice"
		d.Request.UserInfo.Groups = []string{"developers", "system:authenticated"}
		return d
	}
}

// compileEach compiles each expression in a separate scope, as policies do.
func compileEach(tb testing.TB, expressions []string) ([]*cel.Scope, []*cel.Program) {
	tb.Helper()
	environment, err := cel.NewEnvironment()
	if err != nil {
		tb.Fatal(err)
	}
	var scopes []*cel.Scope
	var programs []*cel.Program
	for _, expression := range expressions {
		scope, issues := environment.Scope(cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
		if len(issues) > 0 {
			tb.Fatal(issues)
		}
		program, issues := scope.Compile(expression, cel.Bool)
		if len(issues) > 0 {
			tb.Fatalf("%s: %v", expression, issues)
		}
		scopes, programs = append(scopes, scope), append(programs, program)
	}
	return scopes, programs
}

// BenchmarkCEL50 evaluates fifty validations for one request, each with its own activation and budget.
func BenchmarkCEL50(b *testing.B) {
	documents := typicalDocuments(b)
	scopes, programs := compileEach(b, validations)
	b.ReportAllocs()
	for b.Loop() {
		d := documents()
		for i, program := range programs {
			result, err := program.Eval(scopes[i].Activation(d), cel.NewBudget())
			if err != nil || result != true {
				b.Fatalf("%s: %v, %v", program.Expression(), result, err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(programs)), "ns/validation")
}

// BenchmarkCELAlone evaluates each of the fifty validations with new documents.
func BenchmarkCELAlone(b *testing.B) {
	documents := typicalDocuments(b)
	scopes, programs := compileEach(b, validations)
	b.ReportAllocs()
	for b.Loop() {
		for i, program := range programs {
			if result, err := program.Eval(scopes[i].Activation(documents()), cel.NewBudget()); err != nil || result != true {
				b.Fatalf("%s: %v, %v", program.Expression(), result, err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(programs)), "ns/validation")
}

// BenchmarkCELCompile is one policy with one validation, from its text.
func BenchmarkCELCompile(b *testing.B) {
	environment, err := cel.NewEnvironment()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		scope, issues := environment.Scope(cel.ScopeOptions{Kinds: []string{apikinds.VirtualMachine}})
		if len(issues) > 0 {
			b.Fatal(issues)
		}
		if _, issues := scope.Compile(validations[4], cel.Bool); len(issues) > 0 {
			b.Fatal(issues)
		}
	}
}

// BenchmarkCELEnvironment creates the environment, which a program does once.
func BenchmarkCELEnvironment(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cel.NewEnvironment(); err != nil {
			b.Fatal(err)
		}
	}
}
