package policies_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// TestAuthors: policies that read the request are evaluated with the author of a VM that KubeVirt creates or restores. Others are
// evaluated with KubeVirt's account.
func TestAuthors(t *testing.T) {
	const (
		inCEL = "enforcement: Deny\nvalidations: [{expression: \"requester == 'jane' && request.userInfo.username == 'jane' && 'admins' in request.userInfo.groups\", message: only jane}]"
		inOPA = `
enforcement: Deny
rego:
  module: |
    package authors
    deny contains "only jane" if input.requester != "jane"
    deny contains "only admins" if not "admins" in input.request.userInfo.groups
`
		denied  = "Deny spec: Forbidden: only jane [virtward/policy/p]"
		unknown = " spec: Internal error: the policy reads the request, and the author of the virtual machine is not known: it is a secret [virtward/policy/p] Create the VirtualMachineRestore or the VirtualMachineClone again."
	)
	jane := &cel.Author{User: authenticationv1.UserInfo{Username: "jane", Groups: []string{"admins"}}}
	mallory := &cel.Author{User: authenticationv1.UserInfo{Username: "mallory", Groups: []string{"admins"}}}
	nameless := &cel.Author{Unknown: "it is a secret"}
	for name, tc := range map[string]struct {
		policy string
		author *cel.Author
		change func(*cel.Documents)
		want   []string
	}{
		"no author to know":            {inCEL, nil, nil, nil},
		"the right author":             {inCEL, jane, nil, nil},
		"another author":               {inCEL, mallory, nil, []string{denied}},
		"an unknown author":            {inCEL, nameless, nil, []string{"Deny" + unknown}},
		"in Rego, the right author":    {inOPA, jane, nil, nil},
		"in Rego, another author":      {inOPA, mallory, nil, []string{denied}},
		"in Rego, an unknown author":   {inOPA, nameless, nil, []string{"Deny" + unknown}},
		"a policy that fails open":     {"failurePolicy: Ignore\n" + inCEL, nameless, nil, []string{"Warn" + unknown}},
		"an excluded author":           {"match: {excludedUsers: [mallory]}\n" + inCEL, mallory, nil, nil},
		"another namespace":            {"match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}}\n" + inCEL, nameless, nil, nil},
		"an exempted namespace":        {"exceptions: [{namespaces: [default], reason: r}]\n" + inCEL, nameless, nil, nil},
		"kube-system":                  {inCEL, nameless, func(d *cel.Documents) { d.Request.Namespace = "kube-system" }, nil},
		"the author of a user's VM":    {inCEL, jane, func(d *cel.Documents) { d.Requester, d.Request.UserInfo.Username = "eve", "eve" }, []string{denied}},
		"another operation":            {"match: {operations: [UPDATE]}\n" + inCEL, mallory, nil, nil},
		"a policy without the request": {never, mallory, nil, []string{"Deny spec.template.spec.domain: Invalid value: never [virtward/policy/p]"}},
		"an author, and a condition on the request": {
			"match: {matchConditions: [{name: a, expression: \"request.userInfo.username == 'mallory'\"}]}\n" + never, mallory, nil,
			[]string{"Deny spec.template.spec.domain: Invalid value: never [virtward/policy/p]"},
		},
		"a restore in place": {"match: {operations: [UPDATE]}\n" + inCEL, mallory, func(d *cel.Documents) { d.Request.Operation, d.OldObject = "UPDATE", d.Object }, []string{denied}},
	} {
		t.Run(name, func(t *testing.T) {
			set := policies.NewSet("virtward-system", compile(t, "p", tc.policy))
			d := vm(t, build.VMI("db"))
			d.Requester, d.Author = "system:serviceaccount:kubevirt:kubevirt-controller", tc.author
			d.Request.UserInfo = authenticationv1.UserInfo{Username: d.Requester, Groups: []string{"system:serviceaccounts"}}
			if tc.change != nil {
				tc.change(d)
			}
			wantSaid(t, set.Evaluate(d, noon), tc.want...)
		})
	}
	t.Run("both kinds of policies", func(t *testing.T) {
		set := policies.NewSet("", compile(t, "a", inCEL), compile(t, "b", never))
		d := vm(t, build.VMI("db"))
		d.Requester, d.Author = "system:serviceaccount:kubevirt:kubevirt-controller", mallory
		d.Request.UserInfo.Username = d.Requester
		wantSaid(t, set.Evaluate(d, noon),
			"Deny spec: Forbidden: only jane [virtward/policy/a]", "Deny spec.template.spec.domain: Invalid value: never [virtward/policy/b]")
	})
}
