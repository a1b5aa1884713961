package rego

import (
	"fmt"
	"slices"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// charge is what a function takes, computed from its arguments before it is called.
type charge struct {
	// keeps are the bytes that its result may hold, with what making it takes besides. takes are those that are free
	// again when it has returned. The greater one must fit into what is left; only what it keeps is taken off.
	keeps, takes int
	// work are steps, besides those that memory costs.
	work int
	// documents is how many of them are copied and changed (with input.vm as …).
	documents int
	// then looks closer once this is paid, and says what is to be paid besides; nil for nothing.
	then func() (charge, error)
}

// class are functions that are charged in the same way.
type class struct {
	names []string
	// guard computes the charge, and says what is wrong with the arguments; nil if there is nothing to charge.
	guard guard
	// says is the charge in words, and why the reason.
	says, why string
}

// rate is what is charged by the size of the arguments.
type rate struct {
	// kept are the bytes for one of theirs that the result may hold, and taken those that are free again when the function returns.
	kept, taken int
	// perStep are the bytes that one step pays for.
	perStep int
}

// bySize is the class of functions that are charged by the size of their arguments.
func bySize(r rate, why string, names ...string) class {
	return class{names, r.guard, r.says(), why}
}

func (r rate) guard(operands []*ast.Term) (charge, error) {
	return r.forSize(weight(operands...)), nil
}

func (r rate) forSize(size int) charge {
	return charge{keeps: times(r.kept, size), takes: times(r.taken, size), work: size / r.perStep}
}

// says is the rate in words.
func (r rate) says() string {
	switch {
	case r.kept > 0:
		return fmt.Sprintf("%d × size, and a step for each %d bytes of size", r.kept, r.perStep)
	case r.taken > 0:
		return fmt.Sprintf("%d × size while they run, and a step for each %d bytes of size", r.taken, r.perStep)
	}
	return fmt.Sprintf("a step for each %d bytes of size", r.perStep)
}

// classes are all functions that a module may call, each with what it is charged. Size is the sum of all strings and
// numbers in the arguments, and 8 bytes for each value, counted as often as it occurs. The factors are measured, and
// TestWhatFunctionsTake holds that none takes more. TestChargesAreWhatTheTableSays holds the words to the guards.
func classes() []class {
	return []class{
		{
			[]string{"assign", "eq", "is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name", "print", "internal.print", "trace"},
			nil, "nothing", "they look at one value; `=` and `==` of two values that are not constants are charged as `!=`",
		},
		{
			[]string{"object.get"},
			got,
			"nothing; a step for each 256 bytes of the object and the key, if the key or a part of its path is a set, an object, a fraction or an integer of more than 15 digits, or a part is a list",
			"such a key is compared with the keys of the object",
		},
		{
			[]string{"equal", "neq", "gt", "gte", "lt", "lte", "internal.member_2", "internal.member_3"},
			compared,
			"a step for each 256 bytes of size; if one is a number, a boolean or null, and the last is no list, set or object, nothing; for each number of more than 19 digits a step, and one for each 8 digits; numbers of more than 1000 digits, and of more than 100 beside a list, a set or an object, are rejected",
			"they compare element by element",
		},
		{
			[]string{"plus", "div", "rem", "abs", "ceil", "floor", "round", "format_int", "bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "mul", "to_number", "units.parse", "units.parse_bytes"},
			numbers,
			"8 steps for numbers of up to 40 digits together; else also 32 × size, 64 bytes for each digit, and a step for each 8 digits, and for each 512 pairs of digits; numbers of more than 1000 digits, exponents included, and texts of more than 100 characters are rejected",
			"arithmetic is exact",
		},
		{[]string{"bits.lsh"}, shift, "as other numbers, and a step for each 64 bits; shifts of more than 1024 bits are rejected", "the result has as many bits more"},
		{[]string{"numbers.range"}, span, "256 bytes for each number; more than 100,000 are rejected", "each is a value of its own"},
		{[]string{"numbers.range_step"}, spanInSteps, "256 bytes for each number; more than 100,000 are rejected", "each is a value of its own"},
		{
			[]string{"product"},
			product,
			"32 × size, 16 bytes for each digit, a step for each 1024 bytes of size, and a step for each 1024 pairs of digits; more than 10,000 digits together are rejected",
			"the result has as many digits, and is multiplied by each number",
		},
		bySize(rate{taken: 32, perStep: 128}, "each number is read", "sum"),
		bySize(
			rate{perStep: 512}, "they read their arguments, and make nothing, or a part of them that is not copied",
			"count", "contains", "endswith", "startswith", "trim_prefix", "trim_space", "trim_suffix", "crypto.hmac.equal", "crypto.md5", "crypto.sha1", "crypto.sha256", "array.slice",
		),
		{[]string{"max", "min"}, extreme, "a step for each 512 bytes of size, and for each number of more than 19 digits a step, and one for each 8 digits", "they compare the elements"},
		{
			[]string{"trim", "trim_left", "trim_right"},
			trimmed,
			"a step for each 512 bytes of size; if a character to remove is not of ASCII, also one for each 65,536 bytes of the text, × the bytes of the characters",
			"each character is looked for among those to remove",
		},
		{
			[]string{"indexof"},
			located, "8 × size, and a step for each 64 bytes of size; if a text is not of ASCII, also one for each 8192 bytes of the first, × the bytes of the second",
			"the texts are copied, and compared at each place",
		},
		bySize(
			rate{taken: 20, perStep: 64}, "the answer is small, what they need to find it is not",
			"json.is_valid", "base64.is_valid", "semver.is_valid", "semver.compare", "uri.is_valid", "strings.any_prefix_match", "strings.any_suffix_match", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512",
		),
		bySize(
			rate{kept: 8, perStep: 64}, "the result is at most three times as large, and is copied once or twice",
			"strings.count", "lower", "upper", "strings.reverse", "substring", "glob.quote_meta", "base64.decode", "base64.encode", "base64url.decode", "base64url.encode", "base64url.encode_no_pad", "hex.decode", "hex.encode", "urlquery.encode", "urlquery.decode", "array.concat", "array.flatten", "array.reverse",
		),
		{
			[]string{"and", "or", "union", "intersection", "object.keys", "object.union", "object.union_n", "object.remove", "object.filter", "json.filter", "json.remove", "internal.template_string", "urlquery.encode_object"},
			gathered,
			gathering.says() + "; for each number of more than 19 digits a step, and one for each 8 digits; if elements with the same hash have more than 2048 bytes, counted for each pair, a step for each 256 bytes of them", "a set or an object keeps a hash and an order of its elements",
		},
		{
			[]string{"sort"},
			sortedByValue, rate{kept: 8, perStep: 64}.says() + "; for each number of more than 19 digits a step, and one for each 8 digits", "the elements are compared",
		},
		{
			[]string{"graph.reachable"},
			reachable, "as `and`, with the elements of all lists and sets of edges", "each node is visited once",
		},
		{
			[]string{"object.subset"},
			subset,
			"20 × size while it runs, and a step for each 64 bytes of size; one for each 1024 bytes of the second value, × (the depth and the longest list of the first); long numbers, and elements with the same hash, as `and`",
			"the second value is compared at each depth of objects, and at each place of a list",
		},
		{[]string{"minus"}, difference, "of sets, as `and`; of numbers, as `plus`", "it is the difference of numbers or of sets"},
		bySize(rate{kept: 32, perStep: 64}, "a text has up to six bytes for one, and an error quotes it", "json.marshal", "uri.parse"),
		{[]string{"json.patch"}, patched, "16 × size for each operation, and once more", "each may copy the value"},
		{
			[]string{"json.marshal_with_options"},
			indented,
			"16 × size, and 16 × the size of the options × (its depth and one) for each value", "every value is on its own line, with an indent",
		},
		{[]string{"walk"}, walked, "64 × size, and 24 bytes for each step of each path", "each value comes with its path"},
		{[]string{"split", "strings.split_n", "indexof_n", "json.unmarshal"}, decoded, "192 × size; numbers in JSON of more than 100 digits are rejected", "each character may become a value"},
		bySize(rate{kept: 384, perStep: 1024}, "each character may become a parameter with a list of values", "urlquery.decode_object"),
		{
			[]string{"yaml.is_valid"},
			yamlChecked,
			"768 × size while it runs, 512 bytes for each value that an alias repeats and 16 × its text, and a step for each 64 pairs of keys in a mapping; a key that occurs twice makes it invalid before it is decoded",
			"the decoder makes nodes of up to 700 bytes, compares all keys with each other, and makes an error of each pair",
		},
		{[]string{"yaml.unmarshal"}, yamlDecoded, "768 × size, and as yaml.is_valid", "as yaml.is_valid"},
		bySize(rate{kept: 640, perStep: 1024}, "it is encoded, decoded and encoded again", "yaml.marshal"),
		{[]string{"concat"}, joined, "8 × size, and 8 × the separator for each text", "the separator is repeated"},
		{
			[]string{"replace"},
			replaced,
			"8 × size, 8 × the replacement for each place that fits into the text if it is longer than what it replaces, a step for each 1024 bytes of both, and one for each 2048 bytes of what is replaced, × its bytes", "the text may grow with each occurrence, and what is replaced is compared with itself",
		},
		{[]string{"strings.replace_n"}, replacedByMany, "8 × (the text and one) × (the longest replacement and one), and 512 × the patterns", "the patterns become a machine"},
		{
			[]string{"sprintf"},
			formatted,
			"12 × size, 48 × with %q, %x, %X, %U, %b, %c, %e, %f or %g; widths count, and so do the arguments again for each [; widths and precisions of more than 1000 are rejected, and so is *",
			"an argument may be named again and again",
		},
		{[]string{"regex.is_valid"}, patternOnly, "2048 bytes while it runs, and a step, for each state of the pattern; more than 2,000 are rejected, and \\p counts 96 more; if the pattern has (?, a step for each 64 characters up to the end of each range that is not of ASCII", "it is compiled"},
		{
			[]string{"regex.match"},
			matched,
			"while it runs, 2048 bytes for each state of the pattern, and 32 bytes for each of up to 262,144 characters times states; a step for each 8 states, and for each 64 characters times states, and ranges as regex.is_valid",
			"the pattern is compiled, and each character is held against every state",
		},
		{
			[]string{"regex.template_match"},
			templated,
			"while it runs, 4096 bytes for each state of the template; a step for each state, and for each 64 characters times states, and ranges as regex.is_valid", "the template is a pattern",
		},
		{[]string{"regex.replace"}, replacedPattern, "as regex.find_n, but 16 × (the text and one) × (the replacement and one)", "the replacement may name the match again and again"},
		{
			[]string{"regex.split", "regex.find_n", "regex.find_all_string_submatch_n"},
			matchedAll,
			"as regex.match, and 192 × (the text and 8) × (the groups of the pattern and one); a step for each 8 bytes of a pattern with repetitions; if one of them is optional, and needs what is behind it, as in `a.*b|a`, each match costs as much as the whole text, up to five times",
			"each character may become a value for each group, and the text is read again for each match",
		},
		{
			[]string{"glob.match"},
			globbed,
			"while it runs, 512 × the size of the pattern and the delimiters, and 4 × the text for each { and once more; a step for each 64 bytes of all, and one for each 512 bytes of the text, × the size of the pattern and the delimiters; patterns of more than 8,000 bytes are rejected",
			"each part of the pattern is matched at every place of the text",
		},
		{
			[]string{"time.add_date", "time.clock", "time.date", "time.diff", "time.weekday"},
			zones,
			"1 KiB, as other numbers, and 150 steps for a time zone; the time zone of the process (Local) is rejected", "the result is a few numbers",
		},
		{[]string{"time.format"}, timeFormatted, "8 × size, and 150 steps for a time zone", "a layout may repeat its parts"},
		{[]string{"time.parse_ns"}, layout, "32 × size while it runs, and a step for each 1024 bytes of size; abbreviations of time zones (MST) are rejected", "an error quotes the text"},
		bySize(rate{taken: 32, perStep: 128}, "an error quotes the text", "time.parse_rfc3339_ns", "time.parse_duration_ns"),
	}
}

// pure are the built-in functions that a module may call: what they return depends only on their arguments, and what
// they take is charged.
func pure() []string {
	var names []string
	for _, c := range classes() {
		names = append(names, c.names...)
	}
	slices.Sort(names)
	return names
}

// guards are those of the functions with something to charge.
var guards = sync.OnceValue(func() map[string]guard {
	guards := map[string]guard{}
	for _, c := range classes() {
		for _, name := range c.names {
			if c.guard != nil {
				guards[name] = c.guard
			}
		}
	}
	return guards
})

// makesTexts reports whether a function may return a text that is in none of its arguments. Only those are counted. json.filter and
// json.remove also make texts from the parts of paths, which they compare with each other while they run. Their charge bounds the parts, and
// 4,000 with one hash took 3.4 µs for each step: see TestTextsOfOneCall.
func makesTexts(name string) bool {
	return !slices.Contains([]string{
		"object.get", "object.keys", "object.union", "object.union_n", "object.remove", "object.filter", "json.filter", "json.remove",
		"array.concat", "array.flatten", "array.reverse", "array.slice", "sort", "max", "min", "walk",
		"and", "or", "minus", "union", "intersection", "graph.reachable", "numbers.range", "numbers.range_step",
	}, name)
}
