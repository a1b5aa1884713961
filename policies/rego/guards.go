package rego

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// guardPrefix marks the functions of which modules, once compiled, call the guarded form. No module can say it.
const guardPrefix = "within bounds/"

// guard says what is wrong with the arguments of a function, before it is called, and what the call is charged.
type guard func(operands []*ast.Term) (charge, error)

// Bounds of one call.
const (
	maxRange  = 100_000
	maxShift  = 1024
	maxFormat = 1000 // width or precision, in characters
)

// compared is the work of comparing values, as far as they are alike.
func compared(operands []*ast.Term) (charge, error) {
	digits, scalars := 0, false
	for _, operand := range operands {
		switch v := operand.Value.(type) {
		case ast.Null, ast.Boolean:
			scalars = true
		case ast.Number:
			scalars, digits = true, max(digits, magnitude(string(v)))
		}
	}
	collection := listed(operands[len(operands)-1])
	if scalars && !collection {
		return charge{work: longSteps(digits)}, nil
	}
	if digits > 10*maxDigits || digits > maxDigits && collection {
		return charge{}, fmt.Errorf("a number of %d digits is compared with many", digits)
	}
	size, long := comparedSizes(operands)
	return charge{work: size/comparedPerStep + long}, nil
}

// got is a member of an object, by its key or by a path of keys.
func got(operands []*ast.Term) (charge, error) {
	key := operands[1]
	shared := kindOf(key) >= sharedInteger
	if path, ok := key.Value.(*ast.Array); ok {
		shared = path.Until(func(part *ast.Term) bool { return kindOf(part) >= sharedInteger })
	}
	if !shared {
		return charge{}, nil
	}
	return charge{work: weight(operands[:2]...) / comparedPerStep}, nil
}

// What comparing a long number takes: a step, and one for some of its digits.
const (
	comparedDigits = 19 // those of a number that is compared with no allocation
	digitsPerStep  = 8
)

// longSteps are the steps of comparing a number of so many digits.
func longSteps(digits int) int {
	if digits <= comparedDigits {
		return 0
	}
	return 1 + digits/digitsPerStep
}

func listed(term *ast.Term) bool {
	switch term.Value.(type) {
	case *ast.Array, ast.Object, ast.Set:
		return true
	}
	return false
}

// numbers bounds the digits of numbers: they are exact, and squaring doubles them.
func numbers(operands []*ast.Term) (charge, error) {
	digits := 0
	for _, operand := range operands {
		number := ""
		switch v := operand.Value.(type) {
		case ast.Number:
			number = string(v)
		case ast.String:
			if number = string(v); len(v) > maxDigits {
				return charge{}, fmt.Errorf("a number of %d characters is longer than %d", len(v), maxDigits)
			}
		}
		n := magnitude(number)
		if n > 10*maxDigits {
			return charge{}, fmt.Errorf("a number of %d digits is longer than %d", n, 10*maxDigits)
		}
		digits += n
	}
	if digits <= shortDigits {
		return charge{work: numberSteps}, nil
	}
	return charge{keeps: 64*digits + 32*weight(operands...), work: numberSteps + digits/8 + digits*digits/512}, nil
}

// numberSteps are the steps of exact arithmetic with short numbers.
const numberSteps = 8

// shortDigits are those of numbers whose sum, product and so on are small.
const shortDigits = 40

// magnitude is how many digits a number has when it is written out, as far as that may be.
func magnitude(number string) int {
	marks := "eE"
	if strings.ContainsAny(number, "xX") { // hexadecimal, with an exponent of 2
		marks = "pP"
	}
	mantissa, exponent, scientific := number, "", false
	if i := strings.IndexAny(number, marks); i >= 0 {
		mantissa, exponent, scientific = number[:i], strings.TrimLeft(number[i+1:], "+-"), true
	}
	if !scientific {
		return len(mantissa)
	}
	n := 0
	for i := range len(exponent) {
		if digit := exponent[i]; digit >= '0' && digit <= '9' { // others are _ between digits
			n = min(n*10+int(digit-'0'), tooHeavy)
		}
	}
	return len(mantissa) + n
}

// product bounds the digits of many numbers together, because those of the result are as many.
func product(operands []*ast.Term) (charge, error) {
	digits := 0
	count := func(element *ast.Term) {
		if n, ok := element.Value.(ast.Number); ok {
			digits = min(digits+magnitude(string(n)), tooHeavy)
		}
	}
	switch v := operands[0].Value.(type) {
	case *ast.Array:
		v.Foreach(count)
	case ast.Set:
		v.Foreach(count)
	}
	if digits > 100*maxDigits {
		return charge{}, fmt.Errorf("the numbers have more than %d digits together", 100*maxDigits)
	}
	size := weight(operands...)
	return charge{keeps: 32*size + 16*digits, work: size/readPerStep + times(digits, digits)/1024}, nil
}

func shift(operands []*ast.Term) (charge, error) {
	by, ok := integer(operands, 1)
	if !ok || by > maxShift {
		return charge{}, fmt.Errorf("it shifts by %v bits: at most %d", operands[1], maxShift)
	}
	const perStep = 64
	c, err := numbers(operands)
	c.work += int(max(by, 0)) / perStep
	return c, err
}

func span(operands []*ast.Term) (charge, error) { return numbersBetween(operands, 1) }

func spanInSteps(operands []*ast.Term) (charge, error) {
	step, ok := integer(operands, 2)
	if !ok {
		return charge{}, errNoInteger
	}
	return numbersBetween(operands, uint64(max(step, 1)))
}

var errNoInteger = errors.New("it takes integers of up to 64 bits")

func numbersBetween(operands []*ast.Term, step uint64) (charge, error) {
	from, ok := integer(operands, 0)
	to, too := integer(operands, 1)
	if !ok || !too {
		return charge{}, errNoInteger
	}
	count := (uint64(max(from, to)) - uint64(min(from, to))) / step //nolint:gosec // two's complement: the difference is right, and fits
	if count >= maxRange {
		return charge{}, fmt.Errorf("the range from %d to %d has more than %d numbers", from, to, maxRange)
	}
	const number = 256
	return charge{keeps: number * int(count+1)}, nil
}

func integer(operands []*ast.Term, i int) (int64, bool) {
	if i >= len(operands) {
		return 0, false
	}
	n, ok := operands[i].Value.(ast.Number)
	if !ok {
		return 0, true // the function itself says that this is no number
	}
	return n.Int64()
}

// copied is how often the text that a function makes is in memory while it does.
const copied = 8

// extreme is the greatest or the least of values, which are compared with each other.
func extreme(operands []*ast.Term) (charge, error) {
	size, long := comparedSizes(operands)
	return charge{work: size/(readPerStep/2) + long}, nil
}

// trimmed is a text without characters at its ends. Each is looked for among those to remove, which is fast if all are of ASCII.
func trimmed(operands []*ast.Term) (charge, error) {
	const characters = 64 << 10
	c, err := rate{perStep: 512}.guard(operands)
	if cutset, ok := operands[1].Value.(ast.String); ok && !ascii(string(cutset)) {
		c.work = min(c.work+times(text(operands, 0), len(cutset))/characters, tooHeavy)
	}
	return c, err
}

// located is the place of a text in another one, which is compared at each place if either is not of ASCII.
func located(operands []*ast.Term) (charge, error) {
	const compared = 8 << 10
	c, err := rate{kept: 8, perStep: 64}.guard(operands)
	subject, search := operands[0].Value, operands[1].Value
	for _, value := range []ast.Value{subject, search} {
		if s, ok := value.(ast.String); ok && !ascii(string(s)) {
			c.work = min(c.work+times(text(operands, 0), text(operands, 1))/compared, tooHeavy)
			break
		}
	}
	return c, err
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// joined is a list of strings with another between any two.
func joined(operands []*ast.Term) (charge, error) {
	parts := 0
	switch v := operands[1].Value.(type) {
	case *ast.Array:
		parts = v.Len()
	case ast.Set:
		parts = v.Len()
	}
	return charge{keeps: times(copied, times(parts, text(operands, 0))+weight(operands...))}, nil
}

// replaced puts one string for another, at the most between any two characters. What is replaced is first compared with all of its own ends.
func replaced(operands []*ast.Term) (charge, error) {
	const ownEnds = 2 << 10
	subject, old, value := text(operands, 0), text(operands, 1), text(operands, 2)
	size := weight(operands...)
	switch {
	case old == 0:
		size += times(subject+1, value+1)
	case value > old:
		size += times(subject/old+1, value)
	}
	return charge{keeps: times(copied, size), work: size/readPerStep + times(old, old)/ownEnds}, nil
}

func replacedByMany(operands []*ast.Term) (charge, error) {
	longest := 0
	if patterns, ok := operands[0].Value.(ast.Object); ok {
		patterns.Foreach(func(_, value *ast.Term) {
			if s, ok := value.Value.(ast.String); ok {
				longest = max(longest, len(s))
			}
		})
	}
	const machine = 512
	return charge{keeps: times(copied, times(text(operands, 1)+1, longest+1)), takes: times(machine, weight(operands[0]))}.sum(), nil
}

// sum keeps what the function takes, too.
func (c charge) sum() charge { return charge{keeps: min(c.keeps+c.takes, tooHeavy), work: c.work} }

// patched is a value that each of many operations may copy.
func patched(operands []*ast.Term) (charge, error) {
	operations := 1
	if list, ok := operands[1].Value.(*ast.Array); ok {
		operations += list.Len()
	}
	return charge{keeps: times(16, times(operations, weight(operands...)))}, nil
}

// indented is JSON with every value on its line.
func indented(operands []*ast.Term) (charge, error) {
	deep := depths(operands[0])
	values := weight(operands[0]) / perValue
	options := weight(operands[1])
	return charge{keeps: times(16, min(weight(operands...)+times(options, deep+values), tooHeavy))}, nil
}

// walked are all values in one, each with its path.
func walked(operands []*ast.Term) (charge, error) {
	const value, step = 64, 24
	return charge{keeps: min(times(value, weight(operands[0]))+times(step, depths(operands[0])), tooHeavy)}, nil
}

// decoded is a text whose characters may become values.
func decoded(operands []*ast.Term) (charge, error) {
	if s, ok := operands[0].Value.(ast.String); ok && len(operands) == 1 && wideNumber(string(s)) {
		return charge{}, fmt.Errorf("a number in it has more than %d digits", maxDigits)
	}
	const value = 192
	return charge{keeps: times(value, weight(operands...))}, nil
}

// formatted is text with as many arguments as it has verbs, each as wide as the verb says.
func formatted(operands []*ast.Term) (charge, error) {
	size := weight(operands...)
	format, ok := operands[0].Value.(ast.String)
	if !ok {
		return charge{keeps: copied * size}, nil
	}
	factor, width := 12, 0
	for rest := string(format); ; {
		var found bool
		if _, rest, found = strings.Cut(rest, "%"); !found {
			break
		}
		wide, verb, err := plainVerb(rest)
		if err != nil {
			return charge{}, err
		}
		if width += wide; strings.IndexByte("qxXUeEfFgGbc", verb) >= 0 && verb != 0 {
			factor = 48
		}
	}
	size = min(size+width+times(strings.Count(string(format), "["), weight(operands[1])), tooHeavy)
	return charge{keeps: times(factor, size)}, nil
}

// plainVerb reads the flags between a percent sign and its verb. It returns the width and the verb.
func plainVerb(verb string) (width int, letter byte, err error) {
	number := 0
	for i := range len(verb) {
		switch b := verb[i]; {
		case b >= '0' && b <= '9':
			if number = number*10 + int(b-'0'); number > maxFormat {
				return 0, 0, fmt.Errorf("a width or precision of more than %d", maxFormat)
			}
			width = max(width, number)
		case b == '*':
			return 0, 0, errors.New("a width or precision that is an argument (*)")
		case b == '.' || b == '[' || b == ']' || b == '+' || b == '-' || b == ' ' || b == '#':
			number = 0
		default:
			return width, b, nil
		}
	}
	return width, 0, nil
}

// zones rejects the time zone of the process, with which the same policy would evaluate differently elsewhere, and what is no name of a time zone.
func zones(operands []*ast.Term) (charge, error) {
	for _, operand := range operands {
		switch name, ok := zoneName(operand); {
		case ok && name == "Local":
			return charge{}, errors.New("the time zone Local is that of the process; name one")
		case ok && (len(name) > maxZone || strings.ContainsFunc(name, notInZone) || strings.Contains(name, "//")):
			return charge{}, fmt.Errorf("there is no time zone %.*q", maxZone, name)
		}
	}
	c, err := numbers(operands)
	c.keeps += 1 << 10
	c.work += zoneSteps(operands)
	return c, err
}

// maxZone bounds the name of a time zone.
const maxZone = 64

// notInZone reports whether no name of a time zone has a character. A point would be another name for the same file, each of which OPA remembers.
func notInZone(r rune) bool {
	return (r|' ' < 'a' || r|' ' > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("/_+-", r)
}

// zoneName is the name of the time zone of a time; false for none.
func zoneName(time *ast.Term) (string, bool) {
	v, ok := time.Value.(*ast.Array)
	if !ok || v.Len() < 2 {
		return "", false
	}
	name, ok := v.Elem(1).Value.(ast.String)
	return string(name), ok
}

// zoneSteps are what time zones cost, which are read from files.
func zoneSteps(operands []*ast.Term) int {
	const zone = 150
	total := 0
	for _, operand := range operands {
		if name, ok := zoneName(operand); ok && name != "" && name != "UTC" {
			total += zone
		}
	}
	return total
}

func timeFormatted(operands []*ast.Term) (charge, error) {
	if _, err := zones(operands); err != nil {
		return charge{}, err
	}
	return charge{keeps: times(copied, weight(operands...)), work: zoneSteps(operands)}, nil
}

// layout rejects abbreviations of time zones: what they mean depends on the zone of the process.
func layout(operands []*ast.Term) (charge, error) {
	if s, ok := operands[0].Value.(ast.String); ok && (strings.Contains(string(s), "MST") || s == "UnixDate" || s == "RFC822" || s == "RFC850" || s == "RFC1123") {
		return charge{}, errors.New("a layout with the abbreviation of a time zone (MST) means something else in each zone; use a number (-0700)")
	}
	return charge{takes: times(32, weight(operands...)), work: weight(operands...) / readPerStep}, nil
}

// text is the length of a string.
func text(operands []*ast.Term, i int) int {
	s, _ := operands[i].Value.(ast.String)
	return len(s)
}

func times(a, b int) int {
	high, low := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	if high != 0 || low > tooHeavy {
		return tooHeavy
	}
	return int(low)
}

// tooHeavy is more than any limit.
const tooHeavy = 1 << 30

// maxWeight ends the counting of weight.
const maxWeight = 64 << 20

// fewDigits are those of a number without a large exponent.
const fewDigits = 4

// perValue is what a value weighs, besides its text.
const perValue = 8

// weight is the size of values in bytes, about, where what occurs twice counts twice.
func weight(terms ...*ast.Term) int {
	total := 0
	for _, term := range terms {
		if total > maxWeight {
			break
		}
		if scalar, ok := scalarWeight(term.Value); ok {
			total += scalar
			continue
		}
		total = collectionWeight(term, total)
	}
	return total
}

// scalarWeight is the weight of a value without elements.
func scalarWeight(value ast.Value) (weight int, ok bool) {
	switch v := value.(type) {
	case ast.String:
		return perValue + len(v), true
	case ast.Number:
		return perValue + len(v), true
	case ast.Boolean, ast.Null:
		return perValue, true
	}
	return 0, false
}

// comparedSizes are the weight of values, and the steps of comparing the long numbers in them.
func comparedSizes(terms []*ast.Term) (weight, long int) {
	w, _ := weighers.Get().(*weigher)
	defer weighers.Put(w)
	w.total, w.long = 0, 0
	for _, term := range terms {
		w.add(term)
	}
	return w.total, w.long
}

// weigher adds weights up. Its functions are made once, because the evaluator weighs at each call of a function.
type weigher struct {
	total int
	// long are the steps of comparing long numbers.
	long    int
	element func(*ast.Term) bool
	member  func(key, value *ast.Term) bool
}

var weighers = sync.Pool{New: func() any {
	w := &weigher{}
	w.element = func(element *ast.Term) bool { w.add(element); return w.total > maxWeight }
	w.member = func(key, value *ast.Term) bool {
		w.add(key)
		w.add(value)
		return w.total > maxWeight
	}
	return w
}}

// collectionWeight adds the weight of a list, a set or an object.
func collectionWeight(term *ast.Term, total int) int {
	w, _ := weighers.Get().(*weigher)
	defer weighers.Put(w)
	w.total = total
	w.add(term)
	return w.total
}

func (w *weigher) add(term *ast.Term) {
	if w.total > maxWeight {
		return
	}
	if scalar, ok := scalarWeight(term.Value); ok {
		w.total += scalar
		if number, ok := term.Value.(ast.Number); ok && len(number) > fewDigits {
			w.long = min(w.long+longSteps(magnitude(string(number))), tooHeavy)
		}
		return
	}
	w.total += perValue
	until(term.Value, w.element, w.member)
}

// until calls a function for each element of a list or a set, and another one for each member of an object, until it returns true.
func until(value ast.Value, element func(*ast.Term) bool, member func(key, value *ast.Term) bool) {
	switch v := value.(type) {
	case *ast.Array:
		v.Until(element)
	case ast.Set:
		v.Until(element)
	case ast.Object:
		v.Until(member)
	}
}

// depths is the sum of how deep each value in a term lies.
func depths(term *ast.Term) int {
	total := 0
	addDepths(term, 1, &total)
	return total
}

func addDepths(term *ast.Term, depth int, total *int) {
	if *total > maxWeight {
		return
	}
	*total += depth
	within := func(element *ast.Term) bool { addDepths(element, depth+1, total); return *total > maxWeight }
	until(term.Value, within, func(_, value *ast.Term) bool { return within(value) })
}

// guardedBuiltins are the guarded forms, for the compiler and the evaluator.
var guardedBuiltins = sync.OnceValue(func() map[string]*topdown.Builtin {
	builtins := accounting()
	maps.Copy(builtins, ownBuiltins())
	for name, check := range guards() {
		declaration := *ast.BuiltinMap[name]
		declaration.Name, declaration.Infix, declaration.CanSkipBctx = guardPrefix+name, "", false
		builtins[declaration.Name] = &topdown.Builtin{Decl: &declaration, Func: within(name, check)}
	}
	return builtins
})

// answer is the result of a function that its guard knows already; it is no error.
type answer struct{ term *ast.Term }

func (answer) Error() string { return "the answer is known" }

// pay charges a call, if its guard agrees. known is the result if the guard knows it already. The budget is nil if nothing is counted.
func pay(check guard, operands []*ast.Term, b *budget) (known *ast.Term, err error) {
	for cost, err := check(operands); ; cost, err = cost.then() {
		if known, ok := err.(answer); ok { //nolint:errorlint // never wrapped
			return known.term, nil
		}
		if err != nil {
			return nil, err
		}
		if b != nil && !b.charge(cost) {
			return nil, errors.New(b.exceeded)
		}
		if cost.then == nil {
			return nil, nil
		}
	}
}

// within calls a function if its guard agrees, on the budget of the evaluation.
func within(name string, check guard) topdown.BuiltinFunc {
	call, makes := topdown.GetBuiltin(name), makesTexts(name)
	return func(bctx topdown.BuiltinContext, operands []*ast.Term, yield func(*ast.Term) error) error {
		b, _ := bctx.Cancel.(*budget)
		known, err := pay(check, operands, b)
		if err != nil {
			return topdown.Halt{Err: &topdown.Error{Code: topdown.BuiltinErr, Message: name + ": " + err.Error(), Location: bctx.Location}}
		}
		if known != nil {
			return yield(known)
		}
		return call(bctx, operands, func(result *ast.Term) error {
			if b != nil && !b.seesResult(result, makes) {
				return stopped(bctx, b)
			}
			return yield(result)
		})
	}
}
