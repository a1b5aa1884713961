package liveupdates

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// Input of one pass of virt-controller.
type Input struct {
	// Started is the template at the start of the instance, with instancetype and preference. It is nil if it is unknown.
	Started *kubevirtv1.VirtualMachineInstanceTemplateSpec
	// Wanted is the template of the VM, with instancetype and preference.
	Wanted *kubevirtv1.VirtualMachineInstanceTemplateSpec
	// VM as it is written. Sync does not change it.
	VM *kubevirtv1.VirtualMachine
	// Instance that runs. Sync does not change it.
	Instance *kubevirtv1.VirtualMachineInstance
	// Configuration of KubeVirt.
	Configuration *kubevirtv1.KubeVirtConfiguration
	// Synced are the labels and annotations that virt-controller copies, as its flags say.
	Synced Synced
	// Exists reports whether a claim or a DataVolume exists; nil if all do.
	Exists func(volume *kubevirtv1.Volume) bool
}

// Synced are patterns of keys: a name, or a prefix with * at its end.
type Synced struct{ Labels, Annotations []string }

// Failure of a step. virt-controller tries again, and runs no later step.
type Failure struct{ Reason, Message string }

// Result of one pass.
type Result struct {
	Instance *kubevirtv1.VirtualMachineInstance
	// Interfaces and Networks that virt-controller removes from the VM because they are unplugged, by their names.
	Unplugged []string
	// RestartRequired is the message of the condition of the VM; empty without the condition.
	RestartRequired string
	Failure         *Failure
}

// ColdMessage is the message of RestartRequired if a field differs that KubeVirt never updates live.
const ColdMessage = "a non-live-updatable field was changed in the template spec"

// pass is one pass over the steps.
type pass struct {
	Input
	instance  *kubevirtv1.VirtualMachineInstance
	unplugged []string
	// restart is the first message of a step that requires a restart.
	restart string
}

// steps of virt-controller in their order. Those of live run only if nothing needs a restart, under LiveUpdate.
var (
	always = []func(*pass) *Failure{(*pass).interfaces, (*pass).hotplug}
	live   = []func(*pass) *Failure{(*pass).sockets, (*pass).placement, (*pass).tolerations, (*pass).memory, (*pass).claims}
)

// Sync runs one pass.
func Sync(in Input) Result {
	p := &pass{Input: in, instance: in.Instance.DeepCopy()}
	had := existing(in.VM)
	failure := p.run(had)
	restart := p.restart
	if failure != nil {
		restart = ""
	}
	if p.cold() {
		restart = ColdMessage
		if had != "" {
			restart = had // virt-controller keeps the message of a condition
		}
	}
	return Result{Instance: p.instance, Unplugged: p.unplugged, RestartRequired: restart, Failure: failure}
}

func (p *pass) run(had string) *Failure {
	cold := p.cold()
	list := append(slices.Clone(always), (*pass).metadata)
	if p.liveUpdate() && !cold && !(p.Started == nil && had != "") {
		list = append(list, live...)
	}
	for _, step := range list {
		if failure := step(p); failure != nil {
			return failure
		}
	}
	return nil
}

// existing is the message of RestartRequired that the VM has.
func existing(vm *kubevirtv1.VirtualMachine) string {
	for i := range vm.Status.Conditions {
		if c := &vm.Status.Conditions[i]; c.Type == kubevirtv1.VirtualMachineRestartRequired {
			return c.Message
		}
	}
	return ""
}

func (p *pass) liveUpdate() bool {
	s := p.Configuration.VMRolloutStrategy
	return s == nil || *s == kubevirtv1.VMRolloutStrategyLiveUpdate
}

// onByDefault are the feature gates that KubeVirt enables without configuration.
var onByDefault = []string{"DeclarativeHotplugVolumes", "LiveUpdateNADRef"}

func (p *pass) gate(name string) bool {
	d := p.Configuration.DeveloperConfiguration
	if d == nil {
		d = &kubevirtv1.DeveloperConfiguration{}
	}
	return (slices.Contains(onByDefault, name) || slices.Contains(d.FeatureGates, name)) && !slices.Contains(d.DisabledFeatureGates, name)
}

// needs records the first reason for a restart that a step finds.
func (p *pass) needs(message string) *Failure {
	if p.restart == "" {
		p.restart = message
	}
	return nil
}

func (p *pass) is(kind kubevirtv1.VirtualMachineInstanceConditionType) bool {
	return conditionOf(p.instance, kind) == "True"
}

func (p *pass) migrating() bool {
	m := p.instance.Status.MigrationState
	return m != nil && m.StartTimestamp != nil && m.EndTimestamp == nil
}

// same compares values as Kubernetes does: empty equals absent, and quantities by their values.
func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }
