package export_test

import (
	"testing"

	"github.com/virtward/virtward/policies/export"
)

func TestWithoutMember(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"params.data.limit == '1'", "params.limit == '1'"},
		{"has(params.data.limit) && params . data['a b'] == 'x'", "has(params.limit) && params['a b'] == 'x'"},
		{"has(params.data)", `has({"data": params}.data)`},
		{"params != null && 'a' in params.data", `params != null && 'a' in {"data": params}.data`},
		{"params.?data.?limit.orValue('')", `{"data": params}.?data.?limit.orValue('')`},
		{"params.metadata.name", `{"data": params}.metadata.name`},
		{"params.dataset.x", `{"data": params}.dataset.x`},
		{"[1].all(params, params == 1) && 'params.data.x' != ''", "[1].all(params, params == 1) && 'params.data.x' != ''"},
		{"'ü' + params.data.x", "'ü' + params.x"},
		{"object.params.data.x", "object.params.data.x"},
	} {
		if got, err := export.WithoutMember(c.text, "params", "data"); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	if _, err := export.WithoutMember("params.", "params", "data"); err == nil {
		t.Error("an expression with an error is accepted")
	}
}

func TestUntyped(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"object.spec != oldObject.spec", "dyn(object).spec != dyn(oldObject).spec"},
		{"[1].all(object, object == 1)", "[1].all(object, object == 1)"},
		{"variables.object.spec", "variables.object.spec"},
		{"dyn(pod).spec == pod.metadata", "dyn(pod).spec == dyn(pod).metadata"},
	} {
		if got, err := export.Untyped(c.text); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
}

func TestRenamed(t *testing.T) {
	fields := map[string]string{"metadata.namespace": "request.namespace", "spec.name": "pod.spec.?name.orValue('a')"}
	names := map[string]export.Renaming{"object": {To: "pod", Fields: fields}, "request": {To: "request", Fields: map[string]string{"operation": "'CREATE'"}}}
	for _, c := range []struct{ text, want string }{
		{"request.operation == 'a' || request.namespace == object.x", "'CREATE' == 'a' || request.namespace == pod.x"},
		{"object.spec.x && variables.object", "pod.spec.x && variables.object"},
		{"object . metadata\n.namespace == 'a'", "request.namespace == 'a'"},
		{"object.metadata.namespaces + object.spec.name2 + object.spec.name", "pod.metadata.namespaces + pod.spec.name2 + pod.spec.?name.orValue('a')"},
		{"[1].all(object, object == 1) || 'object' == ''", "[1].all(object, object == 1) || 'object' == ''"},
	} {
		if got, err := export.Renamed(c.text, names, nil); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text, want string
		certain    []int
	}{
		{"has(object.spec.name) && object.a", "true && pod.a", []int{4}},
		{"has ( object.metadata ) && has(object.a)", "true && has(pod.a)", []int{6}},
		{"object.list.all(c, !has(c.a) || c.b)", "pod.list.all(c, !true || c.b)", []int{24}},
	} {
		if got, err := export.Renamed(c.text, names, c.certain); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
	}
	if got, err := export.Renamed("object.a && hash(object.b)", names, []int{17}); err == nil {
		t.Errorf("it is no has(): %q", got)
	}
	for _, text := range []string{"object.", "[1].all(pod, object.x)", "[1].all(request, object.metadata.namespace == '')", "has(object.spec.name)"} {
		if got, err := export.Renamed(text, names, nil); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}
