package webhooks

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// rolloutRequest is a request of alice. Without old, it is a create.
func rolloutRequest(old, object string) *admissionv1.AdmissionRequest {
	request := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)), Operation: admissionv1.Create, Namespace: "shop",
		Object:   runtime.RawExtension{Raw: []byte(object)},
		UserInfo: authenticationv1.UserInfo{Username: "alice", UID: "1", Groups: []string{"dev", "<&>"}, Extra: map[string]authenticationv1.ExtraValue{"b": {"1"}, "a": nil}},
	}
	if old != "" {
		request.Operation, request.OldObject.Raw = admissionv1.Update, []byte(old)
	}
	return request
}

const (
	alice = `{"username":"alice","uid":"1","groups":["dev","<&>"],"extra":{"a":[],"b":["1"]}}`
	bob   = `{"username":"bob"}`
)

// recordedIn is a rollout with a spec and a record.
func recordedIn(record, spec string) string {
	text, _ := json.Marshal(record)
	return `{"metadata":{"name":"r","annotations":{"a":"b","` + v1alpha1.AnnotationRequester + `":` + string(text) + `}},"spec":` + spec + `}`
}

func TestRequesterIsRecorded(t *testing.T) {
	const plain = `{"metadata":{"name":"r"},"spec":{"selector":{}}}`
	for name, c := range map[string]struct {
		old, object, want string
		unchanged         bool
	}{
		"a create":                         {object: plain, want: alice},
		"a create with annotations":        {object: `{"metadata":{"name":"r","annotations":{"x":"y"}},"spec":{"selector":{}}}`, want: alice},
		"a create with null annotations":   {object: `{"metadata":{"name":"r","annotations":null},"spec":{"selector":{}}}`, want: alice},
		"a copy of another one":            {object: recordedIn(bob, `{"selector":{}}`), want: alice},
		"a create with the record":         {object: recordedIn(alice, `{"selector":{}}`), want: alice, unchanged: true},
		"a change of the spec":             {old: recordedIn(bob, `{"selector":{}}`), object: recordedIn(bob, `{"selector":{},"maxFailures":1}`), want: alice},
		"a change of the patch":            {old: recordedIn(bob, `{"selector":{},"patch":{"a":1}}`), object: recordedIn(bob, `{"selector":{},"patch":{"a":2}}`), want: alice},
		"the same patch, in another order": {old: recordedIn(bob, `{"selector":{},"patch":{"a":1,"b":{}}}`), object: recordedIn(bob, `{"selector":{},"patch":{"b": {}, "a":1}}`), want: bob, unchanged: true},
		"a pause":                          {old: recordedIn(bob, `{"selector":{}}`), object: recordedIn(bob, `{"selector":{},"paused":true}`), want: bob, unchanged: true},
		"a pause with a record":            {old: recordedIn(bob, `{"selector":{}}`), object: recordedIn(alice, `{"selector":{},"paused":true}`), want: bob},
		"a pause with another change":      {old: recordedIn(bob, `{"selector":{}}`), object: recordedIn(bob, `{"selector":{},"paused":true,"resume":1}`), want: alice},
		"a continuation":                   {old: recordedIn(bob, `{"selector":{},"paused":true}`), object: recordedIn(bob, `{"selector":{},"paused":false}`), want: alice},
		"only metadata, without a record":  {old: recordedIn(bob, `{"selector":{}}`), object: plain, want: bob},
		"only metadata, with a record":     {old: recordedIn(bob, `{"selector":{}}`), object: recordedIn(alice, `{"selector":{}}`), want: bob},
		"an old one without a record":      {old: plain, object: recordedIn(alice, `{"selector":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			request := rolloutRequest(c.old, c.object)
			response, _ := NewMutator(Mutator{}).respond(t.Context(), request)
			if !response.Allowed || len(response.Warnings) > 0 || (response.Patch == nil) != c.unchanged {
				t.Fatalf("%+v", response)
			}
			object := request.Object.Raw
			if response.Patch != nil {
				patch, err := jsonpatch.DecodePatch(response.Patch)
				if err == nil {
					object, err = patch.Apply(object)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			patched := &v1alpha1.VirtualMachineRollout{}
			if err := json.Unmarshal(object, patched); err != nil {
				t.Fatal(err)
			}
			if got := patched.Annotations[v1alpha1.AnnotationRequester]; got != c.want {
				t.Errorf("record %s, want %s", got, c.want)
			}
			if strings.Contains(c.object, `"a":"b"`) && patched.Annotations["a"] != "b" {
				t.Errorf("annotations %v", patched.Annotations)
			}
		})
	}
}

// A user who cannot be recorded gets a warning, and the guard denies the request.
func TestRequesterWithManyGroups(t *testing.T) {
	request := rolloutRequest("", `{"metadata":{"name":"r"},"spec":{"selector":{}}}`)
	request.UserInfo.Groups = []string{strings.Repeat("x", v1alpha1.MaxRequester)}
	response, verdict := NewMutator(Mutator{}).respond(t.Context(), request)
	const want = "virtward could not record the requester: the user, its groups and its extra values have more than 16384 bytes"
	if !response.Allowed || response.Patch != nil || verdict != verdictFailed || len(response.Warnings) != 1 || response.Warnings[0] != want {
		t.Errorf("%s: %+v", verdict, response)
	}
}
