package rego

import (
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

// classes are all functions that a module may call, each with what it is charged. Size is the sum of all strings and
// numbers in the arguments, and 8 bytes for each value, counted as often as it occurs. The factors are measured, and
// TestWhatFunctionsTake holds that none takes more.
func classes() []class {
	return []class{
		{
			[]string{"assign", "eq", "is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name", "print", "internal.print", "trace"},
			nil, "nothing", "they look at one value; `=` and `==` of two values that are not constants are charged as `!=`",
		},
		{[]string{"object.get"}, got, "nothing; a step for each 256 bytes of size, if the key is a list in a list, a set, an object, or a fraction", "they are compared with the keys of the object"},
		{
			[]string{"equal", "neq", "gt", "gte", "lt", "lte", "internal.member_2", "internal.member_3"},
			compared, "a step for each 256 bytes of size", "they compare element by element",
		},
		{
			[]string{"plus", "div", "rem", "abs", "ceil", "floor", "round", "format_int", "bits.and", "bits.negate", "bits.or", "bits.rsh", "bits.xor", "mul", "to_number", "units.parse", "units.parse_bytes"},
			numbers, "8 steps for numbers of up to 40 digits together; else 32 × size, and 64 bytes for each digit; numbers of more than 1000 digits, exponents included, and texts of more than 100 characters are rejected", "arithmetic is exact",
		},
		{[]string{"bits.lsh"}, shift, "as other numbers, and a step for each 64 bits; shifts of more than 1024 bits are rejected", "the result has as many bits more"},
		{[]string{"numbers.range"}, span, "256 bytes for each number; more than 100,000 are rejected", "each is a value of its own"},
		{[]string{"numbers.range_step"}, spanInSteps, "256 bytes for each number; more than 100,000 are rejected", "each is a value of its own"},
		{[]string{"product"}, product, "16 bytes for each digit; more than 10,000 digits together are rejected", "the result has as many"},
		{[]string{"sum"}, sizes(0, 32, readPerStep/8), "32 × size while it runs", "each number is read"},
		{
			[]string{"count", "max", "min", "contains", "endswith", "startswith", "trim", "trim_left", "trim_prefix", "trim_right", "trim_space", "trim_suffix", "crypto.hmac.equal", "crypto.md5", "crypto.sha1", "crypto.sha256", "array.slice"},
			sizes(0, 0, readPerStep/2), "a step for each 512 bytes of size", "they read their arguments, and make nothing, or a part of them that is not copied",
		},
		{
			[]string{"json.is_valid", "base64.is_valid", "semver.is_valid", "semver.compare", "uri.is_valid", "strings.any_prefix_match", "strings.any_suffix_match", "object.subset", "crypto.hmac.md5", "crypto.hmac.sha1", "crypto.hmac.sha256", "crypto.hmac.sha512"},
			sizes(0, 20, readPerStep/16), "20 × size while they run, and a step for each 64 bytes", "the answer is small, what they need to find it is not",
		},
		{
			[]string{"strings.count", "lower", "upper", "strings.reverse", "substring", "indexof", "glob.quote_meta", "base64.decode", "base64.encode", "base64url.decode", "base64url.encode", "base64url.encode_no_pad", "hex.decode", "hex.encode", "urlquery.encode", "urlquery.decode", "array.concat", "array.flatten", "array.reverse", "sort"},
			sizes(8, 0, readPerStep/16), "8 × size", "the result is at most three times as large, and is copied once or twice",
		},
		{
			[]string{"and", "or", "union", "intersection", "object.keys", "object.union", "object.union_n", "object.remove", "object.filter", "json.filter", "json.remove", "graph.reachable", "internal.template_string", "urlquery.encode_object"},
			gathered, "16 × size, and a step for each 256 bytes of what has the same hash, counted for each pair", "a set or an object keeps a hash and an order of its elements",
		},
		{[]string{"minus"}, difference, "16 × size, or as other numbers", "a set keeps a hash and an order of its elements"},
		{[]string{"json.marshal", "uri.parse"}, sizes(32, 0, readPerStep/16), "32 × size", "a text has up to six bytes for one, and an error quotes it"},
		{[]string{"json.patch"}, patched, "16 × size for each operation", "each may copy the value"},
		{[]string{"json.marshal_with_options"}, indented, "16 × size, and the indent for each value at its depth", "every value is on its own line"},
		{[]string{"walk"}, walked, "64 × size, and 24 bytes for each step of each path", "each value comes with its path"},
		{[]string{"split", "strings.split_n", "indexof_n", "json.unmarshal"}, decoded, "192 × size; numbers in JSON of more than 100 digits are rejected", "each character may become a value"},
		{[]string{"urlquery.decode_object"}, sizes(384, 0, readPerStep), "384 × size", "each character may become a parameter with a list of values"},
		{[]string{"yaml.is_valid"}, yamlChecked, "768 × size while it runs, 512 bytes for each value that an alias repeats, and a step for each 64 pairs of keys in a mapping; a key that occurs twice makes it invalid before it is decoded", "the decoder makes nodes of up to 700 bytes, compares all keys with each other, and makes an error of each pair"},
		{[]string{"yaml.unmarshal"}, yamlDecoded, "768 × size, and as yaml.is_valid", "as yaml.is_valid"},
		{[]string{"yaml.marshal"}, sizes(640, 0, readPerStep), "640 × size", "it is encoded, decoded and encoded again"},
		{[]string{"concat"}, joined, "8 × the size of the result", "the separator is repeated"},
		{[]string{"replace"}, replaced, "8 × the size of the result", "the text may grow with each occurrence"},
		{[]string{"strings.replace_n"}, replacedByMany, "8 × the size of the result, and 512 × that of the patterns", "the patterns become a machine"},
		{[]string{"sprintf"}, formatted, "12 × size, 48 × with %q, %x, %X or %U; widths and precisions of more than 1000 are rejected, and so is *", "an argument may be named again and again"},
		{[]string{"regex.is_valid"}, patternOnly, "2048 bytes for each state of the pattern; more than 8,000 are rejected", "it is compiled"},
		{[]string{"regex.match"}, matched, "as regex.is_valid, and a step for each 64 characters times states", "each character is held against every state"},
		{[]string{"regex.template_match"}, templated, "4096 × the template while it runs, and a step for each 64 characters times states", "the template is a pattern"},
		{[]string{"regex.replace"}, replacedPattern, "as regex.match, and 16 × the size of the result", "the replacement may name the match again and again"},
		{[]string{"regex.split"}, matchedAll, "as regex.match, and 192 × size for each group of the pattern and one", "each character may become a value for each group"},
		{[]string{"regex.find_n", "regex.find_all_string_submatch_n"}, matchedAll, "as regex.match, and 192 × size for each group of the pattern and one", "each character may become a value for each group"},
		{[]string{"glob.match"}, globbed, "512 × the pattern, 32 × the text, and a step for each 64 characters, to the power of the texts between its wildcards", "it tries every place of each text"},
		{[]string{"time.add_date", "time.clock", "time.date", "time.diff", "time.weekday"}, zones, "1 KiB, and 150 steps for a time zone; the time zone of the process (Local) is rejected", "the result is a few numbers"},
		{[]string{"time.format"}, timeFormatted, "8 × size, and 150 steps for a time zone", "a layout may repeat its parts"},
		{[]string{"time.parse_ns"}, layout, "32 × size; abbreviations of time zones (MST) are rejected", "an error quotes the text"},
		{[]string{"time.parse_rfc3339_ns", "time.parse_duration_ns"}, sizes(0, 32, readPerStep/8), "32 × size while they run", "an error quotes the text"},
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

// makesTexts reports whether a function may return a text that is in none of its arguments. Only those are counted.
func makesTexts(name string) bool {
	return !slices.Contains([]string{
		"object.get", "object.keys", "object.union", "object.union_n", "object.remove", "object.filter", "json.filter", "json.remove",
		"array.concat", "array.flatten", "array.reverse", "array.slice", "sort", "max", "min", "walk",
		"and", "or", "minus", "union", "intersection", "graph.reachable", "numbers.range", "numbers.range_step",
	}, name)
}

// sizes charges by the size of the arguments: so many bytes for one of theirs that are kept, so many that are free
// again, and a step for so many.
func sizes(kept, taken, perStep int) guard {
	return func(operands []*ast.Term) (charge, error) {
		size := weight(operands...)
		return charge{keeps: times(kept, size), takes: times(taken, size), work: size / perStep}, nil
	}
}
