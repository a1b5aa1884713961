package webhooks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

const templateServer = "system:serviceaccount:virtward-system:virtward-apiserver"

// ofTemplate is a VM with the annotations that the API of templates sets.
func ofTemplate(requester string) *v1.VirtualMachine {
	vm := build.VMOf(build.VMI("db")).Obj()
	vm.Annotations = map[string]string{"a": "b", "template.kubevirt.io/template": "images/fedora", "template.kubevirt.io/template-digest": "sha256:1", "template.kubevirt.io/requester": requester}
	return vm
}

func by(name string, groups ...string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) {
		r.UserInfo = authenticationv1.UserInfo{Username: name, Groups: groups}
	}
}

// Policies evaluate the user who requested a VM of a template, and only the API of templates can say who it is.
func TestPoliciesSeeTheRequester(t *testing.T) {
	const (
		notAlice = `{validations: [{expression: "requester != 'alice' && request.userInfo.username != 'alice'", message: "not alice"}], enforcement: Deny}`
		others   = `{match: {excludedUsers: [alice]}, validations: [{expression: "false", message: "only alice"}], enforcement: Deny}`
		grouped  = `{match: {excludedGroups: [admins, 'system:masters']}, validations: [{expression: "false", message: "only admins"}], enforcement: Deny}`
		accounts = `{validations: [{expression: "!('system:serviceaccounts:shop' in request.userInfo.groups)", message: "no accounts of shop"}], enforcement: Deny}`
	)
	for name, tc := range map[string]struct {
		policy, sender, requester string
		groups                    []string
		denied                    bool
	}{
		"the requester is denied":                   {policy: notAlice, sender: templateServer, requester: "alice", denied: true},
		"another requester":                         {policy: notAlice, sender: templateServer, requester: "bob"},
		"the annotation of another user is ignored": {policy: notAlice, sender: "bob", requester: "alice"},
		"a user does not become another one":        {policy: others, sender: "bob", requester: "alice", denied: true},
		"an account of the same name does not":      {policy: others, sender: "system:serviceaccount:shop:virtward-apiserver", requester: "alice", denied: true},
		"the requester is excluded":                 {policy: others, sender: templateServer, requester: "alice"},
		"the account's groups are not the user's":   {policy: grouped, sender: templateServer, groups: []string{"admins"}, requester: "alice", denied: true},
		"the groups of a service account":           {policy: accounts, sender: templateServer, requester: "system:serviceaccount:shop:deployer", denied: true},
		"without the annotation, the account":       {policy: others, sender: templateServer, requester: "", denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			v.TemplateServer = templateServer
			under(t, v, tc.policy)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, ofTemplate(tc.requester), by(tc.sender, tc.groups...)))
			if response.Allowed == tc.denied {
				t.Errorf("allowed %v: %q", response.Allowed, complaints(response))
			}
		})
	}
}

// An update is the request of its sender.
func TestUpdatesHaveNoRequester(t *testing.T) {
	v := newValidator(t)
	v.TemplateServer = templateServer
	under(t, v, `{match: {operations: [CREATE, UPDATE], excludedUsers: [alice]}, validations: [{expression: "object.metadata.labels['x'] != 'y'", message: "no"}], enforcement: Deny}`)
	changed := ofTemplate("alice")
	changed.Labels = map[string]string{"x": "y"}
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, changed, update(t, ofTemplate("alice")), by(templateServer))); response.Allowed {
		t.Error("the update is attributed to the requester")
	}
}

// A copy by KubeVirt has no annotations of a template; other users' objects keep theirs, and a guard denies them.
func TestCopiesHaveNoProvenance(t *testing.T) {
	m := newMutator(t)
	for sender, kept := range map[string]bool{"system:serviceaccount:kubevirt:kubevirt-controller": false, "system:serviceaccount:shop:kubevirt-controller": true, "bob": true, templateServer: true} {
		vm := ofTemplate("alice")
		raw, err := json.Marshal(vm)
		if err != nil {
			t.Fatal(err)
		}
		response := answerOf(t, m, reviewOf(t, apikinds.VirtualMachine, vm, by(sender)))
		patched := apply(t, raw, response.Patch)
		var got v1.VirtualMachine
		if err := json.Unmarshal(patched, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"a": "b"}
		if kept {
			want = vm.Annotations
		}
		if diff := cmp.Diff(want, got.Annotations); diff != "" {
			t.Errorf("%s: annotations (-want +got):\n%s", sender, diff)
		}
		if got.Spec.Template.Spec.Architecture == "" && !strings.Contains(string(patched), "architecture") {
			t.Errorf("%s: it is not completed", sender)
		}
	}
}
