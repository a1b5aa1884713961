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
	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/texts"
)

// maxShown bounds values in messages, in bytes.
const maxShown = 100

// value is what a parameter is replaced with.
type value struct {
	parameter *v1beta1.Parameter
	text      string
	// given: the user gave it, and at names where.
	given bool
	at    string
	// unknown: it is required, and has no value yet.
	unknown bool
	// isKey and isLine: it was checked as a part of a key, and of a text. A template can refer to it very often.
	isKey, isLine bool
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

// constrained reports whether the parameter says which values are allowed.
func (v *value) constrained() bool {
	p := v.parameter
	return p.Type != "" && p.Type != v1beta1.ParameterString || len(p.Enum) > 0 || p.Pattern != ""
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
	// numbers are the parameters whose values are JSON.
	numbers map[string]bool
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
		v.text = r.generate(i, p)
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

// constrain reports a value that its parameter does not allow.
func (r *resolver) constrain(v *value, c *constraint) {
	if r.matched += c.patternSize * len(v.text); r.matched > maxMatched {
		r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: v.at, BadValue: "", Detail: "it takes too long to match the patterns; use shorter values or simpler patterns"})
		return
	}
	if err := c.check(v.text); err != nil {
		r.deny(RuleConstrainedValue, invalid(v.at, texts.Shorten(v.text, maxShown), err.Error()))
	}
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
	return r.draw(i, g, r.numbers[p.Name])
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

// check reports why a value is not allowed.
func (c *constraint) check(text string) error {
	if err := c.checkType(text); err != nil {
		return err
	}
	if len(c.Enum) > 0 && !slices.Contains(c.Enum, text) {
		return fmt.Errorf("allowed values: %s", texts.Shorten(strings.Join(c.Enum, ", "), 10*maxShown))
	}
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
	return len(data) > 0 && (data[0] == '{' || data[0] == '[') && json.Valid(data) && decodelimits.Object(data, reflect.TypeFor[any]()) == nil
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
	if !decodelimits.Parsable(text) {
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
