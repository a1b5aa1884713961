package templates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/texts"
)

// maxShown bounds values in messages, in bytes.
const maxShown = 100

// value is what a parameter is replaced with.
type value struct {
	parameter *v1beta1.Parameter
	text      string
	// given: the user gave it, and at names where. generated: it was drawn.
	given, generated bool
	at               string
	// unknown: it is required, and has no value yet.
	unknown bool
	// isKey and isLine: it was checked as a part of a key, and of a text. A template can refer to it very often.
	isKey, isLine, isDecodedLine bool
	// isStructure and isUnconstrained: a finding says so.
	isStructure, isUnconstrained bool
	// parsed is the text as JSON, or the error, once it was needed.
	parsed *parsed
}

type parsed struct {
	value any
	err   error
}

// parse reads the value as JSON: see parseBounded. The result is shared: do not change it.
func (v *value) parse() (any, error) {
	if v.parsed == nil {
		v.parsed = &parsed{}
		v.parsed.value, v.parsed.err = parseBounded(v.text)
	}
	return v.parsed.value, v.parsed.err
}

// decoded is the text that ${{NAME}} is replaced with, if the value is one: a string in JSON is decoded.
func (v *value) decoded() string {
	if parsed, err := v.parse(); err == nil {
		if text, isText := parsed.(string); isText {
			return text
		}
	}
	return v.text
}

// constrained reports whether the parameter limits the characters of its values.
func (v *value) constrained() bool { return isConstrained(v.parameter) }

// isConstrained reports whether a parameter limits the characters of its values. An object can have any text in it.
func isConstrained(p *v1beta1.Parameter) bool {
	limited := p.Type == v1beta1.ParameterInteger || p.Type == v1beta1.ParameterQuantity || p.Type == v1beta1.ParameterBoolean
	return limited || len(p.Enum) > 0 || p.Pattern != ""
}

// isFree reports whether the value is not one that an approver has read: a generated one, or a given one that is neither of
// an enum nor the default.
func (v *value) isFree() bool {
	return v.generated || v.given && len(v.parameter.Enum) == 0 && v.text != v.parameter.Value
}

func parameterAt(i int, name string) string {
	at := "spec.parameters[" + strconv.Itoa(i) + "]"
	if name == "" {
		return at
	}
	return at + "." + name
}

func givenAt(name string) string { return "parameters[" + name + "]" }

// resolver finds the value of each parameter.
type resolver struct {
	*report

	given  map[string]string
	random Random
	// partial: values of required parameters are not known yet.
	partial bool
	// references are how the template uses the values.
	references *references
	// matched bounds the time for the patterns: the sizes of the patterns, each multiplied by the bytes of its value.
	matched int
	// drawn counts the characters of generated values.
	drawn int
}

// resolve returns the values by the names of the parameters.
func (r *resolver) resolve(parameters []v1beta1.Parameter) map[string]*value {
	values := make(map[string]*value, len(parameters))
	if len(parameters) > v1beta1.MaxParameters {
		r.deny(RuleTooLarge, field.TooMany(field.NewPath("spec", "parameters"), len(parameters), v1beta1.MaxParameters))
		return values
	}
	for i := range parameters {
		p := &parameters[i]
		if p.Name == "" {
			r.deny(RuleEmptyName, invalid(parameterAt(i, "name"), p.Name, "a parameter must have a name"))
		}
		if _, exists := values[p.Name]; exists {
			if p.Name != "" {
				r.deny(RuleDuplicateParameter, &field.Error{Type: field.ErrorTypeDuplicate, Field: parameterAt(i, "name"), BadValue: p.Name})
			}
			continue
		}
		values[p.Name] = r.valueOf(i, p)
	}
	for _, name := range slices.Sorted(maps.Keys(r.given)) {
		if _, exists := values[name]; !exists || name == "" {
			r.deny(RuleUnknownGiven, invalid(givenAt(name), texts.Shorten(r.given[name], maxShown), "the template has no such parameter"))
		}
	}
	return values
}

// valueOf is the value of one parameter: the given one, that of the template, a generated one, or none.
func (r *resolver) valueOf(i int, p *v1beta1.Parameter) *value {
	constraint := r.constraintOf(i, p)
	v := &value{parameter: p}
	given, isGiven := r.given[p.Name]
	switch {
	case isGiven:
		v.text, v.given, v.at = given, true, givenAt(p.Name)
	case p.Value != "":
		v.text, v.at = p.Value, parameterAt(i, "value")
	case p.Generate != "":
		v.at = parameterAt(i, "from")
		v.text, v.generated = r.generate(i, p), true
	default:
		v.at = parameterAt(i, "value")
	}
	switch {
	case v.text == "" && p.Required && p.Generate != "" && !isGiven: // reported with the generator
	case v.text == "" && p.Required && r.partial && !isGiven:
		v.unknown = true
	case v.text == "" && p.Required:
		r.deny(RuleRequired, &field.Error{Type: field.ErrorTypeRequired, Field: parameterAt(i, "value"), BadValue: "", Detail: "the parameter " + p.Name + " must have a value"})
	case len(v.text) > v1beta1.MaxParameterValue:
		r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: v.at, BadValue: "", Detail: fmt.Sprintf("at most %d bytes are allowed", v1beta1.MaxParameterValue)})
		v.text = ""
	case v.text != "" || isGiven && p.Type != "":
		r.constrain(v, constraint)
	}
	return v
}

// constrain reports a value that its parameter does not allow, in each form in which the template uses it.
func (r *resolver) constrain(v *value, c *constraint) {
	err := c.check(v.text)
	if err == nil && c.patternSize > 0 {
		err = r.matchPattern(v, c)
	}
	if err != nil {
		r.deny(RuleConstrainedValue, invalid(v.at, texts.Shorten(v.text, maxShown), err.Error()))
	}
}

// matchPattern returns why a value does not match the pattern of its parameter. A match that takes too long is reported.
func (r *resolver) matchPattern(v *value, c *constraint) error {
	forms, err := r.formsOf(v)
	if err != nil {
		return err
	}
	for _, text := range forms {
		if r.matched += c.patternSize * len(text); r.matched > maxMatched {
			r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: v.at, BadValue: "", Detail: "it takes too long to match the patterns; use shorter values or simpler patterns"})
			return nil
		}
		if err := c.checkPattern(text); err != nil {
			return err
		}
	}
	return nil
}

// formsOf are the texts that a value is used as: itself, and for ${{NAME}} what it is as JSON. Lists and objects with a
// pattern have no escapes, so that they are used as they are written.
func (r *resolver) formsOf(v *value) ([]string, error) {
	name := v.parameter.Name
	if !r.references.decoded[name] || slices.Contains(v.parameter.Enum, v.text) {
		return []string{v.text}, nil
	}
	parsed, err := v.parse()
	if isList := err == nil && isComposite(parsed); isList && strings.Contains(v.text, `\`) {
		return nil, fmt.Errorf("it must match %s, and have no backslash", v.parameter.Pattern)
	}
	text := v.decoded()
	if text != v.text && r.references.asText[name] {
		return []string{v.text, text}, nil
	}
	return []string{text}, nil
}

// generate draws the value of a parameter.
func (r *resolver) generate(i int, p *v1beta1.Parameter) string {
	switch {
	case p.Generate != v1beta1.GenerateExpression:
		r.deny(RuleUnknownGenerator, &field.Error{Type: field.ErrorTypeNotSupported, Field: parameterAt(i, "generate"), BadValue: p.Generate, Detail: "supported: expression"})
		return ""
	case p.From == "":
		r.deny(RuleEmptyFrom, invalid(parameterAt(i, "from"), p.From, "the generator expression needs an expression"))
		return ""
	}
	g, fault := compileGenerator(p.From)
	if fault != nil {
		r.deny(fault.rule, invalid(parameterAt(i, "from"), p.From, fault.err.Error()))
		return ""
	}
	return r.draw(i, g, r.references.numbers[p.Name])
}

// draw draws a value. One for ${{NAME}} must be a number: digits with a leading zero are none in JSON, and are drawn again,
// so that chance does not decide whether the template can be rendered.
func (r *resolver) draw(i int, g generator, number bool) (value string) {
	for range maxDraws {
		if r.drawn += g.length(); r.drawn > maxDrawn {
			r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: parameterAt(i, "from"), BadValue: "", Detail: fmt.Sprintf("the generated values have more than %d characters together", maxDrawn)})
			return ""
		}
		if value = g.generate(r.random); !number || !hasLeadingZero(value) {
			break
		}
	}
	return value
}

// constraint is what a parameter allows.
type constraint struct {
	*v1beta1.Parameter

	pattern     *regexp.Regexp
	patternSize int
}

// constraintOf compiles what a parameter allows. What is wrong with it is reported.
func (r *resolver) constraintOf(i int, p *v1beta1.Parameter) *constraint {
	c := &constraint{Parameter: p}
	if p.Pattern != "" {
		pattern, size, err := compilePattern(p.Pattern)
		if err != nil {
			r.deny(RuleConstraint, invalid(parameterAt(i, "pattern"), p.Pattern, err.Error()))
		}
		c.pattern, c.patternSize = pattern, size
	}
	ordered := p.Type == v1beta1.ParameterInteger || p.Type == v1beta1.ParameterQuantity
	if (p.Minimum != nil || p.Maximum != nil) && !ordered {
		r.deny(RuleConstraint, invalid(parameterAt(i, "type"), p.Type, "minimum and maximum need the type integer or quantity"))
	}
	if p.Minimum != nil && p.Maximum != nil && p.Minimum.Cmp(*p.Maximum) > 0 {
		r.deny(RuleConstraint, invalid(parameterAt(i, "minimum"), p.Minimum.String(), "it is greater than the maximum "+p.Maximum.String()))
	}
	if !slices.Contains([]v1beta1.ParameterType{"", v1beta1.ParameterString, v1beta1.ParameterInteger, v1beta1.ParameterQuantity, v1beta1.ParameterBoolean, v1beta1.ParameterObject}, p.Type) {
		r.deny(RuleConstraint, &field.Error{Type: field.ErrorTypeNotSupported, Field: parameterAt(i, "type"), BadValue: p.Type, Detail: "supported: string, integer, quantity, boolean, object"})
	}
	for j, allowed := range p.Enum {
		if err := c.checkType(allowed); err != nil {
			r.deny(RuleConstraint, invalid(parameterAt(i, "enum["+strconv.Itoa(j)+"]"), texts.Shorten(allowed, maxShown), err.Error()))
		}
	}
	return c
}

// check reports why a value is not allowed, but for the pattern.
func (c *constraint) check(text string) error {
	if err := c.checkType(text); err != nil {
		return err
	}
	if len(c.Enum) > 0 && !slices.Contains(c.Enum, text) {
		return fmt.Errorf("allowed values: %s", texts.Shorten(strings.Join(c.Enum, ", "), 10*maxShown))
	}
	return nil
}

// checkPattern reports whether a text, as it is used, matches the pattern.
func (c *constraint) checkPattern(text string) error {
	if c.pattern != nil && !c.pattern.MatchString(text) {
		return fmt.Errorf("it must match %s", c.Pattern)
	}
	return nil
}

// checkType reports why a value is not of the parameter's type, or not between its bounds.
func (c *constraint) checkType(text string) error {
	switch c.Type {
	case v1beta1.ParameterBoolean:
		if text != "true" && text != "false" {
			return fmt.Errorf("it must be true or false")
		}
	case v1beta1.ParameterObject:
		if !isObject(text) {
			return fmt.Errorf("it must be a list or an object in JSON")
		}
	case v1beta1.ParameterInteger:
		return c.checkInteger(text)
	case v1beta1.ParameterQuantity:
		return c.checkQuantity(text)
	}
	return nil
}

// isObject reports whether a text is a list or an object in JSON, with a bounded number of values. An enum can have very many.
func isObject(text string) bool {
	data := bytes.TrimSpace([]byte(text))
	return len(data) > 0 && (data[0] == '{' || data[0] == '[') && json.Valid(data) && decode.Object(data, reflect.TypeFor[any]()) == nil
}

// maxIntegerDigits bounds integers: those of Kubernetes have 19 digits.
const maxIntegerDigits = 30

func (c *constraint) checkInteger(text string) error {
	unsigned := strings.TrimPrefix(text, "-")
	if unsigned == "" || strings.Trim(unsigned, digits) != "" || hasLeadingZero(unsigned) || len(unsigned) > maxIntegerDigits {
		return fmt.Errorf("it must be an integer such as 4")
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("it must be an integer such as 4")
	}
	return c.checkBounds(quantity)
}

func (c *constraint) checkQuantity(text string) error {
	if !decode.Parsable(text) {
		return fmt.Errorf("it must be a quantity such as 4Gi")
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("it must be a quantity such as 4Gi")
	}
	return c.checkBounds(quantity)
}

func (c *constraint) checkBounds(quantity resource.Quantity) error {
	if c.Minimum != nil && quantity.Cmp(*c.Minimum) < 0 {
		return fmt.Errorf("it must be at least %s", c.Minimum.String())
	}
	if c.Maximum != nil && quantity.Cmp(*c.Maximum) > 0 {
		return fmt.Errorf("it must be at most %s", c.Maximum.String())
	}
	return nil
}
