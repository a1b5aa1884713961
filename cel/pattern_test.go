package cel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtward/virtward/cel"
)

// Functions with a pattern do what the library's do, whether the pattern is a literal or not.
func TestPatterns(t *testing.T) {
	s := scope(t, cel.ScopeOptions{})
	d := &cel.Documents{Params: map[string]any{
		"vowel": "[aeiou]", "broken": "(", "text": "kubevirt", "long": strings.Repeat("x", 200_000), "dear": strings.Repeat("(a{10}){90}", 9), "folded": "(?i)" + strings.Repeat("[B-\U0001e942]", 50),
	}}
	for expression, want := range map[string]string{
		"params.text.matches('^kube.*t$')":  "true",
		"params.text.matches(params.vowel)": "true",
		"params.text.matches('^[0-9]+$')":   "false",
		"params.text.find('[aeiou]') + params.text.find(params.vowel) + params.text.find('z')": "uu",
		"params.text.findAll('[aeiou]')":       "[u e i]",
		"params.text.findAll(params.vowel, 2)": "[u e]",
		"params.text.findAll(params.vowel, 0)": "[]",
		"params.text.findAll('z')":             "[]",
		"params.text.matches(params.broken)":   "error parsing regexp: missing closing ): `(`",
		"params.text.find(params.broken)":      "error parsing regexp: missing closing ): `(`",
		"params.text.matches(1)":               "no such overload",
		"params.long.matches('^x+$')":          "true",
		"params.long.findAll('x').size()":      "the expression is too expensive: it costs more than 1000000 units, in findAll",
		"params.long.findAll('x', 5).size()":   "5",
		"params.long.matches(params.dear)":     "the policy is too expensive: it takes more than 4194304 bytes of memory",
		"params.text.matches(params.folded)":   "the expression is too expensive: it costs more than 1000000 units, in matches",
		"params.text.matches(params.long)":     "the expression is too expensive: the arguments of matches are too large",
	} {
		expression = strings.Replace(expression, "matches(1)", "matches(dyn(1))", 1)
		got, err := evaluate(t, s, d, expression)
		text := fmt.Sprint(got)
		if err != nil {
			_, text, _ = strings.Cut(err.Error(), ": ")
			if strings.HasPrefix(err.Error(), "the expr") || strings.HasPrefix(err.Error(), "error parsing") {
				text = err.Error()
			}
		}
		if text != want {
			t.Errorf("%s: %s, want %s (%v)", expression, text, want, err)
		}
	}
}
