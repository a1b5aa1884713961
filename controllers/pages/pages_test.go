package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var machines = List{Resource: schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}, Form: JSON}

// serve is an API server that returns pages by their token.
func serve(t *testing.T, answers map[string]any) *Reader {
	t.Helper()
	return reader(t, func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path+"?"+r.URL.Query().Get("continue")]
		status, failed := answer.(*metav1.Status)
		switch {
		case !ok:
			t.Errorf("it asks for %s", r.URL)
			w.WriteHeader(http.StatusTeapot)
		case failed:
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})
}

func reader(t *testing.T, answer http.HandlerFunc) *Reader {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	pages, err := NewReader(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func page(next string, items ...string) any {
	var raw []json.RawMessage
	for _, item := range items {
		raw = append(raw, json.RawMessage(item))
	}
	return map[string]any{"kind": "VirtualMachineList", "metadata": map[string]any{"continue": next, "resourceVersion": "7" + next}, "items": raw}
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
		"two pages": {map[string]any{path: page("next", `{"a":1}`, `{"b":2}`), path + "next": page("", `"not even an object"`)}, `7next [{"a":1} {"b":2} "not even an object"]`, ""},
		"the list has expired, and goes on": {map[string]any{
			path: page("old", `1`), path + "old": failure(http.StatusGone, metav1.StatusReasonExpired, "new"), path + "new": page("", `2`),
		}, "7old [1 2]", ""},
		"the list has expired": {map[string]any{
			path: page("old", `1`), path + "old": failure(http.StatusGone, metav1.StatusReasonExpired, ""),
		}, "", "listing virtualmachines: no"},
		"it goes in circles":    {map[string]any{path: page("next", `1`), path + "next": page("next", `2`)}, "", "listing virtualmachines: a page follows itself"},
		"there is no such kind": {map[string]any{path: failure(http.StatusNotFound, metav1.StatusReasonNotFound, "")}, "", "listing virtualmachines: no"},
		"we may not":            {map[string]any{path: failure(http.StatusForbidden, metav1.StatusReasonForbidden, "")}, "", "listing virtualmachines: no"},
		"it is no list":         {map[string]any{path: "text"}, "", "listing virtualmachines: json: cannot unmarshal string into Go value of type struct { Metadata v1.ListMeta \"json:\\\"metadata\\\"\"; Items []json.RawMessage \"json:\\\"items\\\"\" }"},
	} {
		t.Run(name, func(t *testing.T) {
			all := []string{}
			version, err := serve(t, c.answers).Each(t.Context(), machines, func(o Object) error {
				all = append(all, string(o.JSON))
				return nil
			})
			if got := fmt.Sprint(err); (err != nil || c.err != "") && got != c.err {
				t.Fatalf("the error is %s, not %s", got, c.err)
			}
			if got := fmt.Sprint(version, " ", all); c.err == "" && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// stock is an API server of objects of some sizes. It notes the limits of the requests.
type stock struct {
	sizes  []int
	limits []int
	sent   int
}

func (s *stock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue")) // none is 0
	s.limits = append(s.limits, limit)
	to, next := from+limit, strconv.Itoa(from+limit)
	if to >= len(s.sizes) {
		to, next = len(s.sizes), ""
	}
	var items []string
	for i := from; i < to; i++ {
		items = append(items, fmt.Sprintf(`{"metadata":{"annotations":{"a":"%s","name":"x"},"name":"vm-%d","namespace":"default","uid":"u%d"},"spec":{"metadata":{"name":"other"}}}`,
			strings.Repeat("x", s.sizes[i]), i, i))
	}
	data := fmt.Appendf(nil, `{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	n, _ := w.Write(data) // the client hangs up
	s.sent += n
}

// What is in memory at once has a bound, whatever is stored, and the limit follows the sizes.
func TestPagesAreBoundedByBytes(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		// most is how often the bytes that there are may be sent: what does not fit is sent again.
		most float64
	}{
		"small ones":                    {slices.Repeat([]int{100}, 3000), 1.1},
		"large ones":                    {slices.Repeat([]int{255 << 10}, 400), 1.5},
		"small ones before large ones":  {append(slices.Repeat([]int{100}, 2000), slices.Repeat([]int{1 << 20}, 100)...), 2},
		"large ones between small ones": {slices.Concat(slices.Repeat([]int{1 << 20}, 60), slices.Repeat([]int{100}, 2000), slices.Repeat([]int{1 << 20}, 60)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			s, all := &stock{sizes: c.sizes}, 0
			for _, size := range c.sizes {
				all += size + 120
			}
			pages := reader(t, s.ServeHTTP)
			read, largest, limit := 0, 0, 0
			for from, more := "", true; more; {
				p, err := pages.Page(t.Context(), machines, from, limit)
				if err != nil {
					t.Fatal(err)
				}
				bytes := 0
				for i := range p.Objects {
					if want := fmt.Sprintf("vm-%d", read); !strings.Contains(string(p.Objects[i].JSON), want) {
						t.Fatalf("%s is missing", want)
					}
					bytes += len(p.Objects[i].JSON)
					read++
				}
				largest = max(largest, bytes)
				from, more, limit = p.Next, p.Next != "", p.Limit
			}
			if read != len(c.sizes) || largest > MaxBytes || slices.Max(s.limits) > MaxObjects {
				t.Errorf("%d of %d objects were read, %d bytes at once, with the limits %d", read, len(c.sizes), largest, s.limits)
			}
			if cap(pages.buffer) > MaxBytes+1 {
				t.Errorf("the buffer has %d bytes", cap(pages.buffer))
			}
			if sent := float64(s.sent) / float64(all); sent > c.most {
				t.Errorf("%.2f times the bytes were sent, with the limits %d", sent, s.limits)
			}
		})
	}
}

// An object that is too large is named, and those beside it are read.
func TestAnObjectThatIsTooLargeIsNamed(t *testing.T) {
	s := &stock{sizes: []int{10, MaxBytes, 10}}
	var got []string
	if _, err := reader(t, s.ServeHTTP).Each(t.Context(), machines, func(o Object) error {
		got = append(got, fmt.Sprintf("%t %s/%s %s", o.JSON != nil, o.Namespace, o.Name, o.UID))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"true / ", "false default/vm-1 u1", "true / "}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestAnObjectThatIsTooDeepIsNotSkimmed(t *testing.T) {
	pages := reader(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[{"spec":` + strings.Repeat("[", MaxBytes))) // the client hangs up
	})
	_, err := pages.Page(t.Context(), machines, "", 1)
	if want := "listing virtualmachines: an object has more than 8 MiB, and what there is of it cannot be read: it is more than 1000 levels deep"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestMetadataIsAskedForByItsForm(t *testing.T) {
	pages := reader(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept") + " " + r.URL.String(); got != Metadata+" /api/v1/namespaces?labelSelector=a%3Db&limit=100" {
			t.Errorf("it asks for %s", got)
		}
		_ = json.NewEncoder(w).Encode(page(""))
	})
	list := List{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Form: Metadata, LabelSelector: "a=b"}
	if _, err := pages.Page(t.Context(), list, "", 0); err != nil {
		t.Fatal(err)
	}
}

func TestGet(t *testing.T) {
	pages := serve(t, map[string]any{
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/there?": map[string]any{"a": 1},
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/large?": map[string]any{"a": strings.Repeat("x", MaxBytes)},
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/gone?":  failure(http.StatusNotFound, metav1.StatusReasonNotFound, ""),
		"/apis/kubevirt.io/v1/namespaces/default/virtualmachines/shut?":  failure(http.StatusForbidden, metav1.StatusReasonForbidden, ""),
	})
	get := func(name string) (*Object, error) { return pages.Get(t.Context(), machines.Resource, "default", name) }
	if got, err := get("there"); err != nil || string(got.JSON) != "{\"a\":1}\n" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := get("large"); err != nil || got.JSON != nil || got.Namespace != "default" || got.Name != "large" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := get("gone"); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := get("shut"); err == nil || err.Error() != "no" {
		t.Errorf("got %v", err)
	}
}
