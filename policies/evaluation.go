package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/policies/rego"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// maxViolations bounds the findings of one policy about one object. The last one has the number of the others.
const maxViolations = 20

// errorRemedy is the remedy of a finding about a policy that could not be evaluated.
const errorRemedy = "Ask an admin of the cluster to fix the policy."

// evaluate evaluates the policy on an object that it matches.
func (p *Policy) evaluate(s *subject, in *input) (findings []validators.Finding) {
	defer func() {
		if cause := recover(); cause != nil { // a panic in a library must not affect the other policies
			findings = []validators.Finding{p.evaluationError(s, EvaluationError{"spec", fmt.Errorf("evaluating it failed: %v", cause)}, ReasonFailed)}
			p.record(s, false, Failure{"spec", ReasonFailed})
		}
	}()
	if p.broken != "" {
		return []validators.Finding{p.failed(s, p.broken, ReasonBroken)}
	}
	if p.params.missing != "" {
		if p.params.skip {
			return nil
		}
		p.record(s, false, Failure{configMapPath.String(), ReasonParameters})
		return []validators.Finding{p.evaluationError(s, EvaluationError{configMapPath.String(), fmt.Errorf("%s", p.params.missing)}, ReasonParameters)}
	}
	switch {
	case p.denies():
	case p.ends(s):
		p.record(s, false, Failure{"spec", ReasonSkipped})
		return []validators.Finding{p.skipped(s)}
	}
	own := p.denies() || hasShare(s.spare)
	budget := s.budget.Share(cel.PolicyLimit)
	budget.Spend(policyUnits)
	params, authorizer := s.documents.Params, s.documents.Authorizer
	defer func() { s.documents.Params, s.documents.Authorizer = params, authorizer }()
	p.lend(s.documents)
	if s.observe != nil {
		s.observe(p, s.documents)
	}
	applies, errs := p.conditions.hold(s.documents, budget)
	if !applies {
		return nil
	}
	if len(errs) > 0 {
		p.recordErrors(s, own, errs)
		if p.ended(s, own) {
			return []validators.Finding{p.skipped(s)}
		}
		return bounded(p.evaluationErrors(s, errs), 0, "")
	}
	c := &Case{Documents: s.documents, input: in, budget: budget}
	if !p.denies() {
		c.spare = s.spare
	}
	violations, errs := p.evaluator.FindViolations(c)
	p.recordErrors(s, own, errs)
	if len(errs) > 0 && p.ended(s, own) {
		return []validators.Finding{p.skipped(s)}
	}
	return p.findings(s, c, violations, errs)
}

// findings returns the findings of violations and errors.
func (p *Policy) findings(s *subject, c *Case, violations []diagnostics.Violation, errs []EvaluationError) (findings []validators.Finding) {
	k := p.kinds[policyv1alpha1.PolicyKind(s.documents.Kind)]
	more, unreported := 0, ""
	for i := range violations {
		unreported += violations[i].Sum
		if more += violations[i].More; violations[i].More == 0 {
			found, err := p.finding(s.documents, k, &violations[i], c.input, c.budget)
			if err != nil {
				errs = append(errs, EvaluationError{fieldOf(&violations[i]), err})
				continue
			}
			findings = append(findings, found)
		}
	}
	return bounded(append(findings, p.evaluationErrors(s, errs)...), more, unreported)
}

// ends reports whether a policy that does not deny is skipped: the budget of these policies is exhausted, or there is no time.
func (p *Policy) ends(s *subject) bool {
	return !p.denies() && (s.spare.Exhausted() || s.documents.OutOfTime())
}

// ended reports whether errors of a policy are those of others: there was no time, or others had used most of the budget. A
// policy that began with its share exceeds it itself.
func (p *Policy) ended(s *subject, own bool) bool {
	return p.ends(s) && (!own || s.documents.OutOfTime())
}

// lend sets the policy's parameters in the documents. If the policy does not deny, it also reads what only such policies read, and lends
// it their authorizer.
func (p *Policy) lend(d *cel.Documents) {
	if !p.denies() && len(p.references) > 0 {
		d.ReadMore()
	}
	d.Params = nil
	if p.params.value != nil {
		d.Params = p.params.value
	}
	if !p.denies() && d.AuthorizerApart != nil {
		d.Authorizer = d.AuthorizerApart
	}
}

// bounded returns the first findings in their order, those that deny first if there are too many. more is the number of
// further violations, and unreported a hash of them.
func bounded(findings []validators.Finding, more int, unreported string) []validators.Finding {
	if over := len(findings) - maxViolations; over > 0 {
		slices.SortStableFunc(findings, func(a, b validators.Finding) int { return rank(a.Severity) - rank(b.Severity) })
		unreported += sumOf(findings[maxViolations:])
		findings, more = findings[:maxViolations], more+over
	}
	validators.Sort(findings)
	if more > 0 && len(findings) > 0 {
		last := &findings[len(findings)-1]
		last.Error.Detail += fmt.Sprintf(" (and %d more violations of this policy)", more)
		last.Extent += unreported // on an update, other violations of the same number are not pre-existing
	}
	return findings
}

// sumOf returns a hash of findings that are not reported.
func sumOf(findings []validators.Finding) string {
	var all strings.Builder
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(&all, "%s\x00%v\x00%s\x00%s\x00", f.Error.Field, f.Error.BadValue, f.Error.Detail, f.Extent)
	}
	return sum([]byte(all.String()))
}

func rank(s validators.Severity) int {
	return slices.Index([]validators.Severity{validators.Deny, validators.Warn, validators.Audit}, s)
}

// finding returns the finding of a violation, at a field of the object.
// The budget pays for the value.
func (p *Policy) finding(d *cel.Documents, k *kind, v *diagnostics.Violation, in *input, budget *cel.Budget) (validators.Finding, error) {
	found := validators.Finding{Rule: p.Rule(), Severity: p.severity(v.Warn), Remedy: p.spec.Remedy}
	if v.Field == "" {
		found.Error = &field.Error{Type: causeType(v.Reason, field.ErrorTypeForbidden), Field: "spec", BadValue: field.OmitValueType{}, Detail: message(v.Message)}
		found.Public = p.public(found.Error.Type, v)
		return found, nil
	}
	at := k.place(texts.Shorten(v.Field, diagnostics.MaxField))
	object, path, ofVM := d.Subject(), at.path, false
	if inVM := k.effective(at); inVM != "" && d.VM != nil {
		object, path, ofVM = d.VM, inVM, true
		found.Layer = layerAtRunTime(d, inVM)
	}
	value, there, err := in.value(object, ofVM, path, budget)
	if err != nil {
		return found, err
	}
	found.Error = &field.Error{Field: at.path, BadValue: value.shown, Detail: message(v.Message)}
	found.Extent = value.extent
	natural := field.ErrorTypeInvalid
	if !there {
		natural = field.ErrorTypeRequired
	}
	found.Error.Type = causeType(v.Reason, natural)
	found.Public = p.public(found.Error.Type, v)
	found.PrivateField = v.Computed && !there
	return found, nil
}

// public returns the text of a violation without values: the message that the author wrote, or the title of the policy.
func (p *Policy) public(kind field.ErrorType, v *diagnostics.Violation) string {
	text := v.Literal
	if text == "" {
		text = "the object violates the policy"
		if p.spec.Title != "" {
			text += ": " + p.spec.Title
		}
		text += " (the message has values: kubectl virtward audit shows it)"
	}
	return kind.String() + ": " + message(text)
}

// fieldOf names what is not evaluated completely.
func fieldOf(v *diagnostics.Violation) string {
	return "the value of " + texts.Shorten(v.Field, diagnostics.MaxField)
}

// layerAtRunTime returns the layer of a value that KubeVirt uses at run time; empty for other fields.
func layerAtRunTime(d *cel.Documents, path string) string {
	for i := range d.AtRunTime {
		if fieldpath.Within(path, d.AtRunTime[i].Path) {
			return d.AtRunTime[i].Layer
		}
	}
	return ""
}

// causeType returns the type of a cause with a reason, or the default without one.
func causeType(reason policyv1alpha1.PolicyReason, natural field.ErrorType) field.ErrorType {
	switch reason {
	case policyv1alpha1.PolicyUnauthorized, policyv1alpha1.PolicyForbidden:
		return field.ErrorTypeForbidden
	case policyv1alpha1.PolicyInvalid:
		return field.ErrorTypeInvalid
	case policyv1alpha1.PolicyTooLarge:
		return field.ErrorTypeTooLong
	}
	return natural
}

// severity returns the severity of a violation.
func (p *Policy) severity(warning bool) validators.Severity {
	switch p.spec.Enforcement {
	case policyv1alpha1.PolicyAudit:
		return validators.Audit
	case policyv1alpha1.PolicyWarn:
		return validators.Warn
	}
	if warning {
		return validators.Warn
	}
	return validators.Deny
}

func (p *Policy) evaluationErrors(s *subject, errs []EvaluationError) []validators.Finding {
	findings := make([]validators.Finding, 0, len(errs))
	for _, e := range errs {
		findings = append(findings, p.evaluationError(s, e, reasonOf(e.Err)))
	}
	return findings
}

// The values of EvaluationError of a finding: why its policy could not be evaluated.
const (
	// ReasonBroken: the policy does not compile.
	ReasonBroken = "broken"
	// ReasonParameters: the parameters do not exist.
	ReasonParameters = "parameters"
	// ReasonLimit: the policy exceeds its budget.
	ReasonLimit = "limit"
	// ReasonFailed: an expression or a function failed.
	ReasonFailed = "failed"
	// ReasonReferences: objects that the virtual machine points at are not known.
	ReasonReferences = "references"
	// ReasonSkipped: the policy does not deny, and the shared budget or the time is exhausted.
	ReasonSkipped = "skipped"
)

// reasonOf returns whether an error is about a limit.
func reasonOf(err error) string {
	var limit *rego.LimitError
	if errors.Is(err, cel.ErrUnknownReference) {
		return ReasonReferences
	}
	if errors.As(err, &limit) || errors.Is(err, cel.ErrBudget) || errors.Is(err, cel.ErrExpensive) {
		return ReasonLimit
	}
	return ReasonFailed
}

func (p *Policy) evaluationError(s *subject, e EvaluationError, reason string) validators.Finding {
	if errors.Is(e.Err, cel.ErrReferenceNotGiven) { // unknown without a cluster, so only a warning
		found := p.failed(s, fmt.Sprintf("the policy is not evaluated: %s: %v", e.Field, e.Err), reason)
		if found.Severity == validators.Deny {
			found.Severity = validators.Warn
		}
		return found
	}
	found := p.failed(s, fmt.Sprintf("the policy cannot be evaluated: %s: %v", e.Field, e.Err), reason)
	if reason == ReasonFailed || !strings.HasPrefix(e.Field, specField) { // other errors have numbers and paths
		found.Public = fmt.Sprintf("%s: the policy cannot be evaluated: %s (the error has values: kubectl virtward audit shows it)", field.ErrorTypeInternal, publicField(e.Field))
	}
	return found
}

// specField begins the fields of policies.
const specField = "spec"

// publicField returns a field of the policy. A module in Rego can compute others.
func publicField(of string) string {
	if strings.HasPrefix(of, specField) {
		return of
	}
	return specField
}

// denies reports whether a violation denies the request.
func (p *Policy) denies() bool { return p.spec.Enforcement == policyv1alpha1.PolicyDeny }

// skipped returns the finding of a policy that does not deny, if the shared budget is exhausted.
func (p *Policy) skipped(s *subject) validators.Finding {
	return p.failed(s, "the policy was skipped: the cost budget shared by non-denying policies is exhausted", ReasonSkipped)
}

// failed returns a finding about the policy itself, under its failurePolicy. A policy that does not deny never denies
// because of an error. On an update the finding is pre-existing only if the effective VM does not change.
func (p *Policy) failed(s *subject, text, reason string) validators.Finding {
	return validators.Finding{
		Rule: p.Rule(), Severity: p.severity(p.spec.FailurePolicy == policyv1alpha1.PolicyIgnore), Remedy: errorRemedy,
		Error:  &field.Error{Type: field.ErrorTypeInternal, Field: "spec", BadValue: field.OmitValueType{}, Detail: message(text)},
		Extent: extentOf(s), EvaluationError: reason,
	}
}

// authorRemedy is the remedy of a finding about an author who is not known.
const authorRemedy = "Create the VirtualMachineRestore or the VirtualMachineClone again."

// authorless returns the finding of a policy that reads the request, if the author of a restore or a clone is not known.
func (p *Policy) authorless(s *subject, why string) validators.Finding {
	found := p.failed(s, "the policy reads the request, and the author of the virtual machine is not known: "+why, ReasonFailed)
	found.Remedy = authorRemedy
	return found
}

// IsEvaluationError reports whether a finding is about a policy that could not be evaluated, and not about the object.
func IsEvaluationError(f *validators.Finding) bool { return f.EvaluationError != "" }

// IsSkipped reports whether a finding says that its policy was skipped.
func IsSkipped(f *validators.Finding) bool { return f.EvaluationError == ReasonSkipped }

// extentOf returns a hash of the effective VM. It is computed once for an object.
func extentOf(s *subject) string {
	if s.extent == nil {
		made := extentOfVM(s.documents)
		s.extent = &made
	}
	return *s.extent
}

func extentOfVM(d *cel.Documents) string {
	if d.VM == nil {
		return ""
	}
	data, err := json.Marshal([]any{d.VM.Labels, d.VM.Annotations, &d.VM.Spec})
	if err != nil {
		return ""
	}
	return sum(data)
}
