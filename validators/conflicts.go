package validators

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Conflict is what kept an object from being expanded or completed, with the id of the rule it counts under.
type Conflict struct {
	Rule  string
	Error *field.Error
}

// The rules that conflicts count under.
const (
	RuleTemplateRequired       = "vm-template-required"
	RuleReference              = "vm-reference"
	RuleInstancetypeConflict   = "instancetype-conflict"
	RulePreferenceRequirements = "preference-requirements"
	RuleCPUSpread              = "preference-cpu-spread"
	RuleDefaultNotPermitted    = "default-not-permitted"
	RulePresetConflict         = "preset-conflict"
	RuleComplete               = "vmi-complete"
)

// Conflicts gives each error of a list the rule it counts under.
func Conflicts(rule string, errs field.ErrorList) []Conflict {
	conflicts := make([]Conflict, 0, len(errs))
	for _, err := range errs {
		conflicts = append(conflicts, Conflict{Rule: rule, Error: err})
	}
	return conflicts
}

// conflictRules report what was found before there was an effective spec to check.
func conflictRules() Table {
	table := Table{
		{
			ID: RuleTemplateRequired, Title: "A VM has a template",
			Remedy: "Describe the virtual machine under spec.template.",
		},
		{
			ID: RuleReference, Title: "The instancetype and the preference of a VM can be resolved",
			Remedy: "Name an instancetype or a preference that exists, or a volume whose source carries KubeVirt's labels for them.",
		},
		{
			ID: RuleInstancetypeConflict, Title: "The instancetype and the preference fit the VM",
			Remedy: "Remove a field that the instancetype determines, or choose an instancetype and a preference that fit the VM.",
		},
		{
			ID: RulePreferenceRequirements, Title: "A VM has what its preference requires",
			Remedy: "Choose a larger instancetype, or give the VM what the message names.",
		},
		{
			ID: RuleCPUSpread, Title: "The vCPUs can be spread over sockets by the ratio of the preference",
			Remedy: "Choose an instancetype whose number of vCPUs is a multiple of the preference's ratio.",
		},
		{
			ID: RuleDefaultNotPermitted, Title: "The cluster permits the defaults that the virtual machine needs",
			Remedy: "Set the field to a permitted value, or ask the cluster's admin to permit the default.",
		},
		{
			ID: RulePresetConflict, Title: "Presets that select a virtual machine do not contradict it",
			Remedy: "Remove the label that the preset selects, or the field that the preset sets.",
		},
	}
	for i := range table {
		table[i].Check = conflictsOf(table[i].ID)
	}
	return append(Scoped(OnSpec, table...), Scoped(OnVMI, completeRule)...)
}

func conflictsOf(rule string) func(*Subject, *Errors) {
	return func(s *Subject, found *Errors) {
		for i := range s.Conflicts {
			if s.Conflicts[i].Rule == rule {
				found.Add(s.Conflicts[i].Error)
			}
		}
	}
}

var completeRule = Rule{
	ID:     RuleComplete,
	Title:  "A VMI is completed before it is admitted",
	Remedy: "Create it again. If the error remains, another mutating webhook removes the field, or Virtward's webhook is not called.",
	Check:  missingFields,
}

// missingFields names each field once, whatever the number of layers that would fill it.
func missingFields(s *Subject, found *Errors) {
	told := map[string]bool{}
	for _, c := range s.Missing {
		if !told[c.Path] {
			told[c.Path] = true
			found.Add(&field.Error{
				Type: field.ErrorTypeRequired, Field: c.Path, BadValue: "",
				Detail: fmt.Sprintf("the layer %s sets this field, but the request does not have it", c.Layer),
			})
		}
	}
}

// The rules about objects as a whole. They cannot be weakened: what cannot be read cannot be checked, and
// settings that have no effect are no settings.
const (
	RuleReadable      = "object-readable"
	RuleSettingsKnown = "rule-settings"
	RuleSiteDefaults  = "site-defaults"
	RulePolicy        = "policy-compiles"
	RuleCopy          = "copy-evaluated"
	RuleRollout       = "rollout-valid"
	RuleCatalog       = "golden-image-catalog"
	RulePlugin        = "plugin-works"
	RuleSchema        = "schema"
	RuleUnknownField  = "unknown-field"

	RulePolicyException = "policy-exception-valid"
)

// Adjustable reports whether RuleSettings can set a rule at all.
func Adjustable(id string) bool {
	return !slices.Contains([]string{RuleReadable, RuleSettingsKnown, RuleSiteDefaults, RulePolicy, RulePolicyException, RuleCopy, RuleRollout, RuleCatalog, RulePlugin, RuleSchema, RuleUnknownField}, id)
}

// The remedies of these rules, for the packages that report them.
const (
	RemedyReadable        = "Write the object as kubectl explain describes it, or make it smaller."
	RemedyPolicy          = "Correct the field. kubectl virtward policy lint validates files."
	RemedyRollout         = "Correct the field, as kubectl explain virtualmachinerollouts.spec describes it."
	RemedyCatalog         = "Correct the field, as kubectl explain goldenimagecatalogs.spec describes it."
	RemedyPlugin          = "Correct the field. kubectl virtward plugin lint validates files."
	RemedyPolicyException = "Correct the field, as kubectl explain virtualmachinepolicyexceptions.spec describes it."
	RemedyCopy            = "Wait until the source is ready, or correct the field."
	RemedySiteDefaults    = "Correct the field, or restrict the defaults in spec.match to some hypervisors and architectures."
	RemedySchema          = "Correct the field, as kubectl explain describes it."
	RemedyUnknownField    = "Correct the name, move the field, or remove it."
)

// objectRules are reported by the packages that decode the object.
func objectRules() Table {
	return Table{readableRule, settingsKnownRule, siteDefaultsRule, policyRule, policyExceptionRule, copyRule, rolloutRule, catalogRule, pluginRule, schemaRule, unknownFieldRule}
}

var readableRule = Rule{
	ID:       RuleReadable,
	Title:    "An object can be decoded, and is not too large",
	Remedy:   RemedyReadable,
	Scope:    OnVM | OnVMI | OnVMUpdate | OnVMIUpdate | OnInstancetype | OnPreference | OnSet | OnSettings | OnDefaults | OnPolicies | OnExceptions | OnCopy | OnRollouts | OnCatalogs | OnPlugins,
	Security: true,
	Check:    reportedElsewhere,
}

var settingsKnownRule = Rule{
	ID:       RuleSettingsKnown,
	Title:    "RuleSettings name rules that exist, once each",
	Remedy:   "kubectl virtward rules lists the rules.",
	Scope:    OnSettings,
	Security: true,
	Check:    reportedElsewhere,
}

var siteDefaultsRule = Rule{
	ID:       RuleSiteDefaults,
	Title:    "VirtualMachineDefaults are valid, and VMs with these defaults pass the checks",
	Remedy:   RemedySiteDefaults,
	Scope:    OnDefaults,
	Security: true,
	Check:    reportedElsewhere,
}

var policyRule = Rule{
	ID:       RulePolicy,
	Title:    "A VirtualMachinePolicy compiles",
	Remedy:   RemedyPolicy,
	Scope:    OnPolicies,
	Security: true,
	Check:    reportedElsewhere,
}

var policyExceptionRule = Rule{
	ID:       RulePolicyException,
	Title:    "A VirtualMachinePolicyException can have an effect, and does not end too late",
	Remedy:   RemedyPolicyException,
	Scope:    OnExceptions,
	Security: true,
	Check:    reportedElsewhere,
}

var copyRule = Rule{
	ID:       RuleCopy,
	Title:    "The VM of a restore or a clone can be evaluated, if a policy depends on the requester",
	Remedy:   RemedyCopy,
	Scope:    OnCopy,
	Security: true,
	Check:    reportedElsewhere,
}

var rolloutRule = Rule{
	ID:       RuleRollout,
	Title:    "The patch, the windows and the selector of a VirtualMachineRollout are valid, and it patches no field that VMs must not share",
	Remedy:   RemedyRollout,
	Scope:    OnRollouts,
	Security: true,
	Check:    reportedElsewhere,
}

var catalogRule = Rule{
	ID:       RuleCatalog,
	Title:    "CDI accepts the images of a GoldenImageCatalog, and no other image has one of their names",
	Remedy:   RemedyCatalog,
	Scope:    OnCatalogs,
	Security: true,
	Check:    reportedElsewhere,
}

var pluginRule = Rule{
	ID:       RulePlugin,
	Title:    "The conditions and hooks of a Plugin compile where KubeVirt reads them, and KubeVirt calls its hooks",
	Remedy:   RemedyPlugin,
	Scope:    OnPlugins,
	Security: true,
	Check:    reportedElsewhere,
}

func reportedElsewhere(*Subject, *Errors) {}

var schemaRule = Rule{
	ID:       RuleSchema,
	Title:    "An object of a file satisfies the schema of its kind",
	Remedy:   RemedySchema,
	Scope:    OnVM | OnVMI | OnInstancetype | OnPreference | OnSet,
	Security: true,
	Check:    reportedElsewhere,
}

var unknownFieldRule = Rule{
	ID:       RuleUnknownField,
	Title:    "An object of a file has only fields of the schema",
	Remedy:   RemedyUnknownField,
	Scope:    OnVM | OnVMI | OnInstancetype | OnPreference | OnSet,
	Security: true,
	Check:    reportedElsewhere,
}
