package extension

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/soak"
)

// mostFilesOfKind bounds the files that are edited by hand to add a kind that carries a virtual machine.
const mostFilesOfKind = 12

// fleet are the edits that add a kind: VirtualMachineFleets, whose objects have the fields of VirtualMachinePools.
func fleet(t *testing.T) []edit {
	t.Helper()
	pools, err := os.ReadFile(filepath.Join(root, "test", "crds", "virtualmachinepools.pool.kubevirt.io.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition := strings.NewReplacer("pool.kubevirt.io", "fleet.example.com", "VirtualMachinePool", "VirtualMachineFleet", "virtualmachinepool", "virtualmachinefleet", "vmpool", "vmfleet")
	return []edit{
		{"api/apikinds/kinds.go", "\tVirtualMachineTemplate           = \"VirtualMachineTemplate\"\n", "\tVirtualMachineFleet              = \"VirtualMachineFleet\"\n"},
		{"api/apikinds/kinds.go", "\tTemplates               = resource(", "\tFleets                  = resource(\"fleet.example.com\", \"v1beta1\", VirtualMachineFleet, \"virtualmachinefleets\")\n"},
		{"api/apikinds/machines.go", "\t\t{\n\t\t\tResource: Templates,", `		{
			Resource: Fleets, Versions: []string{"v1beta1", "v1alpha1"}, Type: reflect.TypeFor[poolv1beta1.VirtualMachinePool](),
			Makes: VirtualMachine, Template: "spec.virtualMachineTemplate", Scale: true, Status: true, ShortNames: []string{"vmfleet"},
		},
`},
		{"evaluator/kinds.go", "\tInstancetype           = ", "\tFleet                  = apikinds.Fleets.GroupKind()\n"},
		{"evaluator/kinds.go", "\tTemplate:   {machine: ofTemplate},\n", "\tFleet:      {machine: ofPool, scopes: validators.OnSet, present: presentPool},\n"},
		{"admissionpolicies/kinds.go", "\t\t{\n\t\t\tGroupKind: kindOf(\"instancetype.kubevirt.io\", \"VirtualMachineInstancetype\"),", `		{
			GroupKind: kindOf("fleet.example.com", "VirtualMachineFleet"), Resource: "virtualmachinefleets", Effect: Runs, Guard: TemplateApprovedOnly,
			Because: "its template describes virtual machines",
		},
`},
		{"admissionpolicies/template-provenance.yaml", "  variables:\n    - name: keys\n", `      - apiGroups: ["fleet.example.com"]
        apiVersions: ["*"]
        operations: ["CREATE", "UPDATE"]
        resources: ["virtualmachinefleets"]
`},
		{"admissionpolicies/template-provenance.yaml", "'virtualmachinepools'\"\n    - name: path\n", "'virtualmachinefleets' || request.resource.resource == "},
		{"test/crds/virtualmachinefleets.fleet.example.com.yaml", "", definition.Replace(string(pools))},
		{"docs/audit.md", "| VirtualMachineInstanceReplicaSet | built-in rules;", "| VirtualMachineFleet | built-in rules; policies evaluate its virtual machines |\n"},
		{"docs/policy-requests.md", "| VirtualMachineRestore, VirtualMachineClone | the snapshot", "| VirtualMachineFleet | `spec.virtualMachineTemplate` | the user who writes it | when the template is written, as a VM |\n"},
	}
}

// TestKind holds that the edits apply, and how many files they need.
func TestKind(t *testing.T) {
	edits := fleet(t)
	applied(t, root, edits)
	if n := files(edits); n > mostFilesOfKind {
		t.Errorf("a kind needs edits of %d files, want at most %d", n, mostFilesOfKind)
	}
}

// fleetObject is a fleet whose selector does not match its template, and whose disks have the same boot order.
const fleetObject = `apiVersion: fleet.example.com/v1beta1
kind: VirtualMachineFleet
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  virtualMachineTemplate:
    metadata: {labels: {app: other}}
    spec:
      runStrategy: Always
      template:
        metadata: {labels: {app: other}}
        spec:
          domain:
            memory: {guest: 1Gi}
            devices:
              disks:
                - {name: one, bootOrder: 1, disk: {}}
                - {name: two, bootOrder: 1, disk: {}}
          volumes:
            - {name: one, containerDisk: {image: quay.io/containerdisks/fedora}}
            - {name: two, emptyDisk: {capacity: 1Gi}}
`

// TestSoakKind evaluates an object of the new kind: what KubeVirt will run of it, and what the rules say of the set and of the virtual
// machine in it.
func TestSoakKind(t *testing.T) {
	soak.Only(t)
	c := copyTree(t, fleet(t))
	if c.passes("^TestKindsAreComplete$", "./test/extension") {
		t.Error("the kind is complete before anything is generated")
	}
	c.run("go", "generate", "./api/apikinds", "./cel", "./admissionpolicies")
	for _, file := range []string{"charts/virtward/templates/_kinds.tpl", "charts/virtward/guards/template-approved-only.yaml", "docs/template-approval.md"} {
		if !strings.Contains(strings.ToLower(c.read(file)), "virtualmachinefleet") {
			t.Errorf("%s lacks the kind", file)
		}
	}
	c.goTest("^TestKindsAreComplete$", "./test/extension")
	c.run("go", "build", "-ldflags", "-s -w", "-o", "kubectl-virtward", "./cmd/kubectl-virtward")
	c.write("fleet.yaml", []byte(fleetObject))
	output := c.run("sh", "-c", "./kubectl-virtward explain -f fleet.yaml --output table || test $? -eq 1")
	for _, line := range []string{`domain\.machine\.type +q35 +amd64`, `boot-order-unique +Deny`, `set-selector\S* +Deny`} {
		if !regexp.MustCompile(line).MatchString(output) {
			t.Errorf("the effective virtual machine lacks %s:\n%s", line, output)
		}
	}
}
