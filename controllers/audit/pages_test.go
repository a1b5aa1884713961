package audit

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// serve is an API server that answers by the token it is asked from.
func serve(t *testing.T, answers map[string]any) *API {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := r.URL.Query().Get("continue")
		answer, ok := answers[r.URL.Path+"?"+from]
		if limit := r.URL.Query().Get("limit"); limit != "" && limit != "500" {
			t.Errorf("it asks for pages of %s", limit)
		}
		w.Header().Set("Content-Type", "application/json")
		status, failed := answer.(*metav1.Status)
		switch {
		case !ok:
			t.Errorf("it asks for %s from %q", r.URL.Path, from)
			w.WriteHeader(http.StatusTeapot)
		case failed:
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	api, err := NewAPI(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func page(next string, items ...string) any {
	var raw []json.RawMessage
	for _, item := range items {
		raw = append(raw, json.RawMessage(item))
	}
	return map[string]any{"kind": "VirtualMachineList", "metadata": map[string]any{"continue": next}, "items": raw}
}

func failure(code int32, reason metav1.StatusReason, next string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: "no", ListMeta: metav1.ListMeta{Continue: next},
	}
}

func TestPages(t *testing.T) {
	const path = "/apis/kubevirt.io/v1/virtualmachines?"
	for name, c := range map[string]struct {
		answers map[string]any
		want    string
		err     string
	}{
		"two pages": {map[string]any{path: page("next", `{"a":1}`, `{"b":2}`), path + "next": page("", `"not even an object"`)}, `[{"a":1} {"b":2} "not even an object"]`, ""},
		"the list has expired, and goes on": {map[string]any{
			path: page("old", `1`), path + "old": failure(http.StatusGone, metav1.StatusReasonExpired, "new"), path + "new": page("", `2`),
		}, "[1 2]", ""},
		"the list has expired": {map[string]any{
			path: page("old", `1`), path + "old": failure(http.StatusGone, metav1.StatusReasonExpired, ""),
		}, "", "listing virtualmachines: no"},
		"there is no such kind": {map[string]any{path: failure(http.StatusNotFound, metav1.StatusReasonNotFound, "")}, "[]", ""},
		"we may not":            {map[string]any{path: failure(http.StatusForbidden, metav1.StatusReasonForbidden, "")}, "", "listing virtualmachines: no"},
		"it is no list":         {map[string]any{path: "text"}, "", "listing virtualmachines: json: cannot unmarshal string into Go value of type struct { Metadata struct { Continue string \"json:\\\"continue\\\"\" } \"json:\\\"metadata\\\"\"; Items []json.RawMessage \"json:\\\"items\\\"\" }"},
	} {
		t.Run(name, func(t *testing.T) {
			api := serve(t, c.answers)
			all := []string{}
			var err error
			for from, more := "", true; more && err == nil; more = from != "" {
				var objects []json.RawMessage
				objects, from, err = api.Page(t.Context(), Kinds()[0], from)
				for _, o := range objects {
					all = append(all, string(o))
				}
			}
			if got := fmt.Sprint(err); (err != nil || c.err != "") && got != c.err {
				t.Fatalf("the error is %s, not %s", got, c.err)
			}
			if got := fmt.Sprint(all); c.err == "" && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestLargeObjectsComeInSmallPages: what is in memory at once has a bound, whatever is stored.
func TestLargeObjectsComeInSmallPages(t *testing.T) {
	const objects = 40
	large := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	var limits []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil {
			t.Error(err)
		}
		limits = append(limits, limit)
		from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // none is 0
		to, next := from+limit, strconv.Itoa(from+limit)
		if to >= objects {
			to, next = objects, ""
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page(next, slices.Repeat([]string{large}, to-from)...)) // the client hangs up
	}))
	t.Cleanup(server.Close)
	api, err := NewAPI(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	read, most := 0, 0
	for from, more := "", true; more; more = from != "" {
		var items []json.RawMessage
		if items, from, err = api.Page(t.Context(), Kinds()[0], from); err != nil {
			t.Fatal(err)
		}
		read, most = read+len(items), max(most, len(items))
	}
	if read != objects || most > 15 || limits[0] != PageSize {
		t.Errorf("%d objects were read, %d at the most at once, with the limits %d", read, most, limits)
	}
}

func TestGet(t *testing.T) {
	api := serve(t, map[string]any{
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/there?": map[string]any{"a": 1},
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/gone?":  failure(http.StatusNotFound, metav1.StatusReasonNotFound, ""),
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/shut?":  failure(http.StatusForbidden, metav1.StatusReasonForbidden, ""),
	})
	if got, err := api.Get(t.Context(), Kinds()[0], machine("there")); err != nil || string(got) != "{\"a\":1}\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := api.Get(t.Context(), Kinds()[0], machine("gone")); err != nil || got != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := api.Get(t.Context(), Kinds()[0], machine("shut")); err == nil || err.Error() != "reading VirtualMachine default/shut: no" {
		t.Errorf("got %v", err)
	}
}
