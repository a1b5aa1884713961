package policy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
)

const exceptionsPath = "/apis/policy.virtward.io/v1alpha1/namespaces/team/virtualmachinepolicyexceptions"

// exempt calls policy exempt in the namespace team of a server.
func exempt(t *testing.T, server string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append([]string{"policy", "exempt", "--server", server, "-n", "team"}, args...)...)
}

// status is an answer that rejects a request.
func status(t *testing.T, code int, reason, message string) clitest.Answer {
	t.Helper()
	body, err := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message})
	if err != nil {
		t.Fatal(err)
	}
	return clitest.Answer{Code: code, Body: string(body)}
}

// asked are complete arguments.
var asked = []string{"caps", "limits", "vm/db", "vm/web", "--for", "30d", "--reason", "year's end"}

func TestExemptPrints(t *testing.T) {
	before := time.Now().Truncate(time.Second)
	got := exempt(t, "http://127.0.0.1:1", append([]string{"--dry-run=client", "-o", "yaml", "caps"}, asked...)...)
	e := &policyv1alpha1.VirtualMachinePolicyException{}
	if err := yaml.UnmarshalStrict([]byte(got.Out), e); err != nil || got.Code != clitest.ExitOK {
		t.Fatalf("code %d, %v, errors %q\n%s", got.Code, err, got.ErrOut, got.Out)
	}
	if left := e.Spec.Expires.Sub(before) - 30*24*time.Hour; left < 0 || left > time.Minute {
		t.Errorf("it ends %s too late", left)
	}
	want := fmt.Sprintf(`apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicyException
metadata:
  name: db-caps
  namespace: team
spec:
  expires: %q
  policies:
  - caps
  - limits
  reason: year's end
  virtualMachines:
  - db
  - web
`, e.Spec.Expires.UTC().Format(time.RFC3339))
	if got.Out != want {
		t.Errorf("want\n%s\ngot\n%s", want, got.Out)
	}
}

func TestExemptCreates(t *testing.T) {
	const object = `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyException","metadata":{"name":"db-caps","namespace":"team"}}`
	const ask = "ask an admin to apply what --dry-run=client -o yaml prints\n"
	verb := "virtualmachinepolicyexceptions.policy.virtward.io \"db-caps\" is forbidden: ValidatingAdmissionPolicy 'virtward-policy-exceptions' with binding 'virtward-policy-exceptions' denied request: exception-exempt: spec.policies: you need the verb exempt on virtualmachinepolicies.policy.virtward.io/limits"
	for name, c := range map[string]struct {
		answer      clitest.Answer
		args        []string
		out, errOut string
	}{
		"created":          {answer: clitest.Answer{Code: http.StatusCreated, Body: object}, out: "virtualmachinepolicyexception.policy.virtward.io/db-caps created\n"},
		"its name":         {answer: clitest.Answer{Code: http.StatusCreated, Body: object}, args: []string{"-o", "name"}, out: "virtualmachinepolicyexception.policy.virtward.io/db-caps\n"},
		"without the verb": {answer: status(t, http.StatusForbidden, "Forbidden", verb), errOut: "error: you need the verb exempt on the policy limits: " + ask},
		"without permission in the namespace": {
			answer: status(t, http.StatusForbidden, "Forbidden", `User "ann" cannot create resource`),
			errOut: `error: creating VirtualMachinePolicyException team/db-caps: User "ann" cannot create resource: ` + ask,
		},
		"a name that is taken": {
			answer: status(t, http.StatusConflict, "AlreadyExists", "already exists"),
			errOut: "error: VirtualMachinePolicyException team/db-caps exists already: choose another name with --name, or change it with kubectl edit\n",
		},
		"without Virtward": {answer: status(t, http.StatusNotFound, "NotFound", "the server could not find the requested resource"), errOut: "error: the cluster has no VirtualMachinePolicyException: Virtward is not installed there\n"},
		"in a namespace that does not exist": {
			answer: status(t, http.StatusNotFound, "NotFound", `namespaces "team" not found`),
			errOut: "error: creating VirtualMachinePolicyException team/db-caps: namespaces \"team\" not found\n",
		},
		"too long": {
			answer: status(t, http.StatusUnprocessableEntity, "Invalid", "spec.expires: must be at most 7 days in the future"),
			errOut: "error: creating VirtualMachinePolicyException team/db-caps: spec.expires: must be at most 7 days in the future\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewScripted(t, map[string][]clitest.Answer{"POST " + exceptionsPath: {c.answer}})
			got := exempt(t, s.URL, append(c.args, asked...)...)
			if got.Out != c.out || got.ErrOut != c.errOut || (got.Code == clitest.ExitOK) != (c.errOut == "") {
				t.Errorf("code %d, output %q, errors %q", got.Code, got.Out, got.ErrOut)
			}
			if len(s.Requests) != 1 || !strings.Contains(s.Requests[0], `"policies":["caps","limits"],"reason":"year's end","virtualMachines":["db","web"]`) {
				t.Errorf("requests %q", s.Requests)
			}
		})
	}
	s := clitest.NewScripted(t, map[string][]clitest.Answer{"POST " + exceptionsPath + " dry": {{Code: http.StatusCreated, Body: object}}})
	if got := exempt(t, s.URL, append([]string{"--dry-run=server"}, asked...)...); got.Out != "virtualmachinepolicyexception.policy.virtward.io/db-caps created (server dry run)\n" {
		t.Errorf("output %q, errors %q", got.Out, got.ErrOut)
	}
}

func TestExemptMistakes(t *testing.T) {
	with := func(args ...string) []string { return append(args, "--reason", "r") }
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing":                    {nil, "add the name of a policy"},
		"no virtual machine":         {with("caps", "db", "--for", "1d"), "add the virtual machine as vm/NAME"},
		"no policy":                  {with("vm/db", "--for", "1d"), "add the name of a policy"},
		"another kind":               {with("caps", "vmi/db", "--for", "1d"), `"vmi/db": must be the name of a policy, or vm/NAME`},
		"a wildcard":                 {with("caps", "vm/*", "--for", "1d"), `"vm/*": must be the name of a policy, or vm/NAME`},
		"no reason":                  {[]string{"caps", "vm/db", "--for", "1d", "--reason", " "}, "--reason is required: say why the exception exists"},
		"no time":                    {with("caps", "vm/db"), "--for is required: the time until the exception ends, such as 30d"},
		"a number":                   {with("caps", "vm/db", "--for", "30"), `--for "30": must be a time such as 30d, 2w or 12h`},
		"no time left":               {with("caps", "vm/db", "--for", "0d"), "--for 0d: must be from 1m to 3650d"},
		"a time in the past":         {with("caps", "vm/db", "--for", "-1h"), "--for -1h: must be from 1m to 3650d"},
		"a time without an end":      {with("caps", "vm/db", "--for", "9999w"), "--for 9999w: must be from 1m to 3650d"},
		"an invalid name":            {with("caps", "vm/db", "--for", "2w", "--name", "A b"), `--name "A b": `},
		"an unknown output":          {with("caps", "vm/db", "--for", "12h30m", "-o", "table"), "unknown output"},
		"an unknown kind of dry run": {with("caps", "vm/db", "--for", "1d", "--dry-run=yes"), "unknown value of --dry-run"},
	} {
		t.Run(name, func(t *testing.T) {
			s := clitest.NewScripted(t, nil)
			got := exempt(t, s.URL, c.args...)
			if got.Code == clitest.ExitOK || !strings.Contains(got.ErrOut, c.want) || len(s.Requests) != 0 {
				t.Errorf("code %d, errors %q, requests %q", got.Code, got.ErrOut, s.Requests)
			}
		})
	}
}

func TestExemptCompletes(t *testing.T) {
	kubeconfig := clitest.APIServer(t, map[string]string{
		"/apis/policy.virtward.io/v1alpha1/virtualmachinepolicies": `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyList","items":[{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicy","metadata":{"name":"caps"}},{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicy","metadata":{"name":"limits"}}]}`,
		"/apis/kubevirt.io/v1/namespaces/shop/virtualmachines":     `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineList","items":[{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"}}]}`,
	})
	for words, want := range map[string]string{"": "caps\nlimits\n", "caps ": "limits\nvm/\n", "caps vm/": "vm/db\n"} {
		args := append([]string{"__complete", "policy", "exempt", "--kubeconfig", kubeconfig}, strings.Split(words, " ")...)
		if got := clitest.Call(t, "", args...); !strings.HasPrefix(got.Out, want) {
			t.Errorf("%q: %q", words, got.Out)
		}
	}
}
