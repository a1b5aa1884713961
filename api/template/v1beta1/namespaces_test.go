package v1beta1_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/api/template/v1beta1"
)

func TestTrustedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
		listed      bool
	}{
		"no annotation": {nil, "", false},
		"an empty list": {map[string]string{v1beta1.TrustedNamespacesAnnotation: ""}, "", true},
		"spaces, duplicates and empty names": {
			map[string]string{v1beta1.TrustedNamespacesAnnotation: " images,catalogue, ,images"}, "catalogue images", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			names, listed := v1beta1.TrustedNamespaces(tc.annotations)
			if got := strings.Join(names, " "); got != tc.want || listed != tc.listed {
				t.Errorf("got %q %t, want %q %t", got, listed, tc.want, tc.listed)
			}
		})
	}
	if v1beta1.ApprovedOnly(map[string]string{v1beta1.ApprovedOnlyLabel: "false"}) || !v1beta1.ApprovedOnly(map[string]string{v1beta1.ApprovedOnlyLabel: "true"}) {
		t.Error("only the value true makes a namespace approved-only")
	}
}
