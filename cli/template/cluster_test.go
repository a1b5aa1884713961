package template_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/templates"
)

// scripted is an API server that gives the answers of a script, and notes the requests.
type scripted struct{ *clitest.Scripted }

type answer struct {
	code int
	body string
}

func newScripted(t *testing.T, answers map[string][]answer) *scripted {
	t.Helper()
	script := map[string][]clitest.Answer{}
	for key, list := range answers {
		for _, a := range list {
			script[key] = append(script[key], clitest.Answer{Code: a.code, Body: a.body})
		}
	}
	return &scripted{clitest.NewScripted(t, script)}
}

func (s *scripted) call(t *testing.T, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, stdin, append(append([]string{"template"}, args...), "--server", s.URL, "-n", "templates")...)
}

const (
	templatePath = "/apis/template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates"
	requestsPath = "/apis/template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplaterequests"
	approvePath  = "/apis/subresources.template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates/fedora/approve"
	revokePath   = "/apis/subresources.template.kubevirt.io/v1beta1/namespaces/templates/virtualmachinetemplates/fedora/revoke"
)

func TestCreate(t *testing.T) {
	const printed = `apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplateRequest
metadata:
  name: web
  namespace: templates
spec:
  virtualMachineRef:
    name: vm
    namespace: shop
`
	for name, tc := range map[string]struct {
		args   []string
		code   int
		out    string
		errOut string
	}{
		"as the design has it":  {[]string{"web", "--from-vm=shop/vm"}, 0, printed, ""},
		"as virtctl":            {[]string{"--vm-name", "vm", "--vm-namespace", "shop", "--name", "golden"}, 0, strings.Replace(strings.Replace(printed, "name: web", "generateName: vm-", 1), "spec:\n", "spec:\n  templateName: golden\n", 1), ""},
		"of the same namespace": {[]string{"web", "--from-vm", "vm"}, 0, strings.Replace(printed, "namespace: shop", "namespace: templates", 1), ""},
		"everything": {
			[]string{"web", "--from-vm=shop/vm", "--template-name", "golden", "--label", "os=fedora,tier=a", "--ttl", "1h"},
			0,
			strings.Replace(printed, "spec:\n", "spec:\n  templateLabels:\n    os: fedora\n    tier: a\n  templateName: golden\n  ttlSecondsAfterFinished: 3600\n", 1), "",
		},
		"an instancetype":    {[]string{"web", "--from-vm=shop/vm", "--instancetype-policy=Keep"}, 0, strings.Replace(printed, "spec:\n", "spec:\n  instancetypePolicy: Keep\n", 1), ""},
		"a stopped source":   {[]string{"web", "--from-vm=shop/vm", "--source-state=Stopped"}, 0, strings.Replace(printed, "spec:\n", "spec:\n  sourceState: Stopped\n", 1), ""},
		"an unknown state":   {[]string{"web", "--from-vm=shop/vm", "--source-state=Running"}, 2, "", "error: unknown source state \"Running\": the known ones are Any, Quiesced, Stopped\n"},
		"an unknown policy":  {[]string{"web", "--from-vm=shop/vm", "--instancetype-policy=keep"}, 2, "", "error: unknown instancetype policy \"keep\": the known ones are Expand, Keep\n"},
		"at once":            {[]string{"web", "--from-vm=shop/vm", "--ttl", "0s"}, 0, strings.Replace(printed, "spec:\n", "spec:\n  ttlSecondsAfterFinished: 0\n", 1), ""},
		"no machine":         {[]string{"web"}, 2, "", "error: name the virtual machine with --from-vm NAMESPACE/NAME: see kubectl virtward template create --help\n"},
		"two machines":       {[]string{"web", "--from-vm=shop/vm", "--vm-name=vm"}, 2, "", "error: name the virtual machine with --from-vm NAMESPACE/NAME: see kubectl virtward template create --help\n"},
		"two namespaces":     {[]string{"web", "--from-vm=shop/vm", "--vm-namespace=a"}, 2, "", "error: --vm-namespace needs --vm-name: with --from-vm, write NAMESPACE/NAME\n"},
		"a path":             {[]string{"web", "--from-vm=a/b/c"}, 2, "", "error: --from-vm a/b/c: write NAMESPACE/NAME\n"},
		"no name":            {[]string{"web", "--from-vm=shop/"}, 2, "", "error: --from-vm shop/: write NAMESPACE/NAME\n"},
		"no namespace":       {[]string{"web", "--from-vm=/vm"}, 2, "", "error: --from-vm /vm: write NAMESPACE/NAME\n"},
		"half a second":      {[]string{"web", "--from-vm=vm", "--ttl=500ms"}, 2, "", "error: --ttl 500ms: use whole seconds, from 0 to 2147483647\n"},
		"time without watch": {[]string{"web", "--from-vm=vm", "--timeout=5s"}, 2, "", "error: --timeout needs --watch\n"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, nil)
			got := s.call(t, "", append([]string{"create"}, tc.args...)...)
			if got.Code != tc.code || got.Out != tc.out || got.ErrOut != tc.errOut || len(s.Requests) > 0 {
				t.Errorf("code %d, requests %v, output:\n%s\nerrors:\n%s", got.Code, s.Requests, got.Out, got.ErrOut)
			}
		})
	}
}

// requestWith is a request with conditions, each as TYPE STATUS REASON MESSAGE.
func requestWith(t *testing.T, templateName string, conditions ...string) answer {
	t.Helper()
	request := v1beta1.VirtualMachineTemplateRequest{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "templates", UID: "u"}}
	request.APIVersion, request.Kind = "template.kubevirt.io/v1beta1", "VirtualMachineTemplateRequest"
	for _, c := range conditions {
		words := strings.SplitN(c, " ", 4)
		request.Status.Conditions = append(request.Status.Conditions, metav1.Condition{Type: words[0], Status: metav1.ConditionStatus(words[1]), Reason: words[2], Message: words[3]})
	}
	if templateName != "" {
		request.Status.TemplateRef = &v1beta1.TemplateReference{Name: templateName}
	}
	written, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer{http.StatusOK, string(written)}
}

// A watch ends with the capture, and says what happens on the way.
func TestCreateAndWatch(t *testing.T) {
	t.Parallel()
	const working = "Progressing True Snapshotting the snapshot is not ready"
	begun := []string{"Ready False Waiting no template", working, "Completed False Waiting no template"}
	for name, tc := range map[string]struct {
		answers []answer
		args    []string
		code    int
		out     string
		want    []string
	}{
		"complete": {
			[]answer{requestWith(t, ""), requestWith(t, "", begun...), {http.StatusInternalServerError, `{}`}, requestWith(t, "web", "Ready True Reconciled done", "Progressing False Reconciled done", "Completed True Reconciled done")},
			nil, 0, "virtualmachinetemplate.template.kubevirt.io/web\n",
			[]string{"created the request templates/web\n", "Snapshotting: the snapshot is not ready\n", "Reconciled: done\n"},
		},
		"complete by KubeVirt's controller": {
			[]answer{requestWith(t, "web", "Ready True Reconciled done", "Progressing False Reconciled done")}, nil, 0, "virtualmachinetemplate.template.kubevirt.io/web\n", nil,
		},
		"the template exists, and the snapshot too": {
			[]answer{requestWith(t, "web", "Ready True Reconciled done", "Progressing True CleaningUp the snapshot is deleted", "Completed False CleaningUp x"), requestWith(t, "web", "Ready True Reconciled done", "Progressing False Reconciled done", "Completed True Reconciled done")},
			nil, 0, "virtualmachinetemplate.template.kubevirt.io/web\n",
			[]string{"CleaningUp: the snapshot is deleted\n"},
		},
		"failed": {
			[]answer{requestWith(t, "", "Ready False CloneFailed the volume root: no space", "Progressing False CloneFailed failed", "Completed False CloneFailed x")},
			nil, 1, "",
			[]string{"error: the request templates/web: the capture failed: CloneFailed: the volume root: no space\n"},
		},
		"deleted":                  {[]answer{requestWith(t, "", begun...), {http.StatusNotFound, clitest.Forbidden}}, nil, 1, "", []string{"error: the request templates/web: it was deleted\n"}},
		"deleted after it is done": {[]answer{requestWith(t, "web", "Ready True Reconciled done", "Progressing True CleaningUp x", "Completed False CleaningUp x"), {http.StatusNotFound, `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`}}, nil, 0, "virtualmachinetemplate.template.kubevirt.io/web\n", nil},
		"another request":          {[]answer{{http.StatusOK, strings.Replace(requestWith(t, "", begun...).body, `"uid":"u"`, `"uid":"v"`, 1)}}, nil, 1, "", []string{"it was deleted"}},
		"may not read":             {[]answer{{http.StatusForbidden, clitest.Forbidden}}, nil, 1, "", []string{"error: the request templates/web: you may not\n"}},
		"too slow":                 {[]answer{requestWith(t, "", begun...)}, []string{"--timeout", "10ms"}, 1, "", []string{"error: the request templates/web is not complete after 10ms: the capture continues\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(name, "deleted") && tc.code == 1 {
				tc.answers[1].body = `{"kind":"Status","status":"Failure","reason":"NotFound","code":404}`
			}
			s := newScripted(t, map[string][]answer{"POST " + requestsPath: {{http.StatusCreated, requestWith(t, "").body}}, "GET " + requestsPath + "/web": tc.answers})
			got := s.call(t, "", append([]string{"create", "web", "--from-vm=shop/vm", "--watch"}, tc.args...)...)
			if got.Code != tc.code || got.Out != tc.out {
				t.Errorf("code %d, output:\n%s\nerrors:\n%s", got.Code, got.Out, got.ErrOut)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.ErrOut, want) {
					t.Errorf("want %q in:\n%s", want, got.ErrOut)
				}
			}
		})
	}
	denied := newScripted(t, map[string][]answer{"POST " + requestsPath: {{http.StatusForbidden, clitest.Forbidden}}})
	if got := denied.call(t, "", "create", "web", "--from-vm=shop/vm", "--watch"); got.Code != 1 || got.ErrOut != "error: creating the request: you may not\n" {
		t.Errorf("code %d, errors %s", got.Code, got.ErrOut)
	}
}

const (
	digest = "sha256:aaaa"
	review = `{"apiVersion":"subresources.template.kubevirt.io/v1beta1","kind":"TemplateReview","templateRef":{"namespace":"templates","name":"fedora"},"digest":"sha256:aaaa","approved":false`
	// uncovered is a review with everything.
	uncovered = review + `,"approval":{"digest":"sha256:old","approvedBy":"ann","approvedAt":"2026-05-01T10:00:00Z"},"uncovered":[{"path":"spec.virtualMachine.spec.instancetype","reason":"it has no revisionName"}],"objectParameters":["EXTRA"]}`
	// artifact is the source of an imported template, and imported a review with it.
	artifact = `"source":{"kind":"oci","reference":"oci://registry.example.com/db:1","digest":"sha256:cccc","verified":true,"signer":"key 1 of registry.example.com","import":"db"}`
	imported = review + `,` + artifact + `}`
	// fromArtifact describes it.
	fromArtifact = "oci://registry.example.com/db:1@sha256:cccc, signature verified: key 1 of registry.example.com, verified before the import"
	approvedAt   = `"approval":{"digest":"sha256:aaaa","approvedBy":"ann","approvedAt":"2026-05-01T10:00:00Z"`
)

func TestApprove(t *testing.T) {
	const shown = "Template: templates/fedora\nDigest:   sha256:aaaa\nApproved: no\n\nParameters:\n"
	const conflict = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"the digest is sha256:bbbb"}`
	for name, tc := range map[string]struct {
		stdin, review string
		final         answer
		args          []string
		code          int
		out, errOut   string
		sent          string
	}{
		"by its digest":    {"", review + "}", answer{201, review + "}"}, []string{"--digest", digest, "--message", "looks good"}, 0, shown, "approved the template templates/fedora\n", `{"digest":"sha256:aaaa","message":"looks good"}`},
		"with yes":         {"", review + "}", answer{201, review + "}"}, []string{"-y"}, 0, shown, "approved the template templates/fedora\n", `{"digest":"sha256:aaaa"}`},
		"another digest":   {"", review + "}", answer{}, []string{"--digest", "sha256:bbbb"}, 1, shown, "error: the template has the digest sha256:aaaa, and not sha256:bbbb: it has changed since you reviewed it\n", ""},
		"no confirmation":  {"y\n", review + "}", answer{}, nil, 2, shown, "error: add --digest sha256:aaaa or --yes\n", ""},
		"a review only":    {"", review + "}", answer{}, []string{"--review"}, 0, shown, "", ""},
		"approved already": {"", strings.Replace(review, "false", "true", 1) + "}", answer{}, []string{"-y"}, 0, "", "the template templates/fedora is approved already\n", ""},
		"an object":        {"", uncovered, answer{}, []string{"-y"}, 1, "Approved: no; ann approved another digest at 2026-05-01 10:00", "error: the parameters EXTRA can add fields to the virtual machine: acknowledge them with --acknowledge-objects\n", ""},
		"acknowledged":     {"", uncovered, answer{201, uncovered}, []string{"-y", "--acknowledge-objects"}, 0, "An approval does not cover:\nspec.virtualMachine.spec.instancetype   it has no revisionName\n", "approved the template templates/fedora\n", `{"digest":"sha256:aaaa","objectParameters":["EXTRA"]}`},
		"unsigned": {
			"", review + `,"approval":{"digest":"sha256:aaaa","approvedBy":"ann","approvedAt":"2026-05-01T10:00:00Z"},"reason":"the approval does not count: it has no signature"}`,
			answer{201, review + "}"},
			[]string{"-y"},
			0, "Approved: no; the approval does not count: it has no signature\n", "approved the template templates/fedora\n", `{"digest":"sha256:aaaa"}`,
		},
		"it has changed": {"", review + "}", answer{409, conflict}, []string{"-y"}, 1, shown, "error: the template has changed since the review: review it again: approve: the digest is sha256:bbbb\n", `{"digest":"sha256:aaaa"}`},
		"imported": {
			"", imported,
			answer{201, strings.Replace(imported, "false", "true", 1)[:len(imported)-2] + `,` + approvedAt + `,` + artifact + `}}`},
			[]string{"-y"},
			0, "Digest:   sha256:aaaa\nSource:   " + fromArtifact + "; imported by db\nApproved: no\n", "approved the template templates/fedora from " + fromArtifact + "\n", `{"digest":"sha256:aaaa"}`,
		},
		"changed after the import": {
			"", review + `,"sourceReason":"the template was changed after the import db created it",` + strings.Replace(approvedAt, "aaaa", "old", 1) + `,` + artifact + `}}`,
			answer{201, review + `,` + approvedAt + `}}`},
			[]string{"-y"},
			0, "Source:   not known: the template was changed after the import db created it\nApproved: no; ann approved another digest", "approved the template templates/fedora\n", `{"digest":"sha256:aaaa"}`,
		},
		"approved, and the import is gone": {
			"", strings.Replace(review, "false", "true", 1) + `,"sourceReason":"the import db does not exist any more",` + approvedAt + `,` + artifact + `}}`,
			answer{},
			nil, 0,
			"Approved: by ann at 2026-05-01 10:00, from " + fromArtifact + "\n", "the template templates/fedora is approved already\n", "",
		},
		"approved without the source": {
			"", strings.Replace(imported, "false", "true", 1)[:len(imported)-2] + `,` + approvedAt + `}}`,
			answer{},
			nil, 0,
			"Approved: by ann at 2026-05-01 10:00, without a source\n", "the template templates/fedora is approved already\n", "",
		},
		"as JSON":        {"", uncovered, answer{}, []string{"--review", "-o", "json"}, 0, `"digest": "sha256:aaaa"`, "", ""},
		"a long message": {"", "", answer{}, []string{"--message", strings.Repeat("a", 1025)}, 2, "", "error: --message: must have at most 1024 bytes, and has 1025\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, map[string][]answer{
				"POST " + approvePath + " dry": {{http.StatusCreated, tc.review}}, "POST " + approvePath: {tc.final},
				"GET " + templatePath + "/fedora": {{http.StatusOK, templateObject(t, "fedora", nil)}},
			})
			got := s.call(t, tc.stdin, append([]string{"approve", "fedora"}, tc.args...)...)
			if got.Code != tc.code || !strings.Contains(got.Out, tc.out) || got.ErrOut != tc.errOut {
				t.Errorf("code %d, output:\n%s\nerrors:\n%s", got.Code, got.Out, got.ErrOut)
			}
			sent := ""
			for _, r := range s.Requests {
				if body, ok := strings.CutPrefix(r, "POST "+approvePath+" {"); ok {
					sent = "{" + body
				}
			}
			if sent != tc.sent {
				t.Errorf("sent %s, want %s", sent, tc.sent)
			}
		})
	}
}

func TestRevoke(t *testing.T) {
	s := newScripted(t, map[string][]answer{"POST " + revokePath: {{http.StatusCreated, review + "}"}, {http.StatusForbidden, clitest.Forbidden}}})
	if got := s.call(t, "", "revoke", "fedora", "--message", "old"); got.Code != 0 || got.ErrOut != "the template templates/fedora is not approved any more\n" || s.Requests[0] != "POST "+revokePath+` {"message":"old"}` {
		t.Errorf("code %d, errors %s, requests %v", got.Code, got.ErrOut, s.Requests)
	}
	if got := s.call(t, "", "revoke", "fedora"); got.Code != 1 || got.ErrOut != "error: revoke: you may not\n" {
		t.Errorf("code %d, errors %s", got.Code, got.ErrOut)
	}
}

// templateObject is a stored template with a status.
func templateObject(t *testing.T, name string, change func(*v1beta1.VirtualMachineTemplate)) string {
	t.Helper()
	template := &v1beta1.VirtualMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "templates", UID: "u"}}
	template.APIVersion, template.Kind = "template.kubevirt.io/v1beta1", "VirtualMachineTemplate"
	template.Spec.Parameters = []v1beta1.Parameter{{Name: "NAME", Required: true}, {Name: "SIZE", Value: "u1.small"}}
	if change != nil {
		change(template)
	}
	written, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func TestList(t *testing.T) {
	approved := func(edited bool) func(*v1beta1.VirtualMachineTemplate) {
		return func(template *v1beta1.VirtualMachineTemplate) {
			digest, err := templates.Digest(template)
			if err != nil {
				t.Fatal(err)
			}
			template.Status.Approval = &v1beta1.TemplateApproval{Digest: digest, Signature: "v1.1.a"}
			template.Status.Conditions = []metav1.Condition{
				{Type: v1beta1.TemplateReady, Status: metav1.ConditionTrue, Reason: "Ready"}, {Type: v1beta1.TemplateApproved, Status: metav1.ConditionTrue, Reason: "Approved"},
			}
			if edited {
				template.Spec.Message = "new"
				template.Status.Conditions[0].Status, template.Status.Conditions[0].Reason = metav1.ConditionFalse, "VolumeMissing"
			}
		}
	}
	// A forged approval has no signature, or the API server says that its signature is not valid.
	unsigned := func(template *v1beta1.VirtualMachineTemplate) {
		approved(false)(template)
		template.Status.Approval.Signature = ""
	}
	forged := func(template *v1beta1.VirtualMachineTemplate) {
		approved(false)(template)
		template.Status.Conditions[1].Status, template.Status.Conditions[1].Reason = metav1.ConditionFalse, v1beta1.ReasonSignatureInvalid
	}
	listOf := func(next string, items ...string) answer {
		return answer{http.StatusOK, `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplateList","metadata":{"continue":"` + next + `"},"items":[` + strings.Join(items, ",") + `]}`}
	}
	page := func() map[string][]answer {
		return map[string][]answer{"GET " + templatePath: {listOf("more", templateObject(t, "fedora", approved(false)), templateObject(t, "rhel", approved(true))), listOf("", templateObject(t, "win", nil))}}
	}
	const untrusted = "NAME READY APPROVED REQUIRED DESCRIPTION fedora True False (NotSigned) NAME rhel True False (SignatureInvalid) NAME"
	two := map[string][]answer{"GET " + templatePath: {listOf("", templateObject(t, "fedora", unsigned), templateObject(t, "rhel", forged))}}
	if got := newScripted(t, two).call(t, "", "list"); got.Code != 0 || strings.Join(strings.Fields(got.Out), " ") != untrusted {
		t.Errorf("code %d, output:\n%s\nerrors %s", got.Code, got.Out, got.ErrOut)
	}
	const table = "NAME READY APPROVED REQUIRED DESCRIPTION fedora True True NAME rhel False (VolumeMissing) False (changed) NAME win Unknown False NAME"
	if got := newScripted(t, page()).call(t, "", "list"); got.Code != 0 || strings.Join(strings.Fields(got.Out), " ") != table {
		t.Errorf("code %d, output:\n%s\nerrors %s", got.Code, got.Out, got.ErrOut)
	}
	sourced := func(change func(*v1beta1.VirtualMachineTemplate)) func(*v1beta1.VirtualMachineTemplate) {
		return func(template *v1beta1.VirtualMachineTemplate) {
			change(template)
			template.Status.Approval.Source = &v1beta1.TemplateSource{Kind: v1beta1.SourceHTTP, Reference: "https://example.com/db.ova", Import: "db"}
		}
	}
	const wide = "NAME READY APPROVED REQUIRED DESCRIPTION SOURCE fedora True True NAME https://example.com/db.ova, not verified before the import rhel False (VolumeMissing) False (changed) NAME -"
	three := map[string][]answer{"GET " + templatePath: {listOf("", templateObject(t, "fedora", sourced(approved(false))), templateObject(t, "rhel", sourced(approved(true))))}}
	if got := newScripted(t, three).call(t, "", "list", "-o", "wide"); got.Code != 0 || strings.Join(strings.Fields(got.Out), " ") != wide {
		t.Errorf("code %d, output:\n%s\nerrors %s", got.Code, got.Out, got.ErrOut)
	}
	if got := newScripted(t, page()).call(t, "", "list", "-o", "name"); !strings.HasSuffix(got.Out, "virtualmachinetemplate.template.kubevirt.io/win\n") || strings.Count(got.Out, "\n") != 3 {
		t.Errorf("output:\n%s", got.Out)
	}
	var list struct {
		Items []v1beta1.VirtualMachineTemplate
	}
	clitest.Decode(t, json.Unmarshal, newScripted(t, page()).call(t, "", "list", "-o", "json").Out, &list)
	if len(list.Items) != 3 || list.Items[2].Name != "win" {
		t.Errorf("items %+v", list.Items)
	}
	all := map[string][]answer{"GET /apis/template.kubevirt.io/v1beta1/virtualmachinetemplates": {listOf("", templateObject(t, "fedora", nil))}}
	if got := newScripted(t, all).call(t, "", "list", "-A"); !strings.HasPrefix(got.Out, "NAMESPACE") || !strings.Contains(got.Out, "\ntemplates ") {
		t.Errorf("output:\n%s", got.Out)
	}
	if got := newScripted(t, map[string][]answer{"GET " + templatePath: {listOf("")}}).call(t, "", "list"); got.Code != 0 || got.Out != "" || got.ErrOut != "No templates found in templates.\n" {
		t.Errorf("code %d, output %s, errors %s", got.Code, got.Out, got.ErrOut)
	}
	if got := newScripted(t, nil).call(t, "", "list"); got.Code != 1 || !strings.HasPrefix(got.ErrOut, "error: listing the templates: ") {
		t.Errorf("code %d, errors %s", got.Code, got.ErrOut)
	}
}

// The shell completes names of templates of the cluster.
func TestNamesAreCompleted(t *testing.T) {
	body := `{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplateList","metadata":{},"items":[` + templateObject(t, "fedora", nil) + `]}`
	for _, command := range []string{"process", "parameters", "approve", "revoke"} {
		s := newScripted(t, map[string][]answer{"GET " + templatePath: {{http.StatusOK, body}}})
		got := clitest.Call(t, "", "__complete", "template", command, "--server", s.URL, "-n", "templates", "")
		if !strings.HasPrefix(got.Out, "fedora\n") {
			t.Errorf("%s: output %s, errors %s", command, got.Out, got.ErrOut)
		}
	}
}
