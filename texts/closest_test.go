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
		{"zzzzzzzz", []string{"cores"}, ""},
		{"cores", nil, ""},
	} {
		if got := Closest(c.name, c.known); got != c.want {
			t.Errorf("%s among %q: %q, want %q", c.name, c.known, got, c.want)
		}
	}
}
