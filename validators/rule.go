package validators

import (
	"cmp"
	"fmt"
	"slices"
	"time" //nolint:depguard // only the type

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Severity says what a finding of a rule means.
type Severity string

// The severities. Off switches a rule off. Audit is for policies: such a finding is for reports only, it neither
// denies nor warns.
const (
	Deny  Severity = "Deny"
	Warn  Severity = "Warn"
	Audit Severity = "Audit"
	Off   Severity = "Off"
)

// Scope says what a rule looks at.
type Scope uint16

// The scopes. A rule may have several.
const (
	// OnSpec: the effective spec of whatever will run, at the creation and the update of a VM and at the
	// creation of a VMI.
	OnSpec Scope = 1 << iota
	// OnVM: a VirtualMachine around its template, at its creation and its update.
	OnVM
	// OnVMUpdate: what may change in a VirtualMachine.
	OnVMUpdate
	// OnVMI: a VirtualMachineInstance around its spec, at its creation.
	OnVMI
	// OnVMIUpdate: what may change in a VirtualMachineInstance.
	OnVMIUpdate
	// OnInstancetype: an instancetype, of a namespace or of the cluster, by itself.
	OnInstancetype
	// OnPreference: a preference, of a namespace or of the cluster, by itself.
	OnPreference
	// OnSet: a replica set or a pool around its template.
	OnSet
	// OnSettings: RuleSettings.
	OnSettings
	// OnDefaults: VirtualMachineDefaults.
	OnDefaults
	// OnPolicies: VirtualMachinePolicies.
	OnPolicies
	// OnExceptions: VirtualMachinePolicyExceptions.
	OnExceptions
	// OnCopy: a VirtualMachineRestore or a VirtualMachineClone.
	OnCopy
	// OnRollouts: a VirtualMachineRollout.
	OnRollouts
	// OnCatalogs: a GoldenImageCatalog.
	OnCatalogs
	// OnPlugins: a Plugin of KubeVirt.
	OnPlugins
)

// Rule is one built-in check.
type Rule struct {
	// ID is stable: it is the same in messages, metrics, documents and settings. Kebab-case, the area first.
	ID string
	// Title says in a few words what must hold.
	Title string
	// Scope is what it looks at.
	Scope Scope
	// Severity of its findings; Deny if empty.
	Severity Severity
	// Security marks a rule whose weakening needs a right of its own.
	Security bool
	// Remedy says in one line what to do about a finding.
	Remedy string
	// AtStart marks a rule of a spec that KubeVirt itself asks only when a VM starts: it takes the VM, which then
	// never runs.
	AtStart bool
	// OnlyWritten marks a rule of values that their author may want to remove. Values of an instancetype, a preference or the
	// site are not reported: they are for other virtual machines too.
	OnlyWritten bool
	// ReadsDefaults marks a rule of a spec that reads defaults of the VMI. KubeVirt evaluates it without them on the VM, and
	// with them when the VM starts.
	ReadsDefaults bool
	// Check reports what is wrong, at fields of the object as it was written.
	Check func(*Subject, *Errors)
}

// Table is an ordered list of rules.
type Table []Rule

// Scoped is a table of rules of one scope.
func Scoped(scope Scope, rules ...Rule) Table {
	for i := range rules {
		rules[i].Scope = scope
	}
	return rules
}

// Join puts tables after one another. An id that is given twice, or a rule without an id, title, scope or
// check, is an error.
func Join(tables ...Table) (Table, error) {
	joined := slices.Concat(tables...)
	seen := map[string]bool{}
	for i := range joined {
		r := &joined[i]
		if r.ID == "" || r.Title == "" || r.Scope == 0 || r.Check == nil {
			return nil, fmt.Errorf("rule %d (%q) lacks an id, a title, a scope or a check", i, r.ID)
		}
		if seen[r.ID] {
			return nil, fmt.Errorf("two rules have the id %s", r.ID)
		}
		seen[r.ID] = true
		if r.Severity == "" {
			r.Severity = Deny
		}
	}
	return joined, nil
}

// Finding is what a rule says about a field.
type Finding struct {
	// Rule is the id of the rule.
	Rule     string
	Severity Severity
	// Error holds the type of the cause, the field, the value and the message.
	Error *field.Error
	// Remedy is the rule's.
	Remedy string
	// AtStart tells that KubeVirt reports this only when the VM starts.
	AtStart bool
	// OnlyWritten is that of the rule: the finding is left out if a layer set the value.
	OnlyWritten bool
	// Layer is the source of the value where its author did not write it: base, instancetype/u1.medium.
	Layer string
	// Unset reports that the author did not set the field, and no layer did.
	Unset bool
	// Effective is the field in the effective object, where Error names the one through which it came
	// about: spec.instancetype.name. Empty if they are the same.
	Effective string
	// Source says what determines the value then: "VirtualMachineClusterPreference old sets
	// domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus".
	Source string
	// Extent distinguishes a finding from a worse one at the same field, if Error has no value: a hash of the field. It
	// is never shown.
	Extent string
	// Public is the text for places that others read than the object, such as Reports: what the author of a policy wrote, without values
	// of any object. It is empty for rules of Virtward, whose texts quote the field that they are about, and nothing else.
	Public string
	// PrivateField reports whether the field is a text that a policy computed, and no field of the object.
	PrivateField bool
	// EvaluationError is why a policy could not be evaluated: one of the Reason constants of package policies. It is
	// empty if the finding is about the object.
	EvaluationError string
	// PreExisting reports whether the object before the update had this finding too. It then warns and does not deny.
	PreExisting bool
	// Exempted is the exception of the policy for this virtual machine; nil if there is none. The finding has the severity
	// Audit then.
	Exempted *Exemption
}

// Exemption is what an exception of a policy says.
type Exemption struct {
	// Exception is the name of the VirtualMachinePolicyException, in the namespace of the object.
	Exception string
	// Until is the end of the exception. Soon tells that users must prepare for it.
	Until time.Time
	Soon  bool
	// Reason is why the exception exists.
	Reason string
}

// String returns "exempted until 2027-01-31T00:00:00Z by VirtualMachinePolicyException legacy: its reason".
func (e *Exemption) String() string {
	return "exempted until " + e.Until.UTC().Format(time.RFC3339) + " by VirtualMachinePolicyException " + e.Exception + ": " + e.Reason
}

// Warning is for users whose exception ends soon.
func (e *Exemption) Warning() string {
	return e.String() + "; a restart afterwards is denied"
}

// Where is the field that is wrong in the effective object.
func (f *Finding) Where() string {
	if f.Effective != "" {
		return f.Effective
	}
	return f.Error.Field
}

// Check runs the rules of the given scopes and returns their findings, sorted by field, then by rule. The
// subject's severities win over the rules' own.
func (t Table) Check(s *Subject, scopes Scope) []Finding {
	return t.check(s, func(r *Rule) bool { return r.Scope&scopes != 0 })
}

// CheckBeforeStart adjusts findings about a VM to what KubeVirt reports of it before it starts. before is the subject without
// the defaults of the VMI. A finding that exists only with them is reported at the start; one that exists only without them is
// added.
func (t Table) CheckBeforeStart(before *Subject, findings []Finding) []Finding {
	earlier := t.check(before, func(r *Rule) bool { return r.ReadsDefaults })
	for i := range findings {
		f := &findings[i]
		if t.readsDefaults(f.Rule) && !slices.ContainsFunc(earlier, f.sameAs) {
			f.AtStart = true
		}
	}
	for i := range earlier {
		if !slices.ContainsFunc(findings, earlier[i].sameAs) {
			findings = append(findings, earlier[i])
		}
	}
	return findings
}

func (t Table) readsDefaults(id string) bool {
	for i := range t {
		if t[i].ID == id {
			return t[i].ReadsDefaults
		}
	}
	return false
}

// sameAs reports whether two findings are of the same rule and field. Their messages may quote a default.
func (f *Finding) sameAs(other Finding) bool {
	return f.Rule == other.Rule && f.Error.Field == other.Error.Field && f.Error.Type == other.Error.Type
}

func (t Table) check(s *Subject, wanted func(*Rule) bool) []Finding {
	var findings []Finding
	var found Errors
	for i := range t {
		r := &t[i]
		if !wanted(r) {
			continue
		}
		severity := r.Severity
		if set, ok := s.Severities[r.ID]; ok {
			severity = set
		}
		if severity == Off {
			continue
		}
		found = Errors{limit: maxErrors}
		r.Check(s, &found)
		for _, err := range found.result() {
			findings = append(findings, Finding{Rule: r.ID, Severity: severity, Error: err, Remedy: r.Remedy, AtStart: r.AtStart, OnlyWritten: r.OnlyWritten})
		}
	}
	Sort(findings)
	return findings
}

// Sort orders findings by field, then by rule.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(ComparePaths(a.Error.Field, b.Error.Field), cmp.Compare(a.Rule, b.Rule))
	})
}

// ComparePaths orders the paths of fields: numbers in them by value, so that disks[2] comes before disks[10].
func ComparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] == b[i] {
			continue
		}
		if n, m := digits(a, i), digits(b, i); n > 0 && m > 0 {
			return cmp.Or(cmp.Compare(n, m), cmp.Compare(a[i], b[i]))
		}
		return cmp.Compare(a[i], b[i])
	}
	return cmp.Compare(len(a), len(b))
}

// digits is the length of the number that i is in or right behind; 0 if there is none. Numbers that are equal up
// to i are ordered by it, as they have no leading zeroes.
func digits(path string, i int) int {
	begin, end := i, i
	for begin > 0 && isDigit(path[begin-1]) {
		begin--
	}
	for end < len(path) && isDigit(path[end]) {
		end++
	}
	if begin == 0 || path[begin-1] != '[' {
		return 0
	}
	return end - begin
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
