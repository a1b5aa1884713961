package rego

import (
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"go.yaml.in/yaml/v3"
)

// The decoder of YAML compares each key of a mapping with all others, and makes an error of every pair that is the same:
// 64 KiB of one key again and again make 20 GB of errors. What an anchor names is decoded again for each alias. So the
// text is parsed into nodes first, which is linear, and is decoded only if its mappings have no key twice and what its
// aliases repeat is paid for.

const (
	// yamlParsed is what parsing and decoding take, for each byte of a text.
	yamlParsed = 768
	// yamlValue is what decoding takes for a value that an alias repeats, and yamlText for each byte of its text.
	yamlValue, yamlText = 512, 16
	// pairsPerStep are the comparisons of keys that a step pays for.
	pairsPerStep = 64
)

func yamlChecked(operands []*ast.Term) (charge, error) {
	return charge{takes: times(yamlParsed, weight(operands...)), then: func() (charge, error) {
		keys, err := yamlKeys(operands)
		if err != nil {
			return charge{}, answer{ast.InternedTerm(false)}
		}
		return charge{takes: keys.repeated, work: keys.work}, nil
	}}, nil
}

func yamlDecoded(operands []*ast.Term) (charge, error) {
	return charge{keeps: times(yamlParsed, weight(operands...)), then: func() (charge, error) {
		keys, err := yamlKeys(operands)
		return charge{keeps: keys.repeated, work: keys.work}, err
	}}, nil
}

// yamlKeys looks at the text that is to be decoded. One that cannot be parsed is left to the decoder.
func yamlKeys(operands []*ast.Term) (yamlCensus, error) {
	c := yamlCensus{sizes: map[*yaml.Node]yamlSize{}}
	text, ok := operands[0].Value.(ast.String)
	if !ok {
		return c, nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return c, nil //nolint:nilerr // the decoder says the same
	}
	c.size(&document)
	if c.twice {
		return c, errors.New("a mapping has the same key twice")
	}
	return c, nil
}

// yamlCensus is what is in a document.
type yamlCensus struct {
	// repeated is what aliases repeat, in bytes of memory, work what comparing keys takes, in steps.
	repeated, work int
	// twice tells that a mapping has a key twice.
	twice bool
	sizes map[*yaml.Node]yamlSize
}

// yamlSize is that of a node with all that it refers to.
type yamlSize struct{ values, text int }

func (c *yamlCensus) size(node *yaml.Node) yamlSize {
	if known, ok := c.sizes[node]; ok {
		return known
	}
	c.sizes[node] = yamlSize{} // while it is computed: the decoder rejects what contains itself
	if node.Kind == yaml.AliasNode {
		of := c.size(node.Alias)
		c.repeated = min(c.repeated+times(yamlValue, of.values)+times(yamlText, of.text), tooHeavy)
		c.sizes[node] = of
		return of
	}
	total := yamlSize{1, len(node.Value)}
	for _, inner := range node.Content {
		s := c.size(inner)
		total.values, total.text = min(total.values+s.values, tooHeavy), min(total.text+s.text, tooHeavy)
	}
	if node.Kind == yaml.MappingNode {
		c.mapping(node)
	}
	c.sizes[node] = total
	return total
}

// mapping looks for keys that the decoder takes for the same.
func (c *yamlCensus) mapping(node *yaml.Node) {
	type key struct {
		kind  yaml.Kind
		value string
	}
	keys := len(node.Content) / 2
	seen := make(map[key]bool, keys)
	for i := 0; i+1 < len(node.Content); i += 2 {
		k := key{node.Content[i].Kind, node.Content[i].Value}
		c.twice = c.twice || seen[k]
		seen[k] = true
	}
	c.work = min(c.work+times(keys, keys)/2/pairsPerStep, tooHeavy)
}
