package policies

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// A small schema, or a small value of a ConfigMap, cannot take much time or memory.
func TestParamsAreBounded(t *testing.T) {
	property := func(schema string) string { return `{"properties":{"a":` + schema + `}}` }
	many := func(count int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", count), ",") }
	numbered := func(count int, format string) string {
		var texts []string
		for i := range count {
			texts = append(texts, fmt.Sprintf(format, i))
		}
		return strings.Join(texts, ",")
	}
	nested := `{"type":"string"}`
	for range 9 {
		nested = `{"type":"array","default":[` + many(10, "{}") + `],"items":{"type":"object","properties":{"a":` + nested + `}}}`
	}
	deep := func(count int, before, inner, after string) string {
		return strings.Repeat(before, count) + inner + strings.Repeat(after, count)
	}
	const completed, steps, patterns, aliases = "with the defaults of the schema", "it takes too long to validate", "the patterns take more than", "with its aliases"
	anything := property(`{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	for name, c := range map[string]struct {
		schema, values, yaml string
		want                 string
	}{
		"defaults in defaults":      {property(nested), `{}`, "", completed},
		"a large default":           {property(`{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","default":"` + strings.Repeat("x", 1000) + `"}}}}`), `{"a":[` + many(1000, "{}") + `]}`, "", completed},
		"defaults of values":        {property(`{"type":"object","additionalProperties":{"type":"string","default":"` + strings.Repeat("x", 1000) + `"}}`), `{"a":{` + numbered(1000, `"%d":null`) + `}}`, "", completed},
		"branches":                  {property(`{"type":"array","items":{"type":"integer","anyOf":[` + numbered(1000, `{"minimum":1%d}`) + `]}}`), `{"a":[` + many(1000, "1") + `]}`, "", steps},
		"an enum":                   {property(`{"type":"array","items":{"type":"string","enum":[` + numbered(3000, `"%d"`) + `]}}`), `{"a":[` + many(1000, `"a"`) + `]}`, "", steps},
		"a pattern of a long value": {property(`{"type":"string","pattern":"` + strings.Repeat("(a?){50}", 5) + `$"}`), `{"a":"` + strings.Repeat("a", 60_000) + `"}`, "", steps},
		"large patterns":            {`{"properties":{` + numbered(10, `"a%[1]d":{"type":"string","pattern":"(abcdefghij%[1]d){200}"}`) + `}}`, `{}`, "", patterns},
		"a pattern for any case":    {property(`{"type":"string","pattern":"` + strings.Repeat(`(?i)[\\x{80}-\\x{10ffff}]`, 3) + `"}`), `{}`, "", patterns},
		"aliases":                   {anything, "", "x: &x " + strings.Repeat("x", 1000) + "\ny: [" + many(1000, "*x") + "]", aliases},
		"aliases in aliases":        {anything, "", "a: &a [" + many(10, "x") + "]\nb: &b [" + many(10, "*a") + "]\nc: &c [" + many(10, "*b") + "]\nd: &d [" + many(10, "*c") + "]\ne: &e [" + many(10, "*d") + "]\nf: [" + many(10, "*e") + "]", aliases},
		"many errors":               {property(`{"type":"array","items":{"type":"string"}}`), `{"a":[` + many(20_000, "1") + `]}`, "", "must be of type string"},
		"a deep schema":             {property(deep(33, `{"type":"object","additionalProperties":`, `{"type":"string"}`, "}")), `{}`, "", "too deep"},
		"a schema of some depth":    {property(deep(30, `{"type":"object","additionalProperties":`, `{"type":"string"}`, "}")), `{}`, "", ""},
		"errors in the depth":       {deep(30, `{"type":"object","minProperties":2,"properties":{"a":`, `{"type":"string"}`, "}}"), deep(30, `{"a":`, `"a"`, "}"), "", "at least 2 properties"},
		"rules in CEL":              {`{"x-kubernetes-validations":[{"rule":"[1]` + strings.Repeat(".map(a,{a:a})", 40) + `.size() == 1"}]}`, `{}`, "", ""},
		"ordinary values":           {property(`{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9-]{1,63}$"},"tier":{"type":"string","enum":["gold","silver"],"default":"gold"}}}}`), `{"a":[` + many(1000, `{"name":"payments-0"}`) + `]}`, "", ""},
		"an ordinary alias":         {anything, "", "x: &x [a, b]\ny: *x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &policyv1alpha1.PolicyParams{Schema: &apiextensionsv1.JSON{Raw: []byte(c.schema)}}
			if c.yaml != "" {
				spec.ConfigMap = &policyv1alpha1.PolicyConfigMap{Namespace: "team", Name: "limits"}
			} else {
				spec.Values = &apiextensionsv1.JSON{Raw: []byte(c.values)}
			}
			_, errs := readParams(spec, func(string, string) (map[string]string, bool) { return map[string]string{"a": c.yaml}, true })
			switch {
			case len(errs) > maxProblems:
				t.Errorf("%d errors", len(errs))
			case c.want == "" && len(errs) > 0:
				t.Error(message(errs[0].Error()))
			case c.want != "" && (len(errs) == 0 || !strings.Contains(errs[0].Error(), c.want)):
				t.Errorf("%d errors, none is %s", len(errs), c.want)
			}
		})
	}
}
