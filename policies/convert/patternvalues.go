package convert

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time" //nolint:depguard // durations are parsed; there is no clock here

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/virtward/virtward/policies/export"
)

// class is how the documents of a policy have the values of a field.
type class int

const (
	classNone class = iota
	classText
	classInteger
	classBoolean
	// classQuantity is a text in canonical form.
	classQuantity
)

// classOf returns the class of a Go type; classNone for lists, objects, and types whose form is not fixed.
func classOf(t reflect.Type) class {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return classQuantity
	case opaque(t):
		return classNone
	}
	switch t.Kind() {
	case reflect.String:
		return classText
	case reflect.Bool:
		return classBoolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return classInteger
	}
	return classNone
}

// check is the test of one value by a pattern without fields.
type check struct {
	// of returns the test of the value of an expression.
	of func(value string) logic
	// holds reports whether a value passes: a string, an int64 or a bool as in the documents, or nil if it is missing.
	holds func(value any) bool
	// exact is the text that is the only one to pass, and pass is a value that does, for tests.
	exact *string
}

// zeros are the values that missing ones are compared as.
var zeros = map[class]struct {
	text  string
	value any
}{classText: {`""`, ""}, classInteger: {"0", int64(0)}, classBoolean: {"false", false}, classQuantity: {`"0"`, "0"}}

// checkOf returns the test of a value of a class; an error says why there is none.
func checkOf(c class, pattern any) (*check, error) {
	switch p := pattern.(type) {
	case nil:
		zero := zeros[c]
		return &check{
			of: func(v string) logic {
				if c == classQuantity { // an amount is never empty
					return no
				}
				if c == classBoolean {
					return negated(test(v))
				}
				return compared(v, "==", zero.text)
			},
			holds: func(value any) bool { return value == nil || c != classQuantity && value == zero.value },
		}, nil
	case bool:
		if c != classBoolean {
			return nil, fmt.Errorf("%v is no value of the field, so the pattern never matches", p)
		}
		return table(func(value any) bool { return value == p }), nil
	case int64, float64:
		n, err := integerOf(p)
		switch {
		case c != classInteger:
			return nil, fmt.Errorf("the number %v is compared with a text: write it as an amount with an operator", p)
		case err != nil:
			return nil, err
		}
		return &check{
			of:    func(v string) logic { return compared(v, "==", strconv.FormatInt(n, 10)) },
			holds: func(value any) bool { return value == n },
		}, nil
	case string:
		return textCheck(c, p)
	}
	return nil, fmt.Errorf("a pattern of this form is not supported")
}

// integerOf returns a number without a fraction.
func integerOf(number any) (int64, error) {
	switch n := number.(type) {
	case int64:
		return n, nil
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n), nil
		}
	}
	return 0, fmt.Errorf("the number %v has a fraction, and the field has none: the pattern never matches", number)
}

// table returns the test of a field that is true or false.
func table(holds func(any) bool) *check {
	return &check{holds: holds, of: func(v string) logic {
		switch whenFalse, whenTrue := holds(false), holds(true); {
		case whenFalse && whenTrue:
			return yes
		case whenTrue:
			return test(v)
		case whenFalse:
			return negated(test(v))
		}
		return no
	}}
}

// textCheck returns the test of alternatives, each a conjunction of tests with operators.
func textCheck(c class, pattern string) (*check, error) {
	if strings.Contains(pattern, "{{") || strings.Contains(pattern, "$(") {
		return nil, fmt.Errorf("it has a variable: compare the fields in an expression")
	}
	var either []*check
	for _, alternative := range strings.Split(pattern, "|") {
		var all []*check
		for _, part := range strings.Split(strings.Trim(alternative, " "), "&") {
			one, err := operatorCheck(c, strings.Trim(part, " "))
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		either = append(either, every(all))
	}
	made := some(either)
	if inner := made.of; c == classText && !strings.ContainsAny(pattern, "|& <>!*?") && !made.holds(pattern) { // a range is also a text
		holds := made.holds
		made = &check{
			of:    func(v string) logic { return disjunction(compared(v, "==", quote(pattern)), inner(v)) },
			holds: func(value any) bool { return value == pattern || holds(value) },
		}
	}
	if c == classBoolean {
		return table(made.holds), nil
	}
	return made, nil
}

// every returns the test that all of several tests pass.
func every(all []*check) *check {
	if len(all) == 1 {
		return all[0]
	}
	return &check{
		of: func(v string) logic {
			parts := make([]logic, len(all))
			for i := range all {
				parts[i] = all[i].of(v)
			}
			return conjunction(parts...)
		},
		holds: func(value any) bool {
			return !slices.ContainsFunc(all, func(one *check) bool { return !one.holds(value) })
		},
	}
}

// some returns the test that one of several tests passes. Those of exact texts become one.
func some(all []*check) *check {
	if len(all) == 1 {
		return all[0]
	}
	return &check{
		of: func(v string) logic {
			var exact []string
			var parts []logic
			for _, one := range all {
				if one.exact != nil {
					exact = append(exact, *one.exact)
				} else {
					parts = append(parts, one.of(v))
				}
			}
			switch len(exact) {
			case 0:
			case 1:
				parts = slices.Insert(parts, 0, compared(v, "==", quote(exact[0])))
			default:
				parts = slices.Insert(parts, 0, contained(v, export.List(exact)))
			}
			return disjunction(parts...)
		},
		holds: func(value any) bool {
			return slices.ContainsFunc(all, func(one *check) bool { return one.holds(value) })
		},
	}
}

// The ranges a-b and a!-b.
var (
	inside  = regexp.MustCompile(`^([-|+]?\d+(?:\.\d+)?[A-Za-z]*)-([-|+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
	outside = regexp.MustCompile(`^([-|+]?\d+(?:\.\d+)?[A-Za-z]*)!-([-|+]?\d+(?:\.\d+)?[A-Za-z]*)$`)
)

// operatorCheck returns the test of an operator and its operand.
func operatorCheck(c class, text string) (*check, error) {
	if len(text) >= 2 {
		for _, operator := range []string{">=", "<=", ">", "<", "!"} {
			if rest, ok := strings.CutPrefix(text, operator); ok {
				return operandCheck(c, operator, strings.TrimSpace(rest))
			}
		}
		for _, r := range []struct {
			form        *regexp.Regexp
			left, right string
			join        func([]*check) *check
		}{{outside, "<", ">", some}, {inside, ">=", "<=", every}} {
			if ends := r.form.FindStringSubmatch(text); ends != nil {
				left, err := operandCheck(c, r.left, ends[1])
				if err != nil {
					return nil, err
				}
				right, err := operandCheck(c, r.right, ends[2])
				if err != nil {
					return nil, err
				}
				return r.join([]*check{left, right}), nil
			}
		}
	}
	return operandCheck(c, "", text)
}

// inCEL are the operators of patterns in CEL.
var inCEL = map[string]string{"": "==", "!": "!=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}

// orders reports whether the result of a comparison is what an operator asks for.
func orders(operator string, result int) bool {
	return map[string]bool{"": result == 0, "!": result != 0, ">": result > 0, ">=": result >= 0, "<": result < 0, "<=": result <= 0}[operator]
}

// operandCheck returns the test of an operand that is an amount, a time, or a text with wildcards. A missing value is the
// amount 0 and the time 0, and no text.
func operandCheck(c class, operator, operand string) (*check, error) {
	amount, err := resource.ParseQuantity(operand)
	isAmount := err == nil
	span, err := time.ParseDuration(operand)
	isSpan := err == nil
	switch {
	case c == classBoolean:
		return booleanCheck(operator, operand, isAmount, isSpan, amount, span), nil
	case isSpan && c == classText:
		otherwise := constant(operator == "!")
		if isAmount { // such as 5m
			otherwise = amountCheck(c, operator, operand, amount)
		}
		return spanCheck(operator, operand, span, otherwise), nil
	case isSpan && !isAmount:
		return nil, fmt.Errorf("%q is a time, and the field has none", operand)
	case isAmount && c == classInteger:
		return integerCheck(operator, operand, amount)
	case isAmount:
		return amountCheck(c, operator, operand, amount), nil
	case operator != "" && operator != "!":
		return nil, fmt.Errorf("%q is no amount and no time, so %s never matches", operand, operator)
	}
	return wildcardCheck(c, operator, operand)
}

// booleanCheck returns the test of true, false and a missing value.
func booleanCheck(operator, operand string, isAmount, isSpan bool, amount resource.Quantity, span time.Duration) *check {
	return &check{of: func(string) logic { return no }, holds: func(value any) bool {
		b, ok := value.(bool)
		switch {
		case !ok && isSpan:
			return orders(operator, -int(span/max(span, -span, 1)))
		case !ok && isAmount:
			return orders(operator, -amount.Sign())
		case !ok || operator != "" && operator != "!":
			return false
		}
		return isLike(operand, strconv.FormatBool(b)) == (operator == "")
	}}
}

// integerCheck returns the test of a number that has no fraction.
func integerCheck(operator, operand string, amount resource.Quantity) (*check, error) {
	n, exact := amount.AsInt64()
	if rounded := resource.NewQuantity(n, resource.DecimalSI); !exact || rounded.Cmp(amount) != 0 {
		return nil, fmt.Errorf("%q is no whole number, and the field is one", operand)
	}
	return &check{
		of: func(v string) logic { return compared(v, inCEL[operator], strconv.FormatInt(n, 10)) },
		holds: func(value any) bool {
			is, _ := value.(int64) // a missing one is 0
			switch {
			case is < n:
				return orders(operator, -1)
			case is > n:
				return orders(operator, 1)
			}
			return orders(operator, 0)
		},
	}, nil
}

// amountCheck returns the test of an amount in a text.
func amountCheck(c class, operator, operand string, amount resource.Quantity) *check {
	return &check{
		of: func(v string) logic {
			limit := "quantity(" + quote(operand) + ")"
			compares := compared("quantity("+v+").compareTo("+limit+")", inCEL[operator], "0")
			if operator == "" || operator == "!" {
				compares = compared("quantity("+v+")", inCEL[operator], limit)
			}
			switch {
			case c == classQuantity:
				return compares
			case operator == "!":
				return guardedOr(negated(test("isQuantity("+v+")")), compares)
			}
			return conjunction(test("isQuantity("+v+")"), compares)
		},
		holds: func(value any) bool {
			text, ok := value.(string)
			if !ok {
				text = "0"
			}
			is, err := resource.ParseQuantity(text)
			if err != nil {
				return operator == "!"
			}
			return orders(operator, is.Cmp(amount))
		},
	}
}

// spanPattern is the form of times: a number of almost as many digits as a duration can have, which others without hours may follow, or several
// numbers such as 1h30m. Each is short enough that the sum is a duration.
const spanPattern = `^[-+]?(0|0*(` + longSpan + `)(` + shortSpan + `(` + shortUnits + `)){0,11}|(` + shortSpan + `(` + shortUnits + `|h)){1,12})$`

const (
	micro      = "u\u00b5\u03bc"
	shortUnits = `[nm` + micro + `]?s|m`
	fraction   = `([.][0-9]*)?`
	shortSpan  = `(0*[0-9]{1,5}` + fraction + `|[.][0-9]+)`
	longSpan   = `(1?[0-9]{1,6}|2[0-4][0-9]{5})` + fraction + `h|([0-9]{1,8}|1[0-4][0-9]{7})` + fraction + `m|[1-8]?[0-9]{1,9}` + fraction + `s|` +
		`[1-8]?[0-9]{1,12}` + fraction + `ms|[1-8]?[0-9]{1,15}` + fraction + `[` + micro + `]s|[1-8]?[0-9]{1,18}` + fraction + `ns`
)

// constant returns the test that all values pass, or none.
func constant(passes bool) *check {
	made := yes
	if !passes {
		made = no
	}
	return &check{of: func(string) logic { return made }, holds: func(any) bool { return passes }}
}

// spanCheck returns the test of a time in a text. Texts that are none have another test.
func spanCheck(operator, operand string, span time.Duration, otherwise *check) *check {
	isSpan := regexp.MustCompile(spanPattern)
	return &check{
		of: func(v string) logic {
			is := test(v + `.matches("` + spanPattern + `")`)
			compares := compared("duration("+v+")", inCEL[operator], "duration("+quote(operand)+")")
			switch other := otherwise.of(v); other.kind {
			case logicFalse:
				return guarded(is, compares)
			case logicTrue:
				return guardedOr(negated(is), compares)
			default:
				return disjunction(guarded(is, compares), guarded(negated(is), other))
			}
		},
		holds: func(value any) bool {
			text, ok := value.(string)
			if !ok {
				text = "0"
			}
			is, err := time.ParseDuration(text)
			if err != nil || !isSpan.MatchString(text) {
				return otherwise.holds(value)
			}
			return orders(operator, int(min(max(is-span, -1), 1)))
		},
	}
}

// wildcardCheck returns the test of a text with wildcards.
func wildcardCheck(c class, operator, operand string) (*check, error) {
	every, filled := strings.Trim(operand, "*") == "" && operand != "", operand == "?*" || operand == "*?"
	if c == classInteger || c == classQuantity {
		if !every && !filled {
			return nil, fmt.Errorf("%q compares the text of an amount, which has another form here: compare the amount", operand)
		}
		filled, every = false, true // such a text is never empty
	}
	matches := func(v string) logic {
		switch {
		case every:
			return yes
		case filled:
			return compared(v, "!=", `""`)
		case !wild(operand):
			return compared(v, "==", quote(operand))
		}
		return wildcards(v, operand)
	}
	made := &check{of: matches, holds: func(value any) bool { return value != nil && isLike(operand, fmt.Sprint(value)) }}
	switch {
	case operator == "!":
		made.of = func(v string) logic { return negated(matches(v)) }
		made.holds = func(value any) bool { return value != nil && !isLike(operand, fmt.Sprint(value)) }
	case !wild(operand):
		made.exact = &operand
	}
	return made, nil
}

// wildcards returns the test of a text by a name with wildcards, by a function of texts if there is one.
func wildcards(v, name string) logic {
	middle := strings.Trim(name, "*")
	left, right := strings.HasPrefix(name, "*"), strings.HasSuffix(name, "*")
	switch {
	case wild(middle):
	case left && right:
		return test(v + ".contains(" + quote(middle) + ")")
	case left:
		return test(v + ".endsWith(" + quote(middle) + ")")
	case right:
		return test(v + ".startsWith(" + quote(middle) + ")")
	}
	return test(v + ".matches(" + quote("^(?s)"+strings.TrimPrefix(pattern(name), "^")) + ")")
}
