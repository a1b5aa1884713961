package copies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

func TestRecords(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	extra := map[string]authenticationv1.ExtraValue{"example.org/scopes": {`a"b\c`}, "zone": {}}
	for name, tc := range map[string]struct {
		source  Source
		user    authenticationv1.UserInfo
		text    string
		failure string
	}{
		"a user":              {Source{}, authenticationv1.UserInfo{Username: "jane"}, `{"username":"jane"}`, ""},
		"with a snapshot":     {Source{"u-1", digest}, authenticationv1.UserInfo{Username: "jane", UID: "1", Groups: []string{"a", "<b>"}}, `{"snapshot":"u-1","content":"` + digest + `","username":"jane","uid":"1","groups":["a","<b>"]}`, ""},
		"extra values":        {Source{}, authenticationv1.UserInfo{Username: `j"\`, Extra: extra}, `{"username":"j\"\\","extra":{"example.org/scopes":["a\"b\\c"],"zone":[]}}`, ""},
		"a line break":        {Source{}, authenticationv1.UserInfo{Username: "a\nb"}, "", "control characters"},
		"a line separator":    {Source{}, authenticationv1.UserInfo{Username: "jane", Groups: []string{"a\u2028"}}, "", "control characters"},
		"a key with a quote":  {Source{}, authenticationv1.UserInfo{Username: "jane", Extra: map[string]authenticationv1.ExtraValue{`a"b`: {"x"}}}, "", "of the user's extra values has other characters"},
		"a user of 16KiB":     {Source{}, authenticationv1.UserInfo{Username: strings.Repeat("a", 16<<10)}, "", "more than 16384 bytes"},
		"a text that escapes": {Source{}, authenticationv1.UserInfo{Username: `a\nb`}, `{"username":"a\\nb"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Record{Source: tc.source, Requester: v1alpha1.RequesterFrom(tc.user)}.Text()
			if text != tc.text || (err == nil) != (tc.failure == "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Fatalf("text %q, error %v", text, err)
			}
			if tc.failure != "" {
				return
			}
			read, err := RecordOf(map[string]string{AnnotationAuthor: text})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.user, read.User()); diff != "" || read.Source != tc.source {
				t.Errorf("source %v, user (-want +got):\n%s", read.Source, diff)
			}
		})
	}
}

func TestUnreadableRecords(t *testing.T) {
	for text, failure := range map[string]string{
		"": "is missing", "{": "cannot be read", "[]": "cannot be read", "{}": "has no username", `{"username":7}`: "cannot be read",
		`{"username":"` + strings.Repeat("a", 16<<10) + `"}`: "more than 16384 bytes",
	} {
		if _, err := RecordOf(map[string]string{AnnotationAuthor: text}); err == nil || !strings.Contains(err.Error(), failure) {
			t.Errorf("%.20q: error %v, not %s", text, err, failure)
		}
	}
}

func TestRestoreOf(t *testing.T) {
	const uid = "6a1a24a1-4061-4607-8bf4-a3963d0c5895"
	for text, want := range map[string]string{"back-" + uid: "back", "tmp-restore-" + uid + "-" + uid: "tmp-restore-" + uid, "-" + uid: "", uid: "", "": "", "back": "", "back+" + uid: ""} {
		name, got, ok := RestoreOf(text)
		if name != want || ok != (want != "") || ok && string(got) != uid {
			t.Errorf("%s: %q, %q, %v", text, name, got, ok)
		}
	}
}

func TestDigests(t *testing.T) {
	one, err := DigestOf(map[string]any{"a": "1", "b": []any{int64(1)}})
	if err != nil || !strings.HasPrefix(one, "sha256:") || len(one) != 71 {
		t.Fatalf("%s, %v", one, err)
	}
	same, _ := DigestOf(map[string]any{"b": []any{int64(1)}, "a": "1"})
	other, _ := DigestOf(map[string]any{"a": "1", "b": []any{int64(2)}})
	if same != one || other == one {
		t.Errorf("%s, %s, %s", one, same, other)
	}
}
