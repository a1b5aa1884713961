package apiserver

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestRequester holds that a name is stored as it is, or not at all.
func TestRequester(t *testing.T) {
	long := strings.Repeat("a", maxUser)
	for name, c := range map[string]struct {
		ctx  context.Context
		want string
		// denied is part of the error; empty for none.
		denied string
	}{
		"a user":                      {ctx: as(t, "alice"), want: "alice"},
		"the longest name":            {ctx: as(t, long), want: long},
		"one byte more":               {ctx: as(t, long+"@ex.com"), denied: "user.name: your user name has 1031 bytes: it must have at most 1024"},
		"in bytes, not characters":    {ctx: as(t, strings.Repeat("ä", maxUser/2)+"b"), denied: "user.name: your user name has 1025 bytes"},
		"no UTF-8":                    {ctx: as(t, "alice\xff"), denied: "user.name: your user name must be valid UTF-8"},
		"control characters are kept": {ctx: as(t, "alice\t\u202e"), want: "alice\t\u202e"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := requester(c.ctx, "fedora")
			if got != c.want || (err == nil) != (c.denied == "") {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.denied)) {
				t.Errorf("%v, want %q", err, c.denied)
			}
		})
	}
	for name, ctx := range map[string]context.Context{"no user": t.Context(), "an empty name": as(t, "")} {
		if got, err := requester(ctx, "fedora"); got != "" || !apierrors.IsInternalError(err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func as(t *testing.T, name string) context.Context {
	t.Helper()
	return request.WithUser(t.Context(), &user.DefaultInfo{Name: name})
}
