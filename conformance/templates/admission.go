package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/virtward/virtward/api/template/definitions"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// admissionCase is a request for a template, or for a request for a template: a line whose area starts with admission/.
type admissionCase struct {
	ID        string          `json:"id"`
	Area      string          `json:"area"`
	Operation string          `json:"operation"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
	AllowedTo []right         `json:"allowedTo"`
	Expect    admissionAnswer `json:"expect"`
}

// admissionAnswer is what an API server with virt-template answered.
type admissionAnswer struct {
	Allowed  bool              `json:"allowed"`
	Stage    string            `json:"stage"`
	Causes   []admissionCause  `json:"causes"`
	Warnings []Cause           `json:"warnings"`
	Pruned   []string          `json:"pruned"`
	Unstable []json.RawMessage `json:"unstable"`
}

// admissionCause is a cause of a denial: of the schema with a type, of the webhook with a class, of a policy with a check.
type admissionCause struct {
	Cause

	Type  string `json:"type"`
	Check string `json:"check"`
}

// The stages of a denial, in their order.
const (
	stageSchema  = "schema"
	stageWebhook = "webhook"
	stagePolicy  = "policy"
)

// admitter answers requests as an API server with the definitions, the webhook and the guards of Virtward.
type admitter struct {
	schemas map[string]*kindSchema
	guards  []*guardPolicy
}

// kindSchema is the schema of a kind in one version.
type kindSchema struct {
	structural *structuralschema.Structural
	validator  schemavalidation.SchemaValidator
	rules      *schemacel.Validator
}

func startAdmission(Options) (Replay, error) {
	a := &admitter{schemas: map[string]*kindSchema{}}
	all, err := definitions.All()
	if err != nil {
		return nil, err
	}
	for _, definition := range all {
		for i := range definition.Spec.Versions {
			version := &definition.Spec.Versions[i]
			if a.schemas[definition.Spec.Group+"/"+version.Name+" "+definition.Spec.Names.Kind], err = newKindSchema(version.Schema); err != nil {
				return nil, err
			}
		}
	}
	if a.guards, err = newGuardPolicies(); err != nil {
		return nil, err
	}
	return a.replay, nil
}

func newKindSchema(written *apiextensionsv1.CustomResourceValidation) (*kindSchema, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written.OpenAPIV3Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}
	validator, _, err := schemavalidation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}
	return &kindSchema{structural, validator, schemacel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// answered is Virtward's answer.
type answered struct {
	stage    string
	schema   field.ErrorList
	findings []validators.Finding
	checks   []string
	pruned   []string
}

func (a *answered) allowed() bool { return a.stage == "" }

// replay answers a case and compares.
func (a *admitter) replay(line []byte) (Result, error) {
	var c admissionCase
	if err := json.Unmarshal(line, &c); err != nil {
		return Result{}, err
	}
	got, err := a.answer(&c)
	if err != nil {
		return Result{}, err
	}
	result := Result{ID: c.ID, Area: c.Area, Outcome: Equal}
	if result.Difference = c.difference(got); result.Difference == "" {
		return result, nil
	}
	result.Outcome = Other
	x := &admissionRun{&c, got}
	for _, class := range admissionClasses {
		if class.of(x) && class.right(x) {
			return Result{ID: c.ID, Area: c.Area, Outcome: Better, Class: class.name}, nil
		}
	}
	return result, nil
}

// answer goes through the stages. A deletion is never denied.
func (a *admitter) answer(c *admissionCase) (*answered, error) {
	got := &answered{}
	if c.Operation == "DELETE" {
		return got, nil
	}
	object, err := parsed(c.Object)
	if err != nil {
		return nil, err
	}
	old, err := parsed(c.OldObject)
	if err != nil {
		return nil, err
	}
	schema := a.schemas[object.GetAPIVersion()+" "+object.GetKind()]
	if schema == nil {
		return nil, fmt.Errorf("no definition of %s %s", object.GetAPIVersion(), object.GetKind())
	}
	for _, path := range pruning.PruneWithOptions(object.Object, schema.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		got.pruned = append(got.pruned, strings.TrimPrefix(path, "."))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, schema.structural) // as the API server does after decoding
	if got.schema = schema.validate(object, old); len(got.schema) > 0 {
		got.stage = stageSchema
		return got, nil
	}
	if got.findings, err = checked(object, old); err != nil {
		return nil, err
	}
	if templates.Denied(got.findings) {
		got.stage = stageWebhook
		return got, nil
	}
	for _, guard := range a.guards {
		denied, err := guard.evaluate(context.Background(), object, old, c.AllowedTo)
		if err != nil {
			return nil, err
		}
		got.checks = append(got.checks, denied...)
	}
	if len(got.checks) > 0 {
		got.stage = stagePolicy
	}
	return got, nil
}

func parsed(raw json.RawMessage) (*unstructured.Unstructured, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(raw)
}

// validate is what the API server reports by the schema.
func (k *kindSchema) validate(object, old *unstructured.Unstructured) field.ErrorList {
	if old == nil {
		errs := schemavalidation.ValidateCustomResource(nil, object.Object, k.validator)
		if len(errs) == 0 {
			errs, _ = k.rules.Validate(context.Background(), nil, k.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		}
		return errs
	}
	errs := schemavalidation.ValidateCustomResourceUpdate(nil, object.Object, old.Object, k.validator)
	if len(errs) == 0 {
		errs, _ = k.rules.Validate(context.Background(), nil, k.structural, object.Object, old.Object, celconfig.RuntimeCELCostBudget)
	}
	return errs
}

// checked is what the webhook reports. It is called for a changed spec only.
func checked(object, old *unstructured.Unstructured) ([]validators.Finding, error) {
	if old != nil && sameJSON(object.Object["spec"], old.Object["spec"]) {
		return nil, nil
	}
	if object.GetKind() != "VirtualMachineTemplate" {
		request := &v1beta1.VirtualMachineTemplateRequest{}
		if err := decode(object, request); err != nil || old != nil {
			return nil, err
		}
		return templates.CheckRequest(&request.Spec), nil
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := decode(object, template); err != nil {
		return nil, err
	}
	check := func(spec *v1beta1.VirtualMachineTemplateSpec) []validators.Finding {
		return templates.Check(spec, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the values are discarded
	}
	findings := check(&template.Spec)
	if old != nil {
		before := &v1beta1.VirtualMachineTemplate{}
		if err := decode(old, before); err != nil {
			return nil, err
		}
		effective.RatchetFindings(findings, object.Object, check(&before.Spec), old.Object)
	}
	return findings, nil
}

func decode(object *unstructured.Unstructured, into any) error {
	raw, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

func sameJSON(a, b any) bool {
	one, err := json.Marshal(a)
	if err != nil {
		return false
	}
	other, err := json.Marshal(b)
	return err == nil && bytes.Equal(one, other)
}

// difference is empty if Virtward's answer is the recorded one.
func (c *admissionCase) difference(got *answered) string {
	if len(c.Expect.Unstable) > 0 {
		return "virt-template's answer is not stable"
	}
	if got.stage != c.Expect.Stage || got.allowed() != c.Expect.Allowed {
		return fmt.Sprintf("recorded: allowed %v %s %v; got %s %v %v %v", c.Expect.Allowed, c.Expect.Stage, c.Expect.Causes, got.stage, got.schema, ofSeverity(got.findings, validators.Deny), got.checks)
	}
	slices.Sort(got.pruned)
	if !slices.Equal(got.pruned, c.Expect.Pruned) {
		return fmt.Sprintf("removed fields %v, recorded %v", got.pruned, c.Expect.Pruned)
	}
	switch got.stage {
	case stageSchema:
		return unequalSchema(c.Expect.Causes, got.schema)
	case stagePolicy:
		var recorded []string
		for _, cause := range c.Expect.Causes {
			recorded = append(recorded, cause.Check)
		}
		if !slices.Equal(recorded, got.checks) {
			return fmt.Sprintf("checks %v, recorded %v", got.checks, recorded)
		}
		return ""
	}
	var causes []Cause
	for _, cause := range c.Expect.Causes {
		causes = append(causes, cause.Cause)
	}
	if diff := unequal(causes, ofSeverity(got.findings, validators.Deny)); diff != "" {
		return diff
	}
	recorded := slices.Clone(c.Expect.Warnings)
	for i := range recorded {
		if recorded[i].Class == "validation-skipped" {
			recorded[i] = Cause{Class: strings.TrimPrefix(templates.RuleNotValidated, "template-")}
		}
	}
	if diff := unequal(recorded, ofSeverity(got.findings, validators.Warn)); diff != "" {
		return "warnings: " + diff
	}
	return ""
}

// unequalSchema compares the errors of a schema by field and type. The API server notes at no field that it did not
// evaluate all rules.
func unequalSchema(recorded []admissionCause, got field.ErrorList) string {
	of := func(cause *admissionCause) string { return cause.Field + " " + cause.Type }
	var wanted, found []string
	for i := range recorded {
		if recorded[i].Field != "" {
			wanted = append(wanted, of(&recorded[i]))
		}
	}
	for _, err := range got {
		if err.Field != "" && err.Field != "<nil>" {
			found = append(found, err.Field+" "+string(err.Type))
		}
	}
	slices.Sort(wanted)
	slices.Sort(found)
	if !slices.Equal(wanted, slices.Compact(found)) {
		return fmt.Sprintf("errors %v, recorded %v", found, wanted)
	}
	return ""
}
