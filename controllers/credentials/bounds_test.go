package credentials

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/virtward/virtward/sources/web"
)

// TestBounds: what a user stores in a Secret or a ConfigMap is not kept beyond a bound.
func TestBounds(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "team", Name: "a"}
	for name, c := range map[string]struct {
		user, authorities int
		reason            string
	}{
		"the largest":                {MaxCredential, MaxAuthorities - 1, ""},
		"a long user name":           {MaxCredential + 1, 10, web.ReasonMissingCredential},
		"a ConfigMap that is larger": {10, MaxAuthorities, web.ReasonInvalidAuthority}, // each value has a line end
	} {
		reader := fake.NewClientBuilder().WithObjects(
			&corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{keyUser: []byte(strings.Repeat("u", c.user)), keyPassword: []byte("p")}},
			&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"ca.pem": strings.Repeat("c", c.authorities)}},
		).Build()
		var got web.Options
		var known *web.Error
		switch err := Read(t.Context(), reader, "team", "a", "a", &got); {
		case c.reason == "" && (err != nil || len(got.User) != c.user || got.Password != "p" || len(got.Authorities) != c.authorities+1):
			t.Errorf("%s: %v, %d, %d", name, err, len(got.User), len(got.Authorities))
		case c.reason != "" && (!errors.As(err, &known) || known.Reason != c.reason || len(known.Message) > 200):
			t.Errorf("%s: %v", name, err)
		}
	}
}
