package hypervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/conformance/hypervisor/sample"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
)

// recorder takes the place of a test.
type recorder struct {
	check string
	lines *[]string
}

func (r recorder) Run(name string, check func(reporter)) { check(recorder{name, r.lines}) }

func (r recorder) Error(args ...any) { *r.lines = append(*r.lines, r.check+": "+fmt.Sprint(args...)) }

// broken is a hypervisor with one fault.
type broken struct {
	hypervisors.Hypervisor
	// layer and combined hold its steps, and rules its rules, for every architecture.
	layer, combined []mutators.Step
	rules           validators.Table
	cases           []Case
	page            string
	forms           []platform.Hypervisor
}

const brokenPage = "# broken\n\n`broken`, `devices.kubevirt.io/broken`\n\n## Defaults\n\n`domain.devices.tpm`, `domain.cpu.model`\n\n## Rules\n\n`broken-model`\n"

// run is what the suite says of it.
func (b *broken) run(t *testing.T) []string {
	t.Helper()
	h := b.Hypervisor
	h.Name = "broken"
	if h.Defaults == nil {
		h.Defaults = func(architecture string) (mutators.DefaultsProvider, error) {
			return mutators.NewBaseDefaults(architecture, mutators.Layer{Name: "broken", Steps: b.layer}, mutators.Layer{Name: "broken/" + architecture, Steps: b.combined})
		}
	}
	if h.Validator == nil {
		h.Validator = func(architecture string) (validators.Validator, error) {
			return validators.NewBaseValidator(architecture, b.rules)
		}
	}
	page := filepath.Join(t.TempDir(), "README.md")
	if b.page == "" {
		b.page = brokenPage
	}
	if b.page != "none" {
		if err := os.WriteFile(page, []byte(b.page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if b.forms == nil {
		b.forms = []platform.Hypervisor{{Name: "broken", ConfiguredName: "broken", Device: "devices.kubevirt.io/broken", VirtType: "broken"}}
	}
	var lines []string
	run(recorder{lines: &lines}, h, Named(b.forms...), Page(page), Cases(b.cases...), someObjects)
	folder := regexp.MustCompile(regexp.QuoteMeta(filepath.Dir(page)) + "/")
	for i := range lines {
		lines[i] = folder.ReplaceAllString(lines[i], "")
	}
	return lines
}

// someObjects are those with devices, which are enough to show a fault.
func someObjects(s *suite) {
	s.recorded = func() ([]object, error) {
		all, err := recorded()
		return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return !strings.HasPrefix(o.name, "devices-") }), err
	}
}

// fillTPM is a step that gives every guest a TPM.
func fillTPM(c *mutators.Completion) {
	provenance.FillPointer(c.Recorder, "domain.devices.tpm", &c.Spec.Domain.Devices.TPM, v1.TPMDevice{})
}

func tpmStep(fill func(*mutators.Completion)) []mutators.Step {
	return []mutators.Step{{Name: "tpm", Writes: []string{"domain.devices.tpm"}, Fill: fill}}
}

// modelRule is one that rejects a CPU model.
func modelRule(rejected string) validators.Table {
	return validators.Scoped(validators.OnSpec, validators.Rule{ID: "broken-model", Title: "Another model", Remedy: "Choose another.", Check: func(s *validators.Subject, found *validators.Errors) {
		if cpu := s.Spec.Domain.CPU; cpu != nil && cpu.Model == rejected {
			found.Add(field.Invalid(s.Domain().Child("cpu", "model"), cpu.Model, "any but this"))
		}
	}})
}

func modelCases(rejected string) []Case {
	vmi := func(model string) string {
		return `{metadata: {name: vm, namespace: default}, spec: {domain: {memory: {guest: 1Gi}, cpu: {model: ` + model + `}}}}`
	}
	return []Case{
		{Name: "rejected", Rule: "broken-model", VMI: vmi(rejected), Want: []string{`broken-model: spec.domain.cpu.model: Invalid value: "` + rejected + `": any but this`}},
		{Name: "allowed", Rule: "broken-model", VMI: vmi("another")},
	}
}

// TestTheSuiteFindsFaults: what is sound passes, and what has one fault fails for that.
func TestTheSuiteFindsFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		broken
		// want are the beginnings of what the suite says: all of it.
		want []string
	}{
		{name: "nothing special", broken: broken{}},
		{name: "sound", broken: broken{layer: tpmStep(fillTPM), rules: modelRule("bad"), cases: modelCases("bad")}},
		{
			name:   "two writers of one field",
			broken: broken{layer: []mutators.Step{{Name: "my-model", Writes: []string{"domain.cpu.model"}, Fill: mutators.ClusterCPUModel}}},
			want: []string{
				"one writer per field: broken/amd64: the steps cpu-model and my-model both write domain.cpu.model",
				"one writer per field: broken/arm64: the steps my-model and cpu-model both write domain.cpu.model",
				"one writer per field: broken/s390x: the steps cpu-model and my-model both write domain.cpu.model",
				"defaults pass the checks: broken/arm64 rejects a VMI of nothing in particular, with which nothing is wrong: arm64-cpu-model: ",
			},
		},
		{
			name:   "a writer above another's field",
			broken: broken{layer: []mutators.Step{{Name: "all-of-it", Writes: []string{"domain.devices.watchdog"}, Fill: func(*mutators.Completion) {}}}, page: brokenPage + "`domain.devices.watchdog`"},
			want: []string{
				"one writer per field: broken/amd64: the steps all-of-it and watchdog-action both write domain.devices.watchdog.i6300esb.action",
				"one writer per field: broken/s390x: the steps all-of-it and watchdog-action both write domain.devices.watchdog.diag288.action",
			},
		},
		{
			name:   "a step that says nothing",
			broken: broken{combined: []mutators.Step{{Name: "silent", Fill: func(*mutators.Completion) {}}}},
			want: []string{
				"one writer per field: broken/amd64: step silent of layer broken/amd64 does not say what it writes",
				"one writer per field: broken/arm64: step silent of layer broken/arm64 does not say what it writes",
				"one writer per field: broken/s390x: step silent of layer broken/s390x does not say what it writes",
			},
		},
		{
			name:   "a step that writes something else",
			broken: broken{layer: []mutators.Step{{Name: "model", Writes: []string{"domain.devices.tpm"}, Fill: func(c *mutators.Completion) { provenance.Fill(c.Recorder, "hostname", &c.Spec.Hostname, "vm") }}}},
			want: []string{
				"steps write what they say: broken/amd64: layer broken wrote spec.hostname of ",
				"steps write what they say: broken/arm64: layer broken wrote spec.hostname of ",
				"steps write what they say: broken/s390x: layer broken wrote spec.hostname of ",
			},
		},
		{
			name: "a step that records nothing",
			broken: broken{layer: tpmStep(func(c *mutators.Completion) {
				if c.Spec.Domain.Devices.TPM == nil {
					c.Spec.Domain.Devices.TPM = &v1.TPMDevice{Persistent: new(bool)}
				}
			})},
			want: []string{
				"steps write what they say: broken/amd64: spec.domain.devices.tpm.persistent of ",
				"steps write what they say: broken/arm64: spec.domain.devices.tpm.persistent of ",
				"steps write what they say: broken/s390x: spec.domain.devices.tpm.persistent of ",
			},
		},
		{
			name: "a step that takes away",
			broken: broken{layer: tpmStep(func(c *mutators.Completion) {
				if c.Spec.Domain.Devices.Watchdog != nil && c.Spec.Architecture == "s390x" {
					c.Spec.Domain.Devices.Watchdog.Name = ""
				}
			})},
			want: []string{"steps write what they say: broken/s390x: spec.domain.devices.watchdog.name of "},
		},
		{
			name: "completing twice adds twice",
			broken: broken{layer: []mutators.Step{{Name: "credentials", Writes: []string{"domain.devices.tpm"}, Fill: func(c *mutators.Completion) {
				if c.Spec.Architecture != "arm64" {
					return
				}
				c.Spec.AccessCredentials = append(c.Spec.AccessCredentials, v1.AccessCredential{})
				c.Recorder.Record("domain.devices.tpm", nil)
			}}}},
			want: []string{
				"completing twice: broken/arm64: completing a VMI of nothing in particular twice writes spec.domain.devices.tpm again, in layer broken",
				"defaults pass the checks: broken/arm64 rejects a VMI of nothing in particular, with which nothing is wrong: credential-one-type: ",
			},
		},
		{
			name:   "a default that its own rule rejects",
			broken: broken{combined: []mutators.Step{{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: badModel}}, rules: modelRule("bad"), cases: modelCases("bad")},
			want: []string{
				"defaults pass the checks: broken/amd64 rejects a VMI of nothing in particular, with which nothing is wrong: broken-model: ",
				"defaults pass the checks: broken/arm64 rejects a VMI of nothing in particular, with which nothing is wrong: arm64-cpu-model: ",
				"defaults pass the checks: broken/arm64 rejects a VMI of nothing in particular, with which nothing is wrong: broken-model: ",
				"defaults pass the checks: broken/s390x rejects a VMI of nothing in particular, with which nothing is wrong: broken-model: ",
			},
		},
		{
			name: "a default that its own rule rejects in some guests",
			broken: broken{
				combined: []mutators.Step{{Name: "cpu-model", Writes: []string{"domain.cpu.model"}, Fill: func(c *mutators.Completion) {
					if c.Spec.Domain.Devices.Watchdog != nil && c.Spec.Architecture == "amd64" {
						badModel(c)
					}
				}}}, rules: modelRule("bad"), cases: modelCases("bad"),
			},
			want: []string{"defaults pass the checks: broken/amd64: broken-model rejects what the layer broken/amd64 wrote into "},
		},
		{
			name: "a default of the architecture that its own rule rejects",
			broken: broken{
				rules: modelRule(v1.CPUModeHostPassthrough), cases: modelCases(v1.CPUModeHostPassthrough),
			},
			want: []string{"defaults pass the checks: broken/arm64 rejects "},
		},
		{
			name: "a default that a shared rule rejects",
			broken: broken{
				layer: []mutators.Step{{Name: "video", Writes: []string{"domain.devices.video.type"}, Fill: func(c *mutators.Completion) {
					provenance.Fill(c.Recorder, "domain.devices.video.type", &provenance.Ensure(&c.Spec.Domain.Devices.Video).Type, "virtio")
				}}}, page: brokenPage + "`domain.devices.video.type`",
			},
			want: []string{
				"defaults pass the checks: broken/amd64 rejects a VM",
				"defaults pass the checks: broken/arm64 rejects a VM",
				"defaults pass the checks: broken/s390x rejects a VM",
			},
		},
		{
			name: "a default that a shared rule rejects in some guests",
			broken: broken{layer: []mutators.Step{{Name: "io-threads", Writes: []string{"domain.ioThreadsPolicy"}, Fill: func(c *mutators.Completion) {
				if c.Spec.Domain.Devices.Watchdog != nil {
					provenance.FillPointer(c.Recorder, "domain.ioThreadsPolicy", &c.Spec.Domain.IOThreadsPolicy, "some")
				}
			}}}, page: brokenPage + "`domain.ioThreadsPolicy`"},
			want: []string{
				"defaults pass the checks: broken/amd64: iothreads-policy rejects devices-watchdog-",
				"defaults pass the checks: broken/arm64: iothreads-policy rejects devices-watchdog-",
				"defaults pass the checks: broken/s390x: iothreads-policy rejects devices-watchdog-",
			},
		},
		{
			name:   "a rule without a case in which it finds something",
			broken: broken{rules: modelRule("bad"), cases: modelCases("bad")[1:]},
			want:   []string{"every rule has cases: the rule broken-model has no case in which it finds something"},
		},
		{
			name:   "a rule without a case in which it finds nothing",
			broken: broken{rules: modelRule("bad"), cases: modelCases("bad")[:1]},
			want:   []string{"every rule has cases: the rule broken-model has no case in which it finds nothing, on a platform that has it"},
		},
		{
			name: "a rule whose only allowed case is of another platform",
			broken: broken{
				Hypervisor: hypervisors.Hypervisor{Validator: func(architecture string) (validators.Validator, error) {
					if architecture == architectures.AMD64 {
						return validators.NewBaseValidator(architecture, modelRule("bad"))
					}
					return validators.NewBaseValidator(architecture)
				}},
				cases: []Case{modelCases("bad")[0], {Name: "allowed", Rule: "broken-model", VMI: `{spec: {architecture: s390x, domain: {memory: {guest: 1Gi}}}}`}},
			},
			want: []string{"every rule has cases: the rule broken-model has no case in which it finds nothing, on a platform that has it"},
		},
		{
			name: "a case that is wrong, one that is about nothing, and one twice",
			broken: broken{rules: modelRule("bad"), cases: append(modelCases("bad"),
				Case{Name: "wrong", Rule: "broken-model", VMI: `{spec: {domain: {memory: {guest: 1Gi}, cpu: {model: bad}}}}`},
				Case{Name: "of a shared rule", Rule: "device-sound-model", VMI: `{spec: {domain: {memory: {guest: 1Gi}}}}`},
				modelCases("bad")[1],
				Case{Name: "of no object", Rule: "broken-model"},
				Case{Name: "of a field that is not there", Rule: "broken-model", VMI: `{spec: {nonsense: true}}`},
			)},
			want: []string{
				"cases: case \"wrong\": findings (-want +got):\n",
				"cases: two cases have the name \"allowed\"",
				"cases: case \"of no object\": evaluating a virtual machine: exactly one of VM and VMI must be given",
				"cases: case \"of a field that is not there\": there is no field spec.nonsense",
				"every rule has cases: case \"of a shared rule\" is about \"device-sound-model\", which is no rule of its own",
			},
		},
		{name: "no page", broken: broken{page: "none"}, want: []string{"page: the page of documentation: open README.md: no such file or directory"}},
		{
			name:   "a page that says nothing",
			broken: broken{page: "# broken\n", layer: tpmStep(fillTPM), rules: modelRule("bad"), cases: modelCases("bad")},
			want: []string{
				"page: README.md does not say its name in the KubeVirt resource: `broken`",
				"page: README.md does not say its device: `devices.kubevirt.io/broken`",
				"page: README.md does not say libvirt's domain type: `broken`",
				"page: README.md does not say what its defaults are: \n## Defaults\n",
				"page: README.md does not say what its rules are: \n## Rules\n",
				"page: README.md does not say one of its rules: `broken-model` (and 2 more)",
				"page: README.md does not say a field that it fills: `domain.devices.tpm` (and 2 more)",
			},
		},
		{
			name: "a rule that panics",
			broken: broken{rules: validators.Scoped(validators.OnSpec, validators.Rule{ID: "broken-model", Title: "t", Check: func(s *validators.Subject, _ *validators.Errors) {
				if s.Spec.Domain.Devices.Watchdog != nil {
					panic("no watchdog")
				}
			}}), cases: modelCases("bad")[1:]},
			want: []string{
				"defaults pass the checks: broken/amd64: checking ",
				"no panic: broken: evaluating ",
				"every rule has cases: the rule broken-model has no case in which it finds something",
			},
		},
		{
			name: "a step that panics",
			broken: broken{combined: tpmStep(func(c *mutators.Completion) {
				if c.Spec.Domain.Devices.Watchdog != nil && c.Spec.Architecture == "amd64" {
					panic("no watchdog")
				}
			})},
			want: []string{
				"steps write what they say: broken/amd64: completing ",
				"completing twice: broken/amd64: completing ",
				"defaults pass the checks: broken/amd64: checking ",
				"no panic: broken: evaluating ",
			},
		},
		{
			name: "a validator without the shared rules",
			broken: broken{Hypervisor: hypervisors.Hypervisor{Validator: func(string) (validators.Validator, error) {
				return unshared{}, nil
			}, Support: nil}},
			want: []string{"registry: the registry does not take it: the capability \"vsock\" of any/any has the rule device-vsock-gate, which broken/amd64 does not check"},
		},
		{
			name: "a validator without a shared rule",
			broken: broken{Hypervisor: hypervisors.Hypervisor{Validator: func(architecture string) (validators.Validator, error) {
				base, err := validators.NewBaseValidator(architecture)
				return unshared{base.Rules()[1:]}, err
			}}},
			want: []string{
				"shared rules: broken/amd64 does not check the shared rule ",
				"shared rules: broken/arm64 does not check the shared rule ",
				"shared rules: broken/s390x does not check the shared rule ",
			},
		},
		{
			name: "a provider of another making",
			broken: broken{Hypervisor: hypervisors.Hypervisor{Defaults: func(architecture string) (mutators.DefaultsProvider, error) {
				base, err := mutators.NewBaseDefaults(architecture, mutators.Layer{}, mutators.Layer{})
				return hidden{base}, err
			}}},
			want: []string{
				"one writer per field: broken/amd64: the provider does not embed mutators.BaseDefaults, so the fields that its steps write are unknown",
				"one writer per field: broken/arm64: the provider does not embed mutators.BaseDefaults, so the fields that its steps write are unknown",
				"one writer per field: broken/s390x: the provider does not embed mutators.BaseDefaults, so the fields that its steps write are unknown",
			},
		},
		{
			name: "two steps of one name",
			broken: broken{
				layer: append(tpmStep(fillTPM), tpmStep(fillTPM)...),
			},
			want: []string{"registry: the registry does not take it: building the defaults of broken/amd64: layer broken has two steps named tpm"},
		},
		{
			name: "a line that is not whole",
			broken: broken{Hypervisor: hypervisors.Hypervisor{Support: validators.SupportTable{{
				Hypervisor: "broken", Capability: validators.Capability{Name: "tpm", Title: "A TPM"}, Level: validators.Unsupported, Rule: "device-vsock-gate", Detail: "none",
			}}}},
			want: []string{"registry: the registry does not take it: the capability table: capability \"tpm\" of broken/any has no source"},
		},
		{
			name: "names of another hypervisor, and without a device", broken: broken{forms: []platform.Hypervisor{
				{Name: "broken", ConfiguredName: "broken", Device: "broken", VirtType: "broken"},
				{Name: platform.KVM, ConfiguredName: "kvm", Device: "devices.kubevirt.io/broken", VirtType: "broken"},
				{Name: "broken", Device: "devices.kubevirt.io/broken", VirtType: "broken"},
			}, page: brokenPage + "`kvm` ``"},
			want: []string{
				"names: the device \"broken\" of broken is no extended resource, such as devices.kubevirt.io/kvm",
				"names: the name kvm is that of the hypervisor kvm, not of broken",
				"names: a form of broken lacks the name in the KubeVirt resource or libvirt's domain type: {",
				"device detected and allocatable: broken/amd64 requests the device \"broken\" twice, or it is no extended resource",
				"device detected and allocatable: broken/arm64 requests the device \"broken\" twice, or it is no extended resource",
				"device detected and allocatable: broken/s390x requests the device \"broken\" twice, or it is no extended resource",
			},
		},
		{
			name: "a launcher without the device", broken: broken{Hypervisor: hypervisors.Hypervisor{
				Launcher: func(arch string) launcher.ResourceRenderer {
					return launcher.NewBaseRenderer(arch, launcher.Layer{Devices: []launcher.Device{{Name: "hypervisor"}}})
				},
			}},
			want: []string{
				"device detected and allocatable: broken/amd64 does not request its device devices.kubevirt.io/broken",
				"device detected and allocatable: broken/arm64 does not request its device devices.kubevirt.io/broken",
				"device detected and allocatable: broken/s390x does not request its device devices.kubevirt.io/broken",
				"pod rendered: broken/amd64: the pod does not request the device of the hypervisor, devices.kubevirt.io/broken",
				"pod rendered: broken/arm64: the pod does not request the device of the hypervisor, devices.kubevirt.io/broken",
				"pod rendered: broken/s390x: the pod does not request the device of the hypervisor, devices.kubevirt.io/broken",
			},
		},
		{
			name: "a device that is requested twice, and a negative overhead", broken: broken{Hypervisor: hypervisors.Hypervisor{
				Launcher: func(arch string) launcher.ResourceRenderer {
					return launcher.NewBaseRenderer(arch, launcher.Layer{
						Components: []launcher.Component{{Name: "less", Of: func(*v1.VirtualMachineInstance, *platform.Facts) resource.Quantity { return resource.MustParse("-1Mi") }}},
						Devices: []launcher.Device{{
							Name:      "again",
							Resource:  func(facts *platform.Facts) corev1.ResourceName { return corev1.ResourceName(facts.Hypervisor.Device) },
							Requested: func(*v1.VirtualMachineInstance, *platform.Facts) bool { return true },
						}},
					})
				},
			}},
			want: []string{
				"device detected and allocatable: broken/amd64 requests the device \"devices.kubevirt.io/broken\" twice",
				"device detected and allocatable: broken/arm64 requests the device \"devices.kubevirt.io/broken\" twice",
				"device detected and allocatable: broken/s390x requests the device \"devices.kubevirt.io/broken\" twice",
				"pod rendered: broken/amd64: the overhead of less is -1Mi",
				"pod rendered: broken/arm64: the overhead of less is -1Mi",
				"pod rendered: broken/s390x: the overhead of less is -1Mi",
			},
		},
		{
			name: "a domain of another type", broken: broken{Hypervisor: hypervisors.Hypervisor{
				Converter: func(arch string) domain.Converter {
					c := domain.NewBaseConverter(arch)
					c.HypervisorConfigurator = func(b *domain.Build) error {
						b.Domain.Type = "xen"
						return nil
					}
					return c
				},
			}},
			want: []string{
				"domain converted: broken/amd64: the domain has the type xen, not broken",
				"domain converted: broken/arm64: the domain has the type xen, not broken",
				"domain converted: broken/s390x: the domain has the type xen, not broken",
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.run(t)
			if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
				t.Errorf("the suite says (-want +got):\n%s", cmp.Diff(strings.Join(tc.want, "\n"), strings.Join(got, "\n")))
			}
		})
	}
}

func badModel(c *mutators.Completion) {
	provenance.Fill(c.Recorder, "domain.cpu.model", &provenance.Ensure(&c.Spec.Domain.CPU).Model, "bad")
}

// unshared is a validator that does not embed the shared one.
type unshared struct{ table validators.Table }

func (u unshared) ValidateVirtualMachineSpec(s *validators.Subject) []validators.Finding {
	return u.table.Check(s, validators.OnVM)
}

func (u unshared) ValidateVirtualMachineInstanceSpec(s *validators.Subject) []validators.Finding {
	return u.table.Check(s, validators.OnSpec)
}

func (u unshared) ValidateHotplug(s *validators.Subject) []validators.Finding {
	return u.table.Check(s, validators.OnVMIUpdate)
}

func (u unshared) Rules() validators.Table { return u.table }

// hidden is a provider that does not tell what it writes.
type hidden struct{ mutators.DefaultsProvider }

// TestUnknownToPlatform: what platform does not know by any name is no hypervisor that a cluster could choose.
func TestUnknownToPlatform(t *testing.T) {
	var lines []string
	run(recorder{lines: &lines}, sample.Hypervisor(), Page("sample/README.md"))
	if len(lines) == 0 || lines[0] != "names: platform.HypervisorByName knows no name of sample" {
		t.Errorf("the suite says %q", lines)
	}
}
