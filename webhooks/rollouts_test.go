package webhooks

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/test/build"
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
			response, _ := NewMutator(Mutator{}).respond(t.Context(), &review{request: request})
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
	response, verdict := NewMutator(Mutator{}).respond(t.Context(), &review{request: request})
	const want = "virtward could not record the requester: the user, its groups and its extra values have more than 16384 bytes"
	if !response.Allowed || response.Patch != nil || verdict != verdictFailed || len(response.Warnings) != 1 || response.Warnings[0] != want {
		t.Errorf("%s: %+v", verdict, response)
	}
}

// Policies evaluate the requester of the rollout that changes a VM. Only a mark that the controller writes names it.
func TestPoliciesSeeTheRequesterOfARollout(t *testing.T) {
	const (
		controller = "system:serviceaccount:virtward-system:virtward-rollouts"
		onlyAlice  = `{match: {operations: [UPDATE], excludedUsers: [alice]}, validations: [{expression: "object.spec.template.spec.hostname != 'new'", message: "only alice"}], enforcement: Deny}`
		onlyDev    = `{match: {operations: [UPDATE], excludedGroups: [dev]}, validations: [{expression: "object.spec.template.spec.hostname != 'new'", message: "only dev"}], enforcement: Deny}`
	)
	rollout := func(name, uid, record string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
		object.SetNamespace("default")
		object.SetName(name)
		object.SetUID(types.UID(uid))
		if record != "" {
			object.SetAnnotations(map[string]string{v1alpha1.AnnotationRequester: record})
		}
		return object
	}
	objects := []*unstructured.Unstructured{rollout("first", "1", alice), rollout("other", "2", bob), rollout("unknown", "3", "")}
	mark := func(name, uid string) string { return v1alpha1.Mark{Rollout: name, UID: types.UID(uid)}.String() }
	for name, c := range map[string]struct {
		policy, sender, before, mark string
		denied, failed               bool
	}{
		"the requester":                       {policy: onlyAlice, mark: mark("first", "1")},
		"the requester's groups":              {policy: onlyDev, mark: mark("first", "1")},
		"another mark before":                 {policy: onlyAlice, before: mark("other", "2"), mark: mark("first", "1")},
		"another requester":                   {policy: onlyAlice, mark: mark("other", "2"), denied: true},
		"a rollout of the same name":          {policy: onlyAlice, mark: mark("first", "9"), denied: true},
		"no such rollout":                     {policy: onlyAlice, mark: mark("none", "1"), denied: true},
		"no mark":                             {policy: onlyAlice, denied: true},
		"a mark that was there before":        {policy: onlyAlice, before: mark("first", "1"), mark: mark("first", "1"), denied: true},
		"no JSON":                             {policy: onlyAlice, mark: "first", denied: true},
		"a user who writes the mark":          {policy: onlyAlice, sender: "bob", mark: mark("first", "1"), denied: true},
		"an account of the same name":         {policy: onlyAlice, sender: "system:serviceaccount:shop:virtward-rollouts", mark: mark("first", "1"), denied: true},
		"a rollout whose requester is absent": {policy: onlyAlice, mark: mark("unknown", "3"), failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, objects...)
			v.RolloutController = controller
			under(t, v, c.policy)
			marked := func(text, hostname string) *v1.VirtualMachine {
				vm := build.VM("db").Obj()
				vm.Spec.Template.Spec.Hostname = hostname
				if text != "" {
					vm.Annotations = map[string]string{v1alpha1.AnnotationRollout: text}
				}
				return vm
			}
			if c.sender == "" {
				c.sender = controller
			}
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, marked(c.mark, "new"), update(t, marked(c.before, "old")), by(c.sender)))
			if failed := response.Result != nil && response.Result.Code == http.StatusServiceUnavailable; failed != c.failed || response.Allowed == (c.denied || c.failed) {
				t.Errorf("allowed %v, %+v", response.Allowed, response.Result)
			}
		})
	}
}
