package convert

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// withQuantities returns an expression in which the comparison at a position compares quantities.
func withQuantities(text string, line, column int) (string, bool) {
	runes := []rune(text)
	all := tokens(runes)
	at := slices.IndexFunc(all, func(t token) bool { return t.start == offset(runes, line, column) })
	if at < 1 {
		return "", false
	}
	begin, end := before(all, at-1), after(all, at+1)
	if begin < 0 || end < 0 || begin > 0 && calculates(all[begin-1]) || end+1 < len(all) && calculates(all[end+1]) {
		return "", false
	}
	part := func(from, to int) string { return string(runes[all[from].start:all[to].stop]) }
	left, right := part(begin, at-1), part(at+1, end)
	var changed string
	switch operator := all[at].text; operator {
	case "==", "!=":
		changed = equal(left, right, operator)
	case "<", "<=", ">", ">=":
		changed = ordered(left, right, operator)
	case "in":
		if all[at+1].text != "[" || !plain(left) || !areQuantities(all[at+2:end]) {
			return "", false
		}
		changed = right + ".exists(q, quantity(q) == quantity(" + left + "))"
	}
	if changed == "" {
		return "", false
	}
	return string(runes[:all[begin].start]) + changed + string(runes[all[end].stop:]), true
}

// areQuantities reports whether the elements of a list are texts of quantities.
func areQuantities(elements []token) bool {
	return !slices.ContainsFunc(elements, func(t token) bool {
		if t.text == "," {
			return false
		}
		_, err := resource.ParseQuantity(strings.Trim(t.text, `'"`))
		return err != nil || !isText(t.text)
	})
}

// calculates reports whether a token joins an operand with others, before it is compared.
func calculates(t token) bool {
	return t.kind == tokenSign && slices.Contains([]string{"+", "-", "*", "/", "%", "!"}, t.text)
}

// offset returns the position of a line and a column, which begin with 1.
func offset(runes []rune, line, column int) int {
	at := 0
	for ; line > 1 && at < len(runes); at++ {
		if runes[at] == '\n' {
			line--
		}
	}
	return at + column - 1
}

// plain reports whether an operand is a quantity whenever it can be read: it is a field of a document, it has no default, and is no
// variable, parameter or label.
func plain(operand string) bool {
	roots := []string{"vm", "object", "oldObject", "instancetype", "dyn(object)", "string(object"}
	if !slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(operand, root) }) {
		return false
	}
	for _, part := range []string{"orValue", "variables.", "?", "params.", "metadata"} {
		if strings.Contains(operand, part) {
			return false
		}
	}
	return true
}

// isText reports whether an operand is a text that is written in the expression.
func isText(operand string) bool {
	return strings.HasPrefix(operand, "'") || strings.HasPrefix(operand, `"`)
}

// equal compares two quantities. A value that is none is not equal, as in the original.
func equal(left, right, operator string) string {
	var conditions []string
	for _, side := range []string{left, right} {
		if !isText(strings.TrimLeft(side, "rR")) && !plain(side) {
			conditions = append(conditions, "isQuantity("+side+")")
		}
	}
	compared := "quantity(" + left + ") == quantity(" + right + ")"
	switch {
	case len(conditions) == 0 && operator == "==":
		return compared
	case len(conditions) == 0:
		return "quantity(" + left + ") != quantity(" + right + ")"
	}
	whole := "(" + strings.Join(append(conditions, compared), " && ") + ")"
	if operator == "!=" {
		return "!" + whole
	}
	return whole
}

// ordered orders two quantities. A default that is no quantity has the result that the original has.
func ordered(left, right, operator string) string {
	compared := "quantity(" + left + ").compareTo(quantity(" + right + ")) " + operator + " 0"
	value, limit, order := left, right, 1
	if isText(left) {
		value, limit, order = right, left, -1
	}
	if isText(value) || plain(value) || hasQuantityDefault(value) {
		return compared
	}
	fallback, ok := textDefault(value)
	if !ok || !isText(limit) {
		return ""
	}
	sign := order * strings.Compare(fallback, strings.Trim(limit, `'"`))
	holds := map[string]bool{"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[operator]
	if holds {
		return "(!isQuantity(" + value + ") || " + compared + ")"
	}
	return "(isQuantity(" + value + ") && " + compared + ")"
}

// textDefault returns the text in orValue at the end of an operand.
func textDefault(operand string) (string, bool) {
	at := strings.LastIndex(operand, "orValue(")
	if at < 0 {
		return "", false
	}
	argument := strings.TrimSpace(strings.TrimSuffix(operand[at+len("orValue("):], ")"))
	if !isText(argument) || strings.ContainsAny(argument, `(\`) {
		return "", false
	}
	return strings.Trim(argument, `'"`), true
}

func hasQuantityDefault(operand string) bool {
	text, ok := textDefault(operand)
	if !ok {
		return false
	}
	_, err := resource.ParseQuantity(text)
	return err == nil
}
