package fieldpath

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"":                  {},
		"spec":              {"spec"},
		"spec.disks[0].bus": {"spec", "disks", "0", "bus"},
		"metadata.labels[app.kubernetes.io/name]": {"metadata", "labels", "app.kubernetes.io/name"},
		"requests[cpu].x":                         {"requests", "cpu", "x"},
		"open[never":                              {"open", "never"},
		"[0][1]":                                  {"0", "1"},
		"a..b":                                    {"a", "", "b"},
	} {
		if diff := cmp.Diff(want, Split(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestPrefix(t *testing.T) {
	const path = "spec.disks[0].disk.bus"
	for n, want := range []string{"", "spec", "spec.disks", "spec.disks[0]", "spec.disks[0].disk", path, path} {
		if got := Prefix(path, n); got != want {
			t.Errorf("%d steps: %q, want %q", n, got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		path, of string
		want     bool
	}{
		{"spec.cpu", "spec.cpu", true},
		{"spec.cpu.cores", "spec.cpu", true},
		{"spec.disks[0]", "spec.disks", true},
		{"spec.cpuset", "spec.cpu", false},
		{"spec", "spec.cpu", false},
	} {
		if got := Within(tc.path, tc.of); got != tc.want {
			t.Errorf("%s within %s: %v", tc.path, tc.of, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		Fields("a[0].b[x.y][2].c"): "a.b.c",
		Fields("a.b"):              "a.b",
		Fields("a[0"):              "a",
		Joined("", "a"):            "a",
		Joined("a", ""):            "a",
		Joined("a", "b"):           "a.b",
		Indexed("a", 10, "b"):      "a[10].b",
		Indexed("a", 0, ""):        "a[0]",
		Keyed("a", "b.c/d"):        "a[b.c/d]",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzPath holds that each path of the API server's form is split into the steps that it was made of, and that no text
// causes a panic.
func FuzzPath(f *testing.F) {
	f.Add("spec.disks[0].bus", "disks", "app.kubernetes.io/name", uint8(3))
	f.Add("a[", "", "]", uint8(0))
	f.Fuzz(func(t *testing.T, text, name, key string, i uint8) {
		steps := Split(text)
		for n := range len(steps) + 1 {
			prefix := Prefix(text, n)
			if !strings.HasPrefix(text, prefix) {
				t.Errorf("%q is no prefix of %q", prefix, text)
			}
		}
		if Within(text, text) != true || strings.Contains(Fields(text), "[") {
			t.Errorf("%q: %q", text, Fields(text))
		}
		if name == "" || strings.ContainsAny(name, ".[") || strings.Contains(key, "]") {
			return
		}
		want := []string{name, key, name, strconv.Itoa(int(i))}
		path := field.NewPath(name).Key(key).Child(name).Index(int(i)).String()
		if diff := cmp.Diff(want, Split(path)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", path, diff)
		}
		if own := Indexed(Joined(Keyed(name, key), name), int(i), ""); own != path {
			t.Errorf("%q, want %q", own, path)
		}
		if got := Prefix(path, 3); got != Joined(Keyed(name, key), name) {
			t.Errorf("three steps of %q: %q", path, got)
		}
	})
}
