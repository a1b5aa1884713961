package cel

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apicel "k8s.io/apiserver/pkg/cel"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/limits/decode"
)

// CEL cannot be interrupted within a call, and Kubernetes charges a call when it has returned, some far less than they
// take. So each function has a charge here, which is taken off the budget before the call begins. A unit is 0.1 µs of CPU.
// The charges are measured: TestUnitsAreTime calls each function with its slowest arguments.

// UnitNanoseconds is the CPU time that a unit stands for.
const UnitNanoseconds = 100

// work is what the arguments of a call cost, in units. It stops counting beyond most.
type work func(args []ref.Val, most uint64) uint64

// charge is what a call costs.
type charge struct {
	// call is what each call costs, in units.
	call uint64
	// work is what the arguments cost besides; nil if it does not depend on them.
	work work
}

// functionClass are functions with the same charge.
type functionClass struct {
	names []string
	charge
	// says is the charge in words.
	says string
}

// maxText is how long a text may be that an expression makes, in bytes. What it reads may be longer.
const maxText = 128 << 10

// named splits a list of names.
func named(names string) []string { return strings.Fields(names) }

// functionClasses are all functions of the environment, with their charges. A test fails if one is missing.
func functionClasses() []functionClass {
	return []functionClass{
		{
			named("!_ -_ _%_ _*_ _-_ _/_ @not_strictly_false __not_strictly_false__ dyn type optional.of optional.none optional.ofNonZeroValue hasValue value or orValue"),
			charge{call: 2},
			"",
		},
		{named("first last"), charge{call: 5}, ""},
		{named("_&&_ _||_ _?_:_"), charge{call: 5}, "an error in a part is built, and may be dropped"},
		{named("_[_] _?._ _[?_]"), charge{call: 5}, "and 1 for each 128 bytes of a computed key"},
		{named("_==_ _!=_"), charge{3, comparison}, "and 2 for each value of the smaller side, or 1 for each 512 bytes of the shorter text; 16 bytes of a URL, 32 bits of a quantity and 16 identifiers of a version are a value"},
		{named("_<_ _<=_ _>_ _>=_"), charge{3, ordering}, "and 1 for each 512 bytes of the shorter text"},
		{named("@in _in_ in"), charge{4, contained}, "and 1 for each value of the list, or for each 128 bytes of a key"},
		{named("includes"), charge{4, including}, "and 1 for each value of the list"},
		{named("_+_"), charge{4, adding}, "and 1 for each 64 bytes of the result, or for each element"},
		{named("min max sum isSorted"), charge{10, deep(0, 1, 1)}, "and 1 for each value of the list"},
		{named("slice reverse optional.unwrap unwrapOpt"), charge{10, copying}, "and 2 for each element, or 1 for each 8 bytes"},
		{named("flatten"), charge{5, deep(0, 2, 1)}, "and 2 for each value of the list"},
		{named("sort @sortByAssociatedKeys"), charge{20, sorting}, "and 8 for each element, times the logarithm of their number"},
		{named("distinct"), charge{10, distinct}, "and 1 for each pair of elements"},
		{named("sets.contains sets.intersects"), charge{5, pairs(1)}, "and 1 for each pair of values"},
		{named("sets.equivalent"), charge{5, pairs(2)}, "and 2 for each pair of values"},
		{named("lists.range"), charge{5, ranging}, "and 1 for each 2 numbers"},
		{named("cel.@mapInsert"), charge{5, inserting}, "and 3 for each entry, with 1 for each 128 bytes of the key"},
		{named("size"), charge{3, sizing}, "and 1 for each 64 bytes of text, or each field of an object"},
		{named("contains startsWith endsWith trim"), charge{3, perBytes(32)}, "and 1 for each 32 bytes of text"},
		{named("charAt substring lowerAscii upperAscii"), charge{15, perBytes(4)}, "and 1 for each 4 bytes of text"},
		{named("indexOf lastIndexOf"), charge{15, indexing}, "and 1 for each 4 bytes of text, times 1/16 of what is looked for, or 1 for each value of a list"},
		{named("strings.quote"), charge{10, perBytes(1)}, "and 1 for each byte of text"},
		{named("split"), charge{10, splitting}, "and 1 for each 32 bytes of text, and for each part"},
		{named("join"), charge{10, joining}, "and 1 for each element, and for each 32 bytes of the result"},
		{named("replace"), charge{10, replacing}, "and 1 for each 32 bytes of the text and of the result, and for each replacement"},
		{named("format"), charge{20, formatting}, "and 400 for each %f and %e, 20 for each other verb, 8 for each value, and 1 for each 4 bytes of text and of digits"},
		{named("string bytes"), charge{10, perBytes(32)}, "and 1 for each 32 bytes of text"},
		{named("bool int uint double"), charge{15, perBytes(4)}, "and 1 for each 4 bytes of text"},
		{named("duration timestamp"), charge{20, perBytes(1)}, "and 1 for each byte of text"},
		{
			named("getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds"),
			charge{5, zoned},
			"and 1000 for a time zone, which is read from a file",
		},
		{named("matches find findAll"), charge{10, nil}, "and 1 for each 2 states of the pattern and 4 bytes, and 4 for each state and 8 for each byte of a computed pattern, and 1 for each 6 characters up to the end of its ranges for any case that are not of ASCII"},
		{named("quantity isQuantity"), charge{15, quantifying}, "and 1 for each 4 bytes of text, and the square of 1/64 of them"},
		{named("add sub compareTo isGreaterThan isLessThan asInteger asApproximateFloat isInteger sign"), charge{20, quantities}, "and 1 for each 2 digits of a quantity, or 16 bytes of a version"},
		{named("semver isSemver"), charge{20, perBytes(1)}, "and 1 for each byte of text"},
		{named("major minor patch"), charge{3, nil}, ""},
		{named("ip cidr isIP isCIDR ip.isCanonical containsIP containsCIDR"), charge{20, perBytes(1)}, "and 1 for each byte of text"},
		{
			named("family masked prefixLength isGlobalUnicast isLinkLocalMulticast isLinkLocalUnicast isLoopback isUnspecified"),
			charge{3, nil},
			"",
		},
		{named("url isURL"), charge{20, perBytes(1)}, "and 1 for each byte of text"},
		{named("getEscapedPath getHost getHostname getPort getScheme"), charge{5, urls(8)}, "and 1 for each 8 bytes of the URL"},
		{named("getQuery"), charge{20, urls(1)}, "and 1 for each byte of the URL"},
		{
			named("format.byte format.date format.datetime format.uri format.uuid format.labelValue format.qualifiedName format.dns1035Label format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix format.dns1123Subdomain format.dns1123SubdomainPrefix"),
			charge{2, nil},
			"",
		},
		{named("format.named"), charge{20, nil}, ""},
		{named("validate"), charge{50, validating}, "and 2 for each byte of text"},
		{named("group resource subresource namespace name path serviceAccount"), charge{5, perBytes(16)}, "and 1 for each 16 bytes of text"},
		{named("fieldSelector labelSelector"), charge{30, perBytes(1)}, "and 1 for each byte of text"},
		{named("check"), charge{20_000, nil}, "it sends a request to the API server, or finds its answer in a cache"},
		{named("allowed reason error errored"), charge{3, nil}, ""},
		{
			[]string{functionImage, functionIsImage, functionURL, functionIsURL},
			charge{60, addressing},
			"and 4 for each byte of text, of the first 1 KiB",
		},
	}
}

// charges are the charges of all functions by name.
var charges = chargesByName()

func chargesByName() map[string]charge {
	all := map[string]charge{}
	for _, class := range functionClasses() {
		for _, name := range class.names {
			all[name] = class.charge
		}
	}
	return all
}

// perBytes charges a unit for so many bytes of all texts among the arguments.
func perBytes(n uint64) work {
	return func(args []ref.Val, _ uint64) uint64 { return lengths(args) / n }
}

// deep charges for each value of an argument: more units for so many values.
func deep(argument int, more, each uint64) work {
	return func(args []ref.Val, most uint64) uint64 { return product(weigh(args[argument], most), more) / each }
}

// keyBytes are the bytes of a text that a unit hashes, when it is a key of a map.
const keyBytes = 128

// comparison is that of the smaller of two values.
func comparison(args []ref.Val, most uint64) uint64 {
	if a, b, texts := lengthsOf(args); texts {
		return min(a, b) / memoryBytes
	}
	return product(weigh(args[1], weigh(args[0], most)), 2)
}

// memoryBytes are the bytes of a text that a unit compares or copies.
const memoryBytes = 512

func ordering(args []ref.Val, _ uint64) uint64 {
	a, b, _ := lengthsOf(args)
	return min(a, b) / memoryBytes
}

// lengthsOf are those of two texts.
func lengthsOf(args []ref.Val) (a, b uint64, texts bool) {
	if len(args) < 2 {
		return 0, 0, false
	}
	for _, arg := range args[:2] {
		switch arg.(type) {
		case types.String, types.Bytes:
		default:
			return 0, 0, false
		}
	}
	return length(args[0]), length(args[1]), true
}

// contained looks for the first argument in the second, a list or the keys of a map.
func contained(args []ref.Val, most uint64) uint64 {
	if list, ok := args[1].(traits.Lister); ok {
		return search(args[0], list, most)
	}
	return keying(args[0], most)
}

// including looks for the second argument in the first, or compares both.
func including(args []ref.Val, most uint64) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return search(args[1], list, most)
	}
	return comparison(args, most)
}

// search compares a value with every element.
func search(v ref.Val, list traits.Lister, most uint64) uint64 {
	switch v.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.Null:
		return items(list, most)
	case types.String, types.Bytes:
		return product(items(list, most), 1+length(v)/memoryBytes)
	}
	return weigh(list, most)
}

// keying hashes a key. Only texts and numbers are keys; others are written into an error.
func keying(key ref.Val, most uint64) uint64 {
	switch v := key.(type) {
	case types.Bool, types.Int, types.Uint, types.Double, types.Null:
		return 0
	case types.String, types.Bytes:
		return length(v) / keyBytes
	case apicel.URL:
		return urlLength(v)
	}
	const value = 20
	return product(weigh(key, most), value)
}

// pairs charges for each pair of values of two lists.
func pairs(each uint64) work {
	return func(args []ref.Val, most uint64) uint64 {
		return product(product(weigh(args[0], most), weigh(args[1], most)), each)
	}
}

// distinct compares each element with those before it.
func distinct(args []ref.Val, most uint64) uint64 {
	return product(items(args[0], most), weigh(args[0], most))
}

// sorting compares each element as often as the logarithm of their number. The keys are the last argument.
func sorting(args []ref.Val, most uint64) uint64 {
	const element = 8
	n := items(args[0], most)
	depth := uint64(bits.Len64(n)) //nolint:gosec // 64 at most
	return product(product(weigh(args[len(args)-1], most), depth), element)
}

func copying(args []ref.Val, most uint64) uint64 {
	if n := length(args[0]); n > 0 {
		const bytes = 8
		return n / bytes
	}
	return product(items(args[0], most), 2)
}

func ranging(args []ref.Val, _ uint64) uint64 {
	n, _ := args[0].(types.Int)
	return uint64(max(n, 0)) / 2
}

// inserting is an entry, or those of a map.
func inserting(args []ref.Val, most uint64) uint64 {
	const entry = 3
	total := uint64(0)
	if _, filling := args[0].(traits.MutableMapper); !filling { // which is copied
		total = product(items(args[0], most), entry)
	}
	if len(args) == 2 {
		return total + product(weigh(args[1], most), entry)
	}
	return total + entry + keying(args[1], most)
}

func sizing(args []ref.Val, _ uint64) uint64 {
	if object, ok := args[0].(*object); ok {
		return uint64(len(object.shape.fields))
	}
	return length(args[0]) / addedBytes
}

// indexing compares what is looked for at each place of a text.
func indexing(args []ref.Val, most uint64) uint64 {
	if list, ok := args[0].(traits.Lister); ok {
		return search(args[1], list, most)
	}
	const bytes, sought = 4, 16
	return product(length(args[0])/bytes+1, length(args[1])/sought+1)
}

func splitting(args []ref.Val, _ uint64) uint64 {
	return lengths(args)/textBytes + parts(args)
}

// textBytes are the bytes of a text that a unit scans and copies.
const textBytes = 32

// joined is the length of the texts of a list with a separator between any two.
func joined(args []ref.Val, most uint64) uint64 {
	total := textIn(args[0], most)
	if len(args) > 1 {
		total += product(items(args[0], most), length(args[1]))
	}
	return total
}

// textIn is the length of the texts in a list, about.
func textIn(list ref.Val, most uint64) uint64 { return product(weigh(list, most), bytesPerValue) }

func joining(args []ref.Val, most uint64) uint64 {
	return items(args[0], most) + joined(args, most)/textBytes
}

// replacements is how often a text is replaced.
func replacements(args []ref.Val) uint64 {
	if len(args) < 3 {
		return 0
	}
	text, _ := args[0].(types.String)
	old, _ := args[1].(types.String)
	times := uint64(strings.Count(string(text), string(old))) //nolint:gosec // a count is not negative
	if len(args) > 3 {
		if n, ok := args[3].(types.Int); ok && n >= 0 {
			times = min(times, uint64(n))
		}
	}
	return times
}

// replaced is the length of the result.
func replaced(args []ref.Val) uint64 {
	if len(args) < 3 {
		return 0
	}
	return length(args[0]) + product(replacements(args), length(args[2]))
}

func replacing(args []ref.Val, _ uint64) uint64 {
	return replacements(args) + (lengths(args)+replaced(args))/textBytes
}

// formatted is the length of what format makes, about: a precision asks for as many digits.
func formatted(args []ref.Val, most uint64) uint64 {
	total := uint64(0)
	for _, arg := range args {
		total += product(weigh(arg, most), bytesPerValue)
	}
	_, _, digits := verbs(args[0], most)
	return total + digits
}

// verbs counts the verbs of a template, at most that many of which are of floating point numbers, and the digits that they
// ask for.
func verbs(template ref.Val, most uint64) (count, floating, digits uint64) {
	text, _ := template.(types.String)
	number, counting := uint64(0), false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%':
			count++
			verb := strings.TrimLeft(string(text[i+1:min(len(text), i+maxPrecision)]), ".0123456789")
			if verb == "" || verb[0] == 'f' || verb[0] == 'e' {
				floating++
			}
		case c == '.':
			counting, number = true, 0
		case counting && c >= '0' && c <= '9':
			number = min(number*10+uint64(c-'0'), product(most, bytesPerValue))
			continue
		case counting:
			counting = false
			digits += number
		}
	}
	return count, floating, digits
}

// maxPrecision is how long a verb with its precision is, as far as it is read.
const maxPrecision = 16

// formatting makes a printer of golang.org/x/text for each number, and sorts the keys of maps.
func formatting(args []ref.Val, most uint64) uint64 {
	const verb, float, value, bytes = 20, 400, 8, 4
	total := product(weigh(args[len(args)-1], most), value) + length(args[0])/bytes
	count, floating, digits := verbs(args[0], most)
	return total + product(count, verb) + product(floating, float) + digits/bytes
}

// zoned reads a time zone.
func zoned(args []ref.Val, _ uint64) uint64 {
	const zone = 1000
	if len(args) < 2 {
		return 0
	}
	return zone + lengths(args)
}

// quantifying is reading a number, which takes the square of its digits, and grows with its exponent.
func quantifying(args []ref.Val, most uint64) uint64 {
	if text, ok := args[0].(types.String); ok && !decode.Parsable(string(text)) {
		return most + 1
	}
	const bytes, square = 4, 64
	n := length(args[0])
	return n/bytes + product(n/square, n/square)
}

// quantities are exact, and as long as their texts.
func quantities(args []ref.Val, _ uint64) uint64 {
	total := uint64(0)
	for _, arg := range args {
		switch v := arg.(type) {
		case apicel.Quantity:
			total += digitsOf(v)
		case apicel.Semver:
			total += versionLength(v)
		}
	}
	return total
}

// digitsOf is what the digits of a quantity cost.
func digitsOf(q apicel.Quantity) uint64 {
	const perUnit = 8 // bits: more than two digits
	if d := q.Quantity; d != nil && !isInt64(q) {
		return uint64(d.AsDec().UnscaledBig().BitLen()) / perUnit //nolint:gosec // a length is not negative
	}
	return 0
}

// isInt64 reports whether a quantity is kept as a number of 64 bits, without changing it.
func isInt64(q apicel.Quantity) bool {
	_, ok := q.AsInt64()
	return ok
}

// versionLength is what the identifiers of a version cost.
func versionLength(v apicel.Semver) uint64 {
	total := len(v.Pre) + len(v.Build)
	for i := range v.Pre {
		total += len(v.Pre[i].VersionStr) / bytesPerValue
	}
	for _, text := range v.Build {
		total += len(text) / bytesPerValue
	}
	return uint64(total)
}

func urls(bytes uint64) work {
	return func(args []ref.Val, _ uint64) uint64 {
		if u, ok := args[0].(apicel.URL); ok {
			return urlLength(u) / bytes
		}
		return 0
	}
}

func urlLength(u apicel.URL) uint64 {
	if u.URL == nil {
		return 0
	}
	n := len(u.Scheme) + len(u.Opaque) + len(u.Host) + len(u.Path) + len(u.RawPath) + len(u.RawQuery) + len(u.Fragment) + len(u.RawFragment)
	if u.User != nil {
		password, _ := u.User.Password()
		n += len(u.User.Username()) + len(password)
	}
	return uint64(n)
}

// validating matches a text with the pattern of a format.
func validating(args []ref.Val, _ uint64) uint64 {
	const each = 2
	return product(lengths(args), each)
}

// addressing reads an image or a URL: no byte beyond the limit is read.
func addressing(args []ref.Val, _ uint64) uint64 {
	const each = 4
	return product(min(lengths(args), addresses.MaxText), each)
}

// adding makes a text as long as both, or a list of both. The list that a macro fills grows in place.
func adding(args []ref.Val, most uint64) uint64 {
	if len(args) < 2 {
		return 0
	}
	if list, ok := args[0].(traits.Lister); ok {
		if _, filling := list.(traits.MutableLister); filling {
			return items(args[1], most)
		}
		return items(list, most) + items(args[1], most)
	}
	return lengths(args) / addedBytes
}

// addedBytes are the bytes of a text that a unit copies into a new one.
const addedBytes = 64

// length is that of a text in bytes; 0 of anything else.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	}
	return 0
}

// lengths are those of all texts among the arguments.
func lengths(args []ref.Val) uint64 {
	total := uint64(0)
	for _, arg := range args {
		total += length(arg)
	}
	return total
}

func items(v ref.Val, _ uint64) uint64 {
	if sizer, ok := v.(traits.Sizer); ok {
		if size, ok := sizer.Size().(types.Int); ok {
			return uint64(max(size, 0))
		}
	}
	return 1
}

// parts is how many parts a text has between separators.
func parts(args []ref.Val) uint64 {
	text, _ := args[0].(types.String)
	if len(args) < 2 {
		return 0
	}
	if len(args) > 2 { // as many are allocated as are wanted
		if n, ok := args[2].(types.Int); ok && n >= 0 {
			return min(uint64(n), uint64(len(text))+1)
		}
	}
	separator, _ := args[1].(types.String)
	if separator == "" {
		return uint64(utf8.RuneCountInString(string(text))) //nolint:gosec // a count is not negative
	}
	return uint64(len(text)/len(separator)) + 1
}

// product does not overflow: a factor beyond 2^32 exceeds every limit.
func product(a, b uint64) uint64 {
	const enough = 1 << 32
	return min(a, enough-1) * min(b, enough-1)
}

// bytesPerValue are the bytes of a text that count as one value when values are weighed.
const bytesPerValue = 16

// weigh counts the values that a value consists of, a text by its length, and what is parsed of a text by what comparing it costs. It stops
// beyond most.
func weigh(v ref.Val, most uint64) uint64 {
	total := uint64(1)
	switch v := v.(type) {
	case types.String, types.Bytes:
		total += length(v) / bytesPerValue
	case *object:
		if v.nodes == 0 {
			total = weighAll(v, most, true)
			if total <= most {
				v.nodes = total
			}
			return total
		}
		return v.nodes
	case *types.Optional:
		if v.HasValue() {
			total += weigh(v.GetValue(), most)
		}
	case apicel.URL: // which is written out to be compared
		total += urlLength(v) / bytesPerValue
	case apicel.Quantity:
		const perValue = 4
		total += digitsOf(v) / perValue
	case apicel.Semver:
		total += versionLength(v) / bytesPerValue
	case traits.Mapper:
		return weighAll(v, most, true)
	case traits.Lister:
		return weighAll(v, most, false)
	}
	return total
}

// weighAll adds up elements, or keys and their values.
func weighAll(v interface {
	traits.Iterable
	traits.Indexer
}, most uint64, keyed bool,
) uint64 {
	total := uint64(1)
	for it := v.Iterator(); total <= most && it.HasNext() == types.True; {
		next := it.Next()
		total += weigh(next, most-total)
		if keyed && total <= most {
			total += weigh(v.Get(next), most-total)
		}
	}
	return total
}

// bindings are the functions of an environment by operator and overload.
func bindings(env *celgo.Env) (map[string]*functions.Overload, error) {
	all := map[string]*functions.Overload{}
	for _, declared := range env.Functions() {
		overloads, err := declared.Bindings()
		if err != nil {
			return nil, err
		}
		for _, overload := range overloads {
			all[overload.Operator] = overload
		}
	}
	return all, nil
}

// operation is what a call does.
func (e *Environment) operation(function, overload string, arguments int) functions.FunctionOp {
	switch function {
	case operators.Equals:
		return func(args ...ref.Val) ref.Val { return equal(args[0], args[1]) }
	case operators.NotEquals:
		return func(args ...ref.Val) ref.Val { return types.Bool(equal(args[0], args[1]) != types.True) }
	}
	for _, operator := range []string{overload, function} {
		binding := e.bindings[operator]
		switch {
		case binding == nil:
		case binding.Unary != nil && arguments == 1:
			return func(args ...ref.Val) ref.Val { return binding.Unary(args[0]) }
		case binding.Binary != nil && arguments == 2 && function == operators.Add:
			return func(args ...ref.Val) ref.Val { return added(binding.Binary, args[0], args[1]) }
		case binding.Binary != nil && arguments == 2:
			return func(args ...ref.Val) ref.Val { return binding.Binary(args[0], args[1]) }
		case binding.Function != nil:
			return func(args ...ref.Val) ref.Val { return binding.Function(slices.Clone(args)...) } // it may keep them
		}
	}
	return nil
}

// added is the sum of two values. The sum of two lists is a list of its own: CEL's would refer to both, and reading an
// element of a sum of many would take as many steps.
func added(add functions.BinaryOp, a, b ref.Val) ref.Val {
	left, isList := a.(traits.Lister)
	right, areLists := b.(traits.Lister)
	if _, filling := a.(traits.MutableLister); filling || !isList || !areLists {
		return add(a, b)
	}
	all := make([]ref.Val, 0, items(left, 0)+items(right, 0))
	for _, list := range []traits.Lister{left, right} {
		for it := list.Iterator(); it.HasNext() == types.True; {
			all = append(all, it.Next())
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, all)
}

// equal compares as CEL does; a map of CEL's own does not know how to compare itself with an object.
func equal(a, b ref.Val) ref.Val {
	if object, ok := b.(*object); ok {
		return object.Equal(a)
	}
	return types.Equal(a, b)
}

func tooLarge(function string) ref.Val {
	return types.WrapErr(fmt.Errorf("%w: the arguments of %s are too large", ErrExpensive, strings.Trim(function, "_@")))
}
