package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time" //nolint:depguard // durations are parsed; there is no clock here

	"k8s.io/apimachinery/pkg/api/resource"
)

// aggregate is how the elements of a list together meet a condition.
type aggregate int

const (
	aggregateNone aggregate = iota // for single values only
	aggregateSome
	aggregateEvery
)

// operatorOf is an operator of a condition.
type operatorOf struct {
	// of returns the test of one value.
	of func(c class, operand any) (*check, error)
	// negated reports whether the opposite of the test is meant.
	negated bool
	// elements is how the operator applies to the elements of a list.
	elements aggregate
	// exact reports whether wildcards in the elements of a list are no wildcards.
	exact bool
}

// conditionOperators returns the operators of conditions by their names.
func conditionOperators() map[string]operatorOf {
	orders := func(operator string) operatorOf {
		return operatorOf{of: func(c class, operand any) (*check, error) { return orderOperand(c, operator, operand) }}
	}
	spans := func(operator string) operatorOf {
		return operatorOf{of: func(c class, operand any) (*check, error) { return spanOperand(c, operator, operand) }}
	}
	return map[string]operatorOf{
		"Equal": {of: equalOperand}, "Equals": {of: equalOperand},
		"NotEqual": {of: equalOperand, negated: true}, "NotEquals": {of: equalOperand, negated: true},
		"In": {of: listOperand, elements: aggregateEvery, exact: true}, "NotIn": {of: listOperand, negated: true, elements: aggregateSome, exact: true},
		"AnyIn": {of: listOperand, elements: aggregateSome}, "AllIn": {of: listOperand, elements: aggregateEvery},
		"AnyNotIn": {of: listOperand, negated: true, elements: aggregateSome}, "AllNotIn": {of: listOperand, negated: true, elements: aggregateEvery},
		"GreaterThan": orders(">"), "GreaterThanOrEquals": orders(">="), "LessThan": orders("<"), "LessThanOrEquals": orders("<="),
		"DurationGreaterThan": spans(">"), "DurationGreaterThanOrEquals": spans(">="), "DurationLessThan": spans("<"), "DurationLessThanOrEquals": spans("<="),
	}
}

// operandOf returns the test of an operand; an error says why there is none.
func (o operatorOf) operandOf(c class, operand any) (*check, error) {
	made, err := o.of(c, operand)
	if err != nil || !o.negated {
		return made, err
	}
	inner := *made
	return &check{
		of:    func(v string) logic { return negated(inner.of(v)) },
		holds: func(value any) bool { return !inner.holds(value) },
	}, nil
}

// equalOperand returns the test that a value equals an operand.
func equalOperand(c class, operand any) (*check, error) {
	switch value := operand.(type) {
	case bool:
		if c != classBoolean {
			return constant(false), nil
		}
		return table(func(v any) bool { return v == value }), nil
	case int64, float64:
		if c == classInteger {
			return integerOperand("", value)
		}
		if c == classBoolean {
			return constant(false), nil
		}
		return nil, fmt.Errorf("the number %v is compared with a text: write it as a text", value)
	case string:
		return equalText(c, value)
	}
	return nil, fmt.Errorf("a value of this form is never equal to the field")
}

// equalText returns the test that a value equals a text.
func equalText(c class, operand string) (*check, error) {
	_, err := time.ParseDuration(operand)
	isSpan := err == nil && operand != "0"
	amount, err := resource.ParseQuantity(operand)
	isAmount := err == nil
	switch {
	case c == classBoolean: // Kyverno compares a bool with bools only
		return constant(false), nil
	case c == classInteger:
		if n, err := strconv.ParseInt(operand, 10, 64); err == nil {
			return integerOperand("", n)
		}
		return nil, fmt.Errorf("%q is no whole number, and the field is one", operand)
	case c == classQuantity && isAmount:
		return amountCheck(c, "", operand, amount), nil
	case c == classQuantity:
		return constant(false), nil
	case isSpan:
		return nil, fmt.Errorf("%q is a time, which Kyverno compares with texts in every form of a time", operand)
	case isAmount:
		return amountCheck(c, "", operand, amount), nil
	}
	return likeText(operand, true), nil
}

// likeText returns the test of a text by a name with wildcards. amounts reports whether a text that is an amount never passes.
func likeText(operand string, amounts bool) *check {
	isAmount := func(value any) bool {
		_, err := resource.ParseQuantity(fmt.Sprint(value))
		return err == nil
	}
	amounts = amounts && wild(operand) && strings.ContainsAny(operand[:1], "*?+-.0123456789")
	made := &check{
		of: func(v string) logic {
			switch {
			case strings.Trim(operand, "*") == "" && operand != "":
				if amounts {
					return negated(test("isQuantity(" + v + ")"))
				}
				return yes
			case !wild(operand):
				return compared(v, "==", quote(operand))
			case amounts:
				return conjunction(wildcards(v, operand), negated(test("isQuantity("+v+")")))
			}
			return wildcards(v, operand)
		},
		holds: func(value any) bool {
			return isLike(operand, fmt.Sprint(value)) && !(amounts && isAmount(value))
		},
	}
	if !wild(operand) {
		made.exact = &operand
	}
	return made
}

// integerOperand returns the comparison of a number with a whole number.
func integerOperand(operator string, number any) (*check, error) {
	n, ok := number.(int64)
	if f, is := number.(float64); is {
		if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return nil, fmt.Errorf("the number %v has a fraction, and the field has none", f)
		}
		n, ok = int64(f), true
	}
	if !ok || n >= 1<<53 || n <= -1<<53 {
		return nil, fmt.Errorf("%v is no number that Kyverno compares exactly", number)
	}
	return &check{
		of: func(v string) logic { return compared(v, inCEL[operator], strconv.FormatInt(n, 10)) },
		holds: func(value any) bool {
			is, ok := value.(int64)
			return ok && orders(operator, int(min(max(is-n, -1), 1)))
		},
	}, nil
}

// listOperand returns the test that a value is one of several.
func listOperand(c class, operand any) (*check, error) {
	var list []string
	switch value := operand.(type) {
	case []any:
		for _, one := range value {
			text, err := printedScalar(one)
			if err != nil {
				return nil, err
			}
			list = append(list, text)
		}
	case string:
		if err := plainText(value); err != nil {
			return nil, err
		}
		list = []string{value}
	default:
		return nil, fmt.Errorf("the value must be a list")
	}
	if c == classQuantity {
		return nil, fmt.Errorf("it compares the text of an amount, which has another form here")
	}
	if c == classInteger {
		var numbers []string
		var kept []int64
		for _, text := range list {
			n, err := strconv.ParseInt(text, 10, 64)
			if wild(text) {
				return nil, fmt.Errorf("%q compares the text of a number: list the numbers", text)
			}
			if err == nil && strconv.FormatInt(n, 10) == text { // another text never matches
				numbers, kept = append(numbers, text), append(kept, n)
			}
		}
		return &check{
			of: func(v string) logic {
				if len(numbers) == 0 {
					return no
				}
				return contained(v, "["+strings.Join(numbers, ", ")+"]")
			},
			holds: func(value any) bool { n, ok := value.(int64); return ok && slices.Contains(kept, n) },
		}, nil
	}
	if c == classBoolean {
		return table(func(value any) bool {
			return slices.ContainsFunc(list, func(one string) bool { return isLike(one, fmt.Sprint(value)) })
		}), nil
	}
	if len(list) == 0 {
		return constant(false), nil
	}
	all := make([]*check, len(list))
	for i, text := range list {
		all[i] = likeText(text, false)
	}
	return some(all), nil
}

// printedScalar returns the text as which Kyverno compares an element of a list.
func printedScalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		if err := withoutVariables(v); err != nil {
			return "", err
		}
		return v, nil
	case bool, int64:
		return fmt.Sprint(v), nil
	case float64:
		if n, err := integerOf(v); err == nil {
			return strconv.FormatInt(n, 10), nil
		}
	}
	return "", fmt.Errorf("an element of the list is no text, bool or whole number")
}

// orderOperand returns the comparison of an amount.
func orderOperand(c class, operator string, operand any) (*check, error) {
	text, isText := operand.(string)
	switch {
	case c == classInteger && isText:
		if span, err := time.ParseDuration(text); err == nil && text != "0" {
			return seconds(operator, span)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number, and the field is one", text)
		}
		return integerOperand(operator, n)
	case c == classInteger:
		return integerOperand(operator, operand)
	case c == classQuantity && isText:
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no amount", text)
		}
		return amountCheck(c, operator, text, amount), nil
	case c == classQuantity:
		return nil, fmt.Errorf("the number %v is compared with amounts, of which Kyverno reads some as times: write it as a text", operand)
	}
	return nil, fmt.Errorf("%s compares a text or a bool, of which Kyverno reads some as times or versions", operator)
}

// spanOperand returns the comparison of a number of seconds.
func spanOperand(c class, operator string, operand any) (*check, error) {
	if c != classInteger {
		return nil, fmt.Errorf("it compares a text as a time: compare duration() in an expression")
	}
	if text, ok := operand.(string); ok {
		span, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no time", text)
		}
		return seconds(operator, span)
	}
	return integerOperand(operator, operand)
}

// seconds returns the comparison of a number of seconds with a time.
func seconds(operator string, span time.Duration) (*check, error) {
	if span%time.Second != 0 {
		return nil, fmt.Errorf("%s has a fraction of a second, and the field has none", span)
	}
	return integerOperand(operator, int64(span/time.Second))
}

// withoutVariables returns an error for a text that Kyverno replaces variables in.
func withoutVariables(text string) error {
	if strings.Contains(text, "{{") || strings.Contains(text, "$(") {
		return fmt.Errorf("%q has a variable: compare the fields in an expression", text)
	}
	return nil
}

// plainText returns an error for a text that Kyverno reads as a range or as JSON where it expects a list.
func plainText(text string) error {
	if json.Valid([]byte(text)) || inside.MatchString(text) || outside.MatchString(text) {
		return fmt.Errorf("%q is read as a range or as JSON: write a list", text)
	}
	return withoutVariables(text)
}
