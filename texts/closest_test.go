package texts

import "testing"

func TestClosest(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"coers", []string{"cores", "sockets"}, "cores"},
		{"CORES", []string{"cores"}, "cores"},
		{"pullPolicy", []string{"image", "imagePullPolicy", "imagePullSecret"}, "imagePullPolicy"},
		{"imageName", []string{"path", "image"}, "image"},
		{"policy", []string{"imagePullPolicyOfAll", "imagePullPolicy", "policyOfEverything"}, "imagePullPolicy"},
		{"bus", []string{"diskBusPreference", "preferredDiskBus"}, ""}, // three letters are in too many names
		{"policy", []string{"polygon", "policies"}, "policies"},
		{"bus", []string{"lun", "io"}, ""},
		{"tset", []string{"test"}, "test"},
		{"", []string{"a"}, ""},
		{"zzzzzzzz", []string{"cores"}, ""},
		{"cores", nil, ""},
	} {
		if got := Closest(c.name, c.known); got != c.want {
			t.Errorf("%s among %q: %q, want %q", c.name, c.known, got, c.want)
		}
	}
}

func TestNear(t *testing.T) {
	for name, want := range map[string]string{"coers": "cores", "policy": "", "CORES": "cores", "startStrategy": "", "bus": ""} {
		if got := Near(name, []string{"cores", "policies", "runStrategy", "lun"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
