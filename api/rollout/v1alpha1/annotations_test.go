package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

func TestRequester(t *testing.T) {
	rollout := &v1alpha1.VirtualMachineRollout{}
	text, err := v1alpha1.Requester{Username: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string][]string{"scopes": {"all"}}}.String()
	if err != nil {
		t.Fatal(err)
	}
	rollout.Annotations = map[string]string{v1alpha1.AnnotationRequester: text}
	got, err := v1alpha1.RequesterOf(rollout)
	want := authenticationv1.UserInfo{Username: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"all"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestRequesterIsUnknown(t *testing.T) {
	for name, s := range map[string]struct{ text, want string }{
		"missing":     {"", "the annotation rollout.virtward.io/requester is missing"},
		"no JSON":     {"alice", "invalid character"},
		"no username": {`{"groups": ["system:masters"]}`, "has no username"},
		"too long":    {`{"username": "` + strings.Repeat("a", v1alpha1.MaxRequester) + `"}`, "has more than 16384 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			rollout := &v1alpha1.VirtualMachineRollout{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRequester: s.text}}}
			if user, err := v1alpha1.RequesterOf(rollout); err == nil || !strings.Contains(err.Error(), s.want) || user.Username != "" || len(user.Groups) > 0 {
				t.Errorf("%+v, error %v", user, err)
			}
		})
	}
	if _, err := (v1alpha1.Requester{Username: "alice", Groups: []string{strings.Repeat("g", v1alpha1.MaxRequester)}}).String(); err == nil {
		t.Error("a requester of any size can be recorded")
	}
}

func TestMark(t *testing.T) {
	mark := v1alpha1.Mark{Rollout: "bigger", UID: "7", Change: "c0ffee"}
	got, err := v1alpha1.MarkOf(map[string]string{v1alpha1.AnnotationRollout: mark.String()})
	if err != nil || got != mark {
		t.Errorf("%+v, error %v", got, err)
	}
	for _, text := range []string{"", "bigger", `{"rollout": 7}`, `{"uid": "` + strings.Repeat("7", 1024) + `"}`} {
		if got, err := v1alpha1.MarkOf(map[string]string{v1alpha1.AnnotationRollout: text}); err == nil || got != (v1alpha1.Mark{}) {
			t.Errorf("%q is the mark %+v", text, got)
		}
	}
}
