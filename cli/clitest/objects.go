package clitest

// VM is a VirtualMachine in the namespace shop with few fields.
const VM = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        devices: {}
        memory: {guest: 1Gi}
`

// SiteDefaults are VirtualMachineDefaults with a scheduler, for all namespaces or those with a label.
func SiteDefaults(name, label string) string {
	selector := ""
	if label != "" {
		selector = "match: {namespaceSelector: {matchLabels: {" + label + "}}}, "
	}
	return "---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachineDefaults\nmetadata: {name: " + name + "}\nspec: {" + selector + "template: {schedulerName: " + name + "-scheduler}}\n"
}

// VMWithSATA is a VirtualMachine in the namespace shop whose only finding is one of arm64-disk-bus.
const VMWithSATA = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: a, namespace: shop}
spec:
  runStrategy: Always
  template:
    spec:
      architecture: arm64
      domain:
        devices: {disks: [{name: root, disk: {bus: sata}}]}
        memory: {guest: 1Gi}
      volumes: [{name: root, containerDisk: {image: registry.example/a}}]
`

// RuleSettings set the severity of arm64-disk-bus, in all namespaces or those with a label.
func RuleSettings(name, severity, label string) string {
	selector := ""
	if label != "" {
		selector = ", namespaceSelector: {matchLabels: {" + label + "}}"
	}
	return "---\napiVersion: policy.virtward.io/v1alpha1\nkind: RuleSettings\nmetadata: {name: " + name + "}\nspec: {rules: [{rule: arm64-disk-bus, severity: \"" + severity + "\"" + selector + "}]}\n"
}

// Policy is a VirtualMachinePolicy with a spec in the flow style of YAML.
func Policy(name, spec string) string {
	return "---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

// MemoryPolicy is the policy cap, which reports VMs with 1Gi of memory or more. Its spec has more fields, each of which
// ends with a comma.
func MemoryPolicy(enforcement, more string) string {
	return Policy("cap", "enforcement: "+enforcement+", "+more+`validations: [{expression: "quantity(vm.spec.domain.memory.guest).isLessThan(quantity('1Gi'))", message: too much, fieldPath: spec.domain.memory.guest}]`)
}

// Fields of the spec of a policy.
const (
	ForTeamA            = `match: {namespaceSelector: {matchLabels: {team: a}}}, `
	ParamsFromConfigMap = `params: {configMap: {namespace: lab, name: caps}}, `
)
