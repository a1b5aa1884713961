package cel_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/addresses"
	"github.com/virtward/virtward/cel"
)

func TestAddresses(t *testing.T) {
	for expression, want := range map[string]any{
		"virtward.image('QUAY.io:443/a/b').canonical":                                      "quay.io/a/b:latest",
		"virtward.image('DOCKER://quay.io/a/b:c').name":                                    "quay.io/a/b",
		"virtward.image('fedora')":                                                         map[string]any{"canonical": "docker.io/library/fedora:latest", "name": "docker.io/library/fedora", "registry": "docker.io", "host": "docker.io", "port": int64(443), "repository": "library/fedora", "tag": "latest", "digest": "", "qualified": false, "transport": ""},
		"virtward.image('fedora').qualified":                                               false,
		"virtward.image('fedora').digest == ''":                                            true,
		"virtward.image('a.example:5000/b').port == 5000":                                  true,
		"virtward.isImage('a b')":                                                          false,
		"virtward.isImage('a.example/b')":                                                  true,
		"['a.example/b', 'A.example/b'].map(i, virtward.image(i).canonical)":               []any{"a.example/b:latest", "a.example/b:latest"},
		"virtward.url('HTTPS://A.example./b/../c').canonical":                              "https://a.example/c",
		"virtward.url('https://a@b.example').userInfo":                                     true,
		"virtward.url('https://a.example').host == virtward.url('https://A.example').host": true,
		"virtward.isURL('a.example')":                                                      false,
		"virtward.isURL('https://a.example')":                                              true,
		"platform.kubeVirtUsers.size()":                                                    int64(4),
	} {
		t.Run(expression, func(t *testing.T) {
			got, err := evaluate(t, scope(t, cel.ScopeOptions{}), documents(), expression)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressesFail(t *testing.T) {
	for expression, want := range map[string]string{
		"virtward.image('a b').name == ''":                                          "no reference to an image",
		"virtward.url('a').host == ''":                                              "no URL",
		"virtward.image(dyn(1)).name == ''":                                         "no such overload",
		"virtward.url(vm.metadata).host == ''":                                      "compile",
		"virtward.image('a').owner == ''":                                           "undefined field 'owner'",
		"lists.range(1000).all(i, lists.range(1000).all(j, virtward.isImage('a')))": "too expensive",
		"lists.range(500).all(i, virtward.isImage('" + strings.Repeat("a", addresses.MaxText) + "') || true)": "too expensive",
	} {
		t.Run(expression[:min(len(expression), 40)], func(t *testing.T) {
			s := scope(t, cel.ScopeOptions{})
			p, issues := s.Compile(expression, cel.Bool)
			if len(issues) > 0 {
				if text := "compile: " + issues[0].String(); !strings.Contains(text, want) {
					t.Errorf("it is %q, and should say %q", text, want)
				}
				return
			}
			if _, err := p.Eval(s.Activation(documents()), cel.NewBudget()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, and should say %q", err, want)
			}
		})
	}
}
