package templates

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

// The ids of what is wrong with a template or with the values for its parameters.
const (
	RuleVirtualMachineMissing   = "template-virtual-machine-missing"
	RuleVirtualMachineNotObject = "template-virtual-machine-not-an-object"
	RuleUndefinedParameter      = "template-undefined-parameter"
	RuleUnusedParameter         = "template-unused-parameter"
	RuleEmptyName               = "template-empty-parameter-name"
	RuleDuplicateParameter      = "template-duplicate-parameter"
	RuleUnknownGiven            = "template-unknown-given-parameter"
	RuleRequired                = "template-required-parameter"
	RuleEmptyFrom               = "template-empty-from"
	RuleUnknownGenerator        = "template-unknown-generator"
	RuleMalformedLength         = "template-malformed-length"
	RuleLengthOutOfRange        = "template-length-out-of-range"
	RuleMalformedRange          = "template-malformed-range"
	RuleRangeCharacter          = "template-range-character"
	RuleReversedRange           = "template-reversed-range"
	RuleConstraint              = "template-constraint"
	RuleConstrainedValue        = "template-constrained-value"
	RuleNullValue               = "template-null-value"
	RuleNotAssignable           = "template-not-assignable"
	RuleKeyCollision            = "template-key-collision"
	RuleDoesNotDecode           = "template-does-not-decode"
	RuleUnknownField            = "template-unknown-field"
	RuleTooLarge                = "template-too-large"
	RuleAddsFields              = "template-value-adds-fields"
	RuleLineBreak               = "template-value-line-break"
	RuleStructure               = "template-value-changes-structure"
	RuleNotConstrained          = "template-value-not-constrained"
	RuleNotValidated            = "template-not-validated"
	RuleLabels                  = "template-labels"
)

// remedies say what to do about a finding.
var remedies = map[string]string{
	RuleVirtualMachineMissing:   "Write the VirtualMachine in spec.virtualMachine.",
	RuleVirtualMachineNotObject: "Write the VirtualMachine in spec.virtualMachine.",
	RuleUndefinedParameter:      "Add the parameter to spec.parameters, or correct the name. To keep the text, write ${DOLLAR} for its dollar sign, with a parameter DOLLAR of the value $.",
	RuleUnusedParameter:         "Remove the parameter, or refer to it with ${NAME}.",
	RuleEmptyName:               "Give the parameter a name of letters, digits and underscores.",
	RuleDuplicateParameter:      "Keep one of the parameters.",
	RuleUnknownGiven:            "Give values to the template's parameters only.",
	RuleRequired:                "Give the parameter a value.",
	RuleEmptyFrom:               "Write an expression such as [a-z0-9]{8}.",
	RuleUnknownGenerator:        "Write generate: expression.",
	RuleMalformedLength:         "Write a length such as {8}.",
	RuleLengthOutOfRange:        "Use a length from 1 to 255.",
	RuleMalformedRange:          "Write a class such as [a-z0-9].",
	RuleRangeCharacter:          "Write ranges such as a-z.",
	RuleReversedRange:           "Exchange the ends of the range.",
	RuleConstraint:              "Correct the parameter.",
	RuleConstrainedValue:        "Use a value that the parameter allows.",
	RuleNullValue:               "Use another value than null.",
	RuleNotAssignable:           "Use a value that is a text.",
	RuleKeyCollision:            "Use values that give each key once.",
	RuleDoesNotDecode:           "Use the form that kubectl explain virtualmachine shows.",
	RuleUnknownField:            "Use the fields that kubectl explain virtualmachine shows.",
	RuleTooLarge:                "Use shorter values.",
	RuleAddsFields:              "Use a text, or declare the parameter with type: object.",
	RuleLineBreak:               "Use a value on one line, or constrain the parameter by type, enum or pattern.",
	RuleStructure:               "Use a value that is one text, without quotes, brackets and backslashes.",
	RuleNotConstrained:          "Use the default value, or constrain the parameter by type, enum or pattern.",
	RuleNotValidated:            "Process the template with values to validate it.",
	RuleLabels:                  "Use labels that kubectl label accepts.",
}

// report collects findings.
type report struct {
	findings []validators.Finding
}

// maxFindings bounds what is reported of one template: a warning for each parameter, and some more.
const maxFindings = v1beta1.MaxParameters + 100

func (r *report) add(rule string, severity validators.Severity, err *field.Error) {
	if r.full() {
		return
	}
	r.findings = append(r.findings, validators.Finding{Rule: rule, Severity: severity, Error: err, Remedy: remedies[rule]})
}

// full reports whether no more findings are kept.
func (r *report) full() bool { return len(r.findings) >= maxFindings }

func (r *report) deny(rule string, err *field.Error) { r.add(rule, validators.Deny, err) }

func (r *report) warn(rule string, err *field.Error) { r.add(rule, validators.Warn, err) }

// sorted are the findings by field, then by rule.
func (r *report) sorted() []validators.Finding {
	validators.Sort(r.findings)
	return r.findings
}

// Denied reports whether a finding rejects the template or the values.
func Denied(findings []validators.Finding) bool {
	for i := range findings {
		if findings[i].Severity == validators.Deny {
			return true
		}
	}
	return false
}

func invalid(at string, value any, detail string) *field.Error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: at, BadValue: value, Detail: detail}
}
