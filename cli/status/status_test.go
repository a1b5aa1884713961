package status

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/killswitch"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/cli/printers"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// lists returns the kinds that the checks list.
func lists() map[schema.GroupVersionResource]string {
	all := map[schema.GroupVersionResource]string{}
	for _, k := range [][]string{
		{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"},
		{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"},
		{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"},
		{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"},
		{"apps", "v1", "deployments", "Deployment"},
		{"", "v1", "pods", "Pod"},
		{"", "v1", "secrets", "Secret"},
		{"networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"},
		{"apiregistration.k8s.io", "v1", "apiservices", "APIService"},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"},
		{"policy.virtward.io", "v1alpha1", "rulesettings", "RuleSettings"},
		{"policy.virtward.io", "v1alpha1", "virtualmachinepolicies", "VirtualMachinePolicy"},
		{"policy.virtward.io", "v1alpha1", "virtualmachinepolicyexceptions", "VirtualMachinePolicyException"},
		{"kubevirt.io", "v1", "kubevirts", "KubeVirt"},
		{"cdi.kubevirt.io", "v1beta1", "cdis", "CDI"},
	} {
		all[schema.GroupVersionResource{Group: k[0], Version: k[1], Resource: k[2]}] = k[3] + "List"
	}
	return all
}

// issued is a CA, and a certificate that it signs, in PEM and base64.
type issued struct{ bundle, certificate string }

func issue(t *testing.T, ends time.Time) issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{"virtward-webhook.virt.svc"}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: ends}
	encode := func(of *x509.Certificate) string {
		der, err := x509.CreateCertificate(rand.Reader, of, ca, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return issued{encode(ca), encode(leaf)}
}

// healthy is an installation in which nothing is wrong.
const healthy = `
kind: MutatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: mutate.virtward.io, labels: {app.kubernetes.io/part-of: virtward}}
webhooks: [{name: mutate.virtward.io, clientConfig: {caBundle: BUNDLE, service: {namespace: virt, name: virtward-webhook}}}]
---
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: validate.virtward.io, labels: {app.kubernetes.io/part-of: virtward}}
webhooks:
- {name: virtualmachines.validate.virtward.io, clientConfig: {caBundle: BUNDLE, service: {namespace: virt, name: virtward-webhook}}}
- {name: rulesettings.validate.virtward.io, clientConfig: {caBundle: BUNDLE, service: {namespace: virt, name: virtward-webhook}}}
---
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: virtward-policies, labels: {app.kubernetes.io/part-of: virtward}}
spec: {}
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: virtward-policies, labels: {app.kubernetes.io/part-of: virtward}}
spec: {policyName: virtward-policies}
---
kind: Deployment
apiVersion: apps/v1
metadata: {namespace: virt, name: virtward-webhook, labels: {app.kubernetes.io/part-of: virtward, app.kubernetes.io/component: webhook}}
spec: {replicas: 2, selector: {matchLabels: {app.kubernetes.io/component: webhook}}}
status: {readyReplicas: 2}
---
kind: Pod
apiVersion: v1
metadata: {namespace: virt, name: webhook-a, labels: {app.kubernetes.io/component: webhook}}
spec: {containers: [{name: virtward, ports: [{name: health, containerPort: 8081}]}]}
status: {phase: Running}
---
kind: Pod
apiVersion: v1
metadata: {namespace: virt, name: webhook-b, labels: {app.kubernetes.io/component: webhook}}
spec: {containers: [{name: virtward, ports: [{name: health, containerPort: 8081}]}]}
status: {phase: Running}
---
kind: Secret
apiVersion: v1
metadata: {namespace: virt, name: virtward-webhook-cert, labels: {app.kubernetes.io/part-of: virtward}}
data: {tls.crt: CERTIFICATE}
---
kind: NetworkPolicy
apiVersion: networking.k8s.io/v1
metadata: {namespace: virt, name: virtward-webhook}
spec: {ingress: [{ports: [{port: webhook}], from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}
---
kind: APIService
apiVersion: apiregistration.k8s.io/v1
metadata: {name: v1beta1.subresources.template.kubevirt.io, labels: {app.kubernetes.io/part-of: virtward}}
spec: {caBundle: BUNDLE}
status: {conditions: [{type: Available, status: "True"}]}
---
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: virtualmachinepolicies.policy.virtward.io, labels: {app.kubernetes.io/part-of: virtward, app.kubernetes.io/version: 1.2.3}}
spec: {versions: [{name: v1alpha1, served: true}]}
status: {storedVersions: [v1alpha1], conditions: [{type: Established, status: "True"}]}
---
kind: VirtualMachinePolicy
apiVersion: policy.virtward.io/v1alpha1
metadata: {name: caps, generation: 3}
spec: {enforcement: Deny}
status: {observedGeneration: 3, evaluationErrors: 0, conditions: [{type: Ready, status: "True"}, {type: Evaluated, status: "True"}]}
---
kind: KubeVirt
apiVersion: kubevirt.io/v1
metadata: {namespace: kubevirt, name: kubevirt}
status: {phase: Deployed, observedKubeVirtVersion: v1.9.0}
---
kind: CDI
apiVersion: cdi.kubevirt.io/v1beta1
metadata: {name: cdi}
status: {phase: Deployed, observedVersion: v1.65.0}
`

// bench is a cluster that is not real.
type bench struct {
	*cluster
	fake *fake.FakeDynamicClient
	raws map[string]any // a body, or an error
}

// metricsOfHealthy has no failed call of Virtward.
const metricsOfHealthy = "# HELP x y\n# TYPE apiserver_admission_webhook_fail_open_count counter\n" +
	`apiserver_admission_webhook_fail_open_count{name="other.example.org",type="admit"} 7` + "\n" + `apiserver_request_total{verb="GET"} 5` + "\n"

// newBench returns the healthy installation after texts in it were replaced: pairs of a text and its replacement.
func newBench(t *testing.T, replaced ...string) *bench {
	t.Helper()
	certificate := issue(t, now.AddDate(1, 0, 0))
	text := healthy
	for pair := range slices.Chunk(replaced, 2) {
		if !strings.Contains(text, pair[0]) {
			t.Fatalf("%q is not in the installation", pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[len(pair)-1])
	}
	text = strings.NewReplacer("BUNDLE", certificate.bundle, "CERTIFICATE", certificate.certificate).Replace(text)
	var objects []runtime.Object
	for _, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	b := &bench{fake: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists(), objects...)}
	b.fake.PrependReactor("create", "rulesettings", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		if len(create.CreateOptions.DryRun) != 1 {
			t.Error("the probe is no dry run")
		}
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "RuleSettings"}, "virtward-status-probe", field.ErrorList{field.NotSupported(field.NewPath("spec", "rules").Index(0).Child("rule"), probeRule, []string{"a"})})
	})
	b.raws = map[string]any{
		"/metrics": metricsOfHealthy, "/version": `{"gitVersion":"v1.35.1"}`,
		"/apis": `{"groups":[{"name":"kubevirt.io"},{"name":"instancetype.kubevirt.io"},{"name":"pool.kubevirt.io"},{"name":"cdi.kubevirt.io"}]}`,
		"/api/v1/namespaces/virt/pods/webhook-a:8081/proxy/readyz": "ok", "/api/v1/namespaces/virt/pods/webhook-b:8081/proxy/readyz": "ok",
	}
	b.cluster = &cluster{client: b.fake, now: now, program: "virtward", raw: func(_ context.Context, path string) (io.ReadCloser, error) {
		switch answer := b.raws[path].(type) {
		case string:
			return io.NopCloser(strings.NewReader(answer)), nil
		case error:
			return nil, answer
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}}
	return b
}

// add adds an object.
func (b *bench) add(t *testing.T, text string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	if err := b.fake.Tracker().Add(object); err != nil {
		t.Fatal(err)
	}
}

// lines are the results of a check, or of all, each in a line. It leaves out those that are ok, if there are others.
func (b *bench) lines(t *testing.T, only string) []string {
	t.Helper()
	var all []string
	for _, r := range b.results(t.Context()) {
		if r.Check == "" || r.Subject == "" || r.Message == "" || (r.State == Error || r.State == Warning) && r.Remedy == "" {
			t.Errorf("incomplete: %+v", r)
		}
		if only == "" && r.State != OK || r.Check == only {
			all = append(all, fmt.Sprintf("%s %s %s: %s", r.Check, r.State, r.Subject, r.Message))
		}
	}
	return all
}

// In a healthy installation, everything is ok.
func TestHealthy(t *testing.T) {
	b := newBench(t)
	var out bytes.Buffer
	c := &command{program: options.Program{Streams: genericiooptions.IOStreams{Out: &out}}, output: printers.Table}
	results := b.results(t.Context())
	if err := errors.Join(c.write(&out, results), failure(results), b.installed(t.Context())); err != nil {
		t.Error(err)
	}
	want := `CHECK          STATE   SUBJECT                                                 MESSAGE
switch         ok      MutatingWebhookConfiguration mutate.virtward.io         on
switch         ok      ValidatingWebhookConfiguration validate.virtward.io     on
guards         ok      ValidatingAdmissionPolicy                               1 policy is on
answers        ok      webhook                                                 it answers the API server
processes      ok      virtward-webhook                                        2 of 2 replicas are ready; 2 pods answer
certificates   ok      CA of MutatingWebhookConfiguration mutate.virtward.io   ends at 2036-03-04T12:00:00Z, in 3653 days
certificates   ok      CA of ValidatingWebhookConfiguration validate.virtward.io   ends at 2036-03-04T12:00:00Z, in 3653 days
certificates   ok      Secret virtward-webhook-cert                            ends at 2027-03-04T12:00:00Z, in 365 days
calls          ok      API server                                              no call of Virtward's webhooks failed since its start
apiservices    ok      v1beta1.subresources.template.kubevirt.io               available
definitions    ok      CustomResourceDefinitions                               1 of the release 1.2.3
policies       ok      VirtualMachinePolicies                                  1 policy is active, and none failed in the last 24 hours
exceptions     ok      VirtualMachinePolicyExceptions                          0 are active, and none ends soon
network        ok      NetworkPolicy virt/virtward-webhook                     it limits who can reach the port of the webhook
versions       ok      Kubernetes                                              v1.35.1
versions       ok      KubeVirt                                                v1.9.0; with instancetypes, pools, configuration.hypervisors; without snapshots and restores, clones
versions       ok      CDI                                                     v1.65.0; with DataVolumes and golden images; without uploads
`
	squeeze := func(text string) string {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		return strings.Join(lines, "\n")
	}
	if diff := cmp.Diff(squeeze(want), squeeze(out.String())); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// Each failure is found by its check, and by no other one.
func TestFailures(t *testing.T) {
	const off = "matchConditions: [{name: virtward.io/disabled, expression: 'false'}], "
	const note = `annotations: {virtward.io/disabled: '{"reason":"a test","by":"jane","at":"2026-03-01T12:00:00Z"}'}, `
	const policy = `status: {observedGeneration: 3, evaluationErrors: 0, conditions: [{type: Ready, status: "True"}, {type: Evaluated, status: "True"}]}`
	failing := func(spec string) []string {
		return []string{"spec: {enforcement: Deny}\n" + policy, spec + `
status: {observedGeneration: 3, evaluationErrors: 412, errors: [{field: "spec.validations[0].expression", reason: failed, count: 412, since: 2026-03-04T11:00:00Z, last: 2026-03-04T11:59:00Z}],
  conditions: [{type: Ready, status: "True"}, {type: Evaluated, status: "False", reason: EvaluationErrors}]}`}
	}
	const failed = "412 evaluations failed: spec.validations[0].expression (failed) 412, the last at 2026-03-04T11:59:00Z"
	exception := func(reason string) string {
		return "kind: VirtualMachinePolicyException\napiVersion: policy.virtward.io/v1alpha1\nmetadata: {namespace: shop, name: db}\nstatus: {conditions: [{type: Active, reason: " + reason + ", message: because}]}\n---\nkind: CDI"
	}
	for name, c := range map[string]struct {
		replaced []string
		raws     map[string]any
		create   error
		want     []string
	}{
		"it was switched off": {
			replaced: []string{"{name: mutate.virtward.io, labels", "{" + note + "name: mutate.virtward.io, labels", "clientConfig: {", off + "clientConfig: {", "spec: {}", "spec: {" + strings.TrimSuffix(off, ", ") + "}"},
			want: []string{
				"switch warning MutatingWebhookConfiguration mutate.virtward.io: off: a test, by jane at 2026-03-01T12:00:00Z",
				"switch warning ValidatingWebhookConfiguration validate.virtward.io: off",
				"guards warning ValidatingAdmissionPolicy virtward-policies: off",
			},
		},
		"it was switched off in part": {
			replaced: []string{"{name: virtualmachines.validate.virtward.io, ", "{name: virtualmachines.validate.virtward.io, " + off},
			want:     []string{"switch error ValidatingWebhookConfiguration validate.virtward.io: off in part (1 of 2)"},
		},
		"no webhook validates":        {replaced: []string{"name: validate.virtward.io, labels", "name: other, annotations"}, want: []string{"switch warning ValidatingWebhookConfiguration: Virtward has none: objects are not validated"}},
		"a guard without a binding":   {replaced: []string{"policyName: virtward-policies", "policyName: other"}, want: []string{"guards error ValidatingAdmissionPolicy virtward-policies: it has no binding, so it has no effect"}},
		"no guards":                   {replaced: []string{"kind: ValidatingAdmissionPolicy\napiVersion: admissionregistration.k8s.io/v1\nmetadata: {name: virtward-policies, labels", "kind: ValidatingAdmissionPolicy\napiVersion: admissionregistration.k8s.io/v1\nmetadata: {name: virtward-policies, annotations"}, want: []string{"guards error ValidatingAdmissionPolicy: Virtward has none: there are no guards"}},
		"the webhook does not answer": {create: apierrors.NewInternalError(errors.New(`failed calling webhook "rulesettings.validate.virtward.io": connection refused`)), want: []string{`answers error webhook: Internal error occurred: failed calling webhook "rulesettings.validate.virtward.io": connection refused`}},
		"the webhook is not called":   {create: errAdmitted, want: []string{"answers error webhook: the API server does not call the webhook: it admitted RuleSettings with a rule that does not exist"}},
		"the webhook has no facts":    {create: apierrors.NewServiceUnavailable("virtward could not check this object"), want: []string{"answers error webhook: it answers, but cannot evaluate: virtward could not check this object"}},
		"no replica is ready":         {replaced: []string{"readyReplicas: 2", "readyReplicas: 0"}, want: []string{"processes error virtward-webhook: 0 of 2 replicas are ready; 2 pods answer; the process completes, validates and evaluates objects when users write them"}},
		"one replica is ready":        {replaced: []string{"readyReplicas: 2", "readyReplicas: 1", "name: webhook-b, labels", "name: webhook-b, annotations"}, want: []string{"processes warning virtward-webhook: 1 of 2 replicas are ready; 1 pod answers"}},
		"scaled to 0":                 {replaced: []string{"replicas: 2, selector", "replicas: 0, selector"}, want: []string{"processes warning virtward-webhook: scaled to 0"}},
		"no Deployment":               {replaced: []string{"name: virtward-webhook, labels: {app.kubernetes.io/part-of: virtward, app.kubernetes.io/component", "name: virtward-webhook, labels: {app.kubernetes.io/component"}, want: []string{"processes error Deployments: the namespace virt has no Deployment of Virtward"}},
		"another Deployment": {
			replaced: []string{"name: virtward-webhook, labels: {app.kubernetes.io/part-of: virtward, app.kubernetes.io/component", "name: virtward-other, labels: {app.kubernetes.io/part-of: virtward, app.kubernetes.io/component"},
			want:     []string{"processes error virtward-webhook: the namespace virt has no such Deployment: the process completes, validates and evaluates objects when users write them"},
		},
		"a pod lacks something": {
			raws: map[string]any{"/api/v1/namespaces/virt/pods/webhook-b:8081/proxy/readyz": apierrors.NewInternalError(errors.New("[-]policies failed: readyz check failed"))},
			want: []string{"processes warning virtward-webhook: 2 of 2 replicas are ready; 1 pod answers; pod webhook-b: Internal error occurred: [-]policies failed: readyz check failed"},
		},
		"all pods lack something": {
			raws: map[string]any{
				"/api/v1/namespaces/virt/pods/webhook-a:8081/proxy/readyz": apierrors.NewInternalError(errors.New("a")), "/api/v1/namespaces/virt/pods/webhook-b:8081/proxy/readyz": apierrors.NewInternalError(errors.New("b")),
			},
			want: []string{"processes error virtward-webhook: 2 of 2 replicas are ready; pod webhook-a: Internal error occurred: a; pod webhook-b: Internal error occurred: b; the process completes, validates and evaluates objects when users write them"},
		},
		"a missing CA":   {replaced: []string{"[{name: mutate.virtward.io, clientConfig: {caBundle: BUNDLE, ", "[{name: mutate.virtward.io, clientConfig: {"}, want: []string{"certificates error CA of MutatingWebhookConfiguration mutate.virtward.io: missing: the API server cannot verify the webhook"}},
		"no certificate": {replaced: []string{"tls.crt: CERTIFICATE", "tls.crt: bm9uZQ=="}, want: []string{"certificates error Secret virtward-webhook-cert: there is no certificate"}},
		"calls that failed": {
			raws: map[string]any{"/metrics": metricsOfHealthy + `apiserver_admission_webhook_fail_open_count{name="mutate.virtward.io",type="admit"} 3` + "\n" +
				"# TYPE apiserver_admission_webhook_rejection_count counter\n" +
				`apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="virtualmachines.validate.virtward.io",operation="CREATE"} 1` + "\n" +
				`apiserver_admission_webhook_rejection_count{error_type="no_error",name="virtualmachines.validate.virtward.io",operation="CREATE"} 9` + "\n"},
			want: []string{
				"calls warning mutate.virtward.io: 3 calls failed open since the start of the API server: the webhook did not answer, and the objects were admitted without it",
				"calls warning virtualmachines.validate.virtward.io: 1 request was denied since the start of the API server, because the webhook did not answer",
			},
		},
		"an API that disable removed": {
			replaced: []string{"metadata: {name: mutate.virtward.io, ", `metadata: {name: mutate.virtward.io, annotations: {virtward.io/removed-apiservices: '{"v1alpha1.subresources.template.kubevirt.io": {}}'}, `},
			want:     []string{"apiservices warning v1alpha1.subresources.template.kubevirt.io: removed by disable, because it did not answer"},
		},
		"an API that is not available":         {replaced: []string{`{type: Available, status: "True"}`, `{type: Available, status: "False", reason: FailedDiscoveryCheck, message: no endpoints}`}, want: []string{"apiservices error v1beta1.subresources.template.kubevirt.io: not available: FailedDiscoveryCheck no endpoints"}},
		"a definition with old objects":        {replaced: []string{"storedVersions: [v1alpha1]", "storedVersions: [v1alpha1, v1]"}, want: []string{"definitions warning virtualmachinepolicies.policy.virtward.io: objects can be stored in versions that are not served: v1"}},
		"a definition that is not established": {replaced: []string{`{type: Established, status: "True"}`, `{type: Established, status: "False", reason: NotAccepted}`}, want: []string{"definitions error virtualmachinepolicies.policy.virtward.io: not established: NotAccepted"}},
		"a policy that denies and fails":       {replaced: failing("spec: {enforcement: Deny}"), want: []string{"policies error caps: " + failed + "; the policy denies these requests"}},
		"a policy that warns and fails":        {replaced: failing("spec: {enforcement: Warn}"), want: []string{"policies warning caps: " + failed}},
		"a policy that ignores its failures":   {replaced: failing("spec: {enforcement: Deny, failurePolicy: Ignore}"), want: []string{"policies warning caps: " + failed}},
		"a policy that does not compile": {
			replaced: []string{`[{type: Ready, status: "True"}`, `[{type: Ready, status: "False", reason: CompileFailed, message: "every matching request is denied"}`},
			want:     []string{"policies error caps: CompileFailed: every matching request is denied"},
		},
		"a policy without a status":               {replaced: []string{"generation: 3}", "generation: 4, creationTimestamp: 2026-03-04T11:00:00Z}"}, want: []string{"policies warning caps: it has no status of its last change"}},
		"a new policy":                            {replaced: []string{"generation: 3}", "generation: 4, creationTimestamp: 2026-03-04T11:59:30Z}"}},
		"an exception that ends soon":             {replaced: []string{"kind: CDI", exception("Expiring")}, want: []string{"exceptions warning shop/db: because"}},
		"an exception without effect":             {replaced: []string{"kind: CDI", exception("NotPermitted")}, want: []string{"exceptions warning shop/db: no effect: because"}},
		"an exception of a policy that ends soon": {replaced: []string{"spec: {enforcement: Deny}", "spec: {enforcement: Deny, exceptions: [{reason: a, expires: 2026-03-07T12:00:00Z}, {reason: b}, {reason: c, expires: 2027-03-07T12:00:00Z}]}"}, want: []string{"exceptions warning caps: spec.exceptions[0] ends at 2026-03-07T12:00:00Z"}},
		"all pods reach the webhook":              {replaced: []string{", from: [{ipBlock: {cidr: 10.0.0.0/24}}]", ""}, want: []string{"network warning NetworkPolicy virt/virtward-webhook: it lets all pods reach the port of the webhook"}},
		"no NetworkPolicy":                        {replaced: []string{"kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata: {namespace: virt, name: virtward-webhook}", "kind: NetworkPolicy\napiVersion: networking.k8s.io/v1\nmetadata: {namespace: virt, name: other}"}, want: []string{"network warning NetworkPolicy virt/virtward-webhook: there is none: all pods can reach the port of the webhook"}},
		"an old Kubernetes":                       {raws: map[string]any{"/version": `{"gitVersion":"v1.31.9"}`}, want: []string{"versions error Kubernetes: v1.31.9 is not supported"}},
		"an old KubeVirt":                         {replaced: []string{"v1.9.0", "v1.5.2"}, want: []string{"versions error KubeVirt: v1.5.2 is not supported; with instancetypes, pools; without snapshots and restores, clones, configuration.hypervisors"}},
		"a new KubeVirt":                          {replaced: []string{"v1.9.0", "v1.10.0-rc.0"}, want: []string{"versions warning KubeVirt: v1.10.0-rc.0 is newer than 1.9, the newest that this command knows; with instancetypes, pools, configuration.hypervisors; without snapshots and restores, clones"}},
		"a KubeVirt that is deployed":             {replaced: []string{"phase: Deployed, observedKubeVirtVersion", "phase: Deploying, observedKubeVirtVersion"}, want: []string{`versions warning KubeVirt: v1.9.0; its phase is "Deploying", not Deployed; with instancetypes, pools, configuration.hypervisors; without snapshots and restores, clones`}},
		"no KubeVirt":                             {replaced: []string{"kind: KubeVirt\napiVersion: kubevirt.io/v1", "kind: Other\napiVersion: kubevirt.io/v1"}, want: []string{"versions warning KubeVirt: not installed: no virtual machine runs"}},
		"no CDI":                                  {replaced: []string{"kind: CDI\napiVersion", "kind: Other\napiVersion"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.replaced...)
			maps.Copy(b.raws, c.raws)
			if c.create != nil {
				b.fake.PrependReactor("create", "rulesettings", func(action clienttesting.Action) (bool, runtime.Object, error) {
					if errors.Is(c.create, errAdmitted) {
						return true, action.(clienttesting.CreateActionImpl).Object, nil
					}
					return true, nil, c.create
				})
			}
			if diff := cmp.Diff(c.want, b.lines(t, "")); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			err := failure(b.results(t.Context()))
			if wrong := slices.ContainsFunc(c.want, func(line string) bool { return strings.Fields(line)[1] == string(Error) }); wrong != (err != nil) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// errAdmitted means that the probe is admitted.
var errAdmitted = errors.New("admitted")

// Certificates that end, and those of another CA.
func TestCertificates(t *testing.T) {
	for name, c := range map[string]struct {
		ends  time.Time
		other bool
		want  string
	}{
		"it ended":   {now.Add(-time.Hour), false, "certificates error Secret virtward-webhook-cert: ended at 2026-03-04T11:00:00Z"},
		"it ends":    {now.AddDate(0, 0, 7), false, "certificates warning Secret virtward-webhook-cert: ends at 2026-03-11T12:00:00Z, in 7 days"},
		"another CA": {now.AddDate(1, 0, 0), true, "certificates error Secret virtward-webhook-cert: ends at 2027-03-04T12:00:00Z, in 365 days; no CA bundle verifies it: x509: certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			mine := issue(t, c.ends)
			replaced := []string{"CERTIFICATE", mine.certificate}
			if !c.other {
				replaced = append(replaced, "BUNDLE", mine.bundle)
			}
			got := newBench(t, replaced...).lines(t, "")
			if len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("results %q, want %q", got, c.want)
			}
		})
	}
}

// The policies that denied most are listed first, and at most five.
func TestDenials(t *testing.T) {
	var more strings.Builder
	for i := range 7 {
		fmt.Fprintf(&more, "kind: VirtualMachinePolicy\napiVersion: policy.virtward.io/v1alpha1\nmetadata: {name: p%d}\nspec: {enforcement: Deny}\nstatus: {denials: {count: %d, since: 2026-03-04T11:00:00Z, last: 2026-03-04T11:59:00Z}, conditions: [{type: Ready, status: 'True'}]}\n---\n", i, i+1)
	}
	got := newBench(t, "kind: CDI", more.String()+"kind: CDI").lines(t, "denials")
	if len(got) != 5 || got[0] != "denials ok p6: 7 requests denied since 2026-03-04T11:00:00Z, the last at 2026-03-04T11:59:00Z" || !strings.HasPrefix(got[4], "denials ok p2: 3 requests") {
		t.Errorf("results %q", got)
	}
}

// What the rights do not permit is unknown, and the message names the right. Nothing of it is an error.
func TestRights(t *testing.T) {
	b := newBench(t)
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("you may not"))
	}
	for _, verb := range []string{"list", "get", "create"} {
		b.fake.PrependReactor(verb, "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, forbidden(action.GetResource().Resource)
		})
	}
	for path := range b.raws {
		b.raws[path] = forbidden("paths")
	}
	want := []string{
		"switch unknown MutatingWebhookConfiguration: not permitted: list mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"switch unknown ValidatingWebhookConfiguration: not permitted: list validatingwebhookconfigurations.admissionregistration.k8s.io",
		"guards unknown ValidatingAdmissionPolicy: not permitted: list validatingadmissionpolicies.admissionregistration.k8s.io",
		"answers unknown webhook: not permitted: create rulesettings.policy.virtward.io",
		"processes unknown Deployments: not permitted: list deployments.apps in the namespace virtward-system",
		"certificates unknown CA of MutatingWebhookConfiguration: not permitted: list mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"certificates unknown CA of ValidatingWebhookConfiguration: not permitted: list validatingwebhookconfigurations.admissionregistration.k8s.io",
		"certificates unknown serving certificates: not permitted: list secrets in the namespace virtward-system",
		"calls unknown API server: not permitted: get /metrics",
		"apiservices unknown APIServices: not permitted: list apiservices.apiregistration.k8s.io",
		"definitions unknown CustomResourceDefinitions: not permitted: list customresourcedefinitions.apiextensions.k8s.io",
		"policies unknown VirtualMachinePolicies: not permitted: list virtualmachinepolicies.policy.virtward.io",
		"exceptions unknown VirtualMachinePolicyExceptions: not permitted: list virtualmachinepolicyexceptions.policy.virtward.io",
		"network unknown NetworkPolicies: not permitted: list mutatingwebhookconfigurations.admissionregistration.k8s.io",
		`versions unknown Kubernetes: cannot read the version: paths is forbidden: you may not`,
		"versions unknown KubeVirt: not permitted: list kubevirts.kubevirt.io",
		"versions unknown CDI: not permitted: list cdis.cdi.kubevirt.io",
	}
	if diff := cmp.Diff(want, b.lines(t, "")); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if err := errors.Join(failure(b.results(t.Context())), b.installed(t.Context())); err != nil {
		t.Errorf("missing rights are no failure: %v", err)
	}
}

// A user who cannot ask the pods learns it, and sees what the Deployments say.
func TestPodsThatCannotBeAsked(t *testing.T) {
	b := newBench(t)
	for path := range b.raws {
		if strings.Contains(path, "/proxy/") {
			b.raws[path] = apierrors.NewForbidden(schema.GroupResource{Resource: "pods/proxy"}, "", errors.New("no"))
		}
	}
	want := []string{"processes ok virtward-webhook: 2 of 2 replicas are ready; not all pods were called: not permitted: get pods/proxy in the namespace virt"}
	if diff := cmp.Diff(want, b.lines(t, "processes")); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestNotInstalled(t *testing.T) {
	b := &bench{cluster: &cluster{client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists())}}
	if err := b.installed(t.Context()); err == nil || err.Error() != killswitch.NotInstalled().Error() {
		t.Errorf("error %v", err)
	}
}

// Virt-operator can serve VM templates instead. Then a switch deletes all templates.
func TestTemplatesOfVirtOperator(t *testing.T) {
	for manager, foreign := range map[string]bool{"virt-operator": true, "Helm": false} {
		definition := "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: virtualmachinetemplates.template.kubevirt.io, labels: {app.kubernetes.io/managed-by: " + manager + "}}\n---\nkind: CDI"
		got := newBench(t, "kind: CDI", definition).lines(t, "templates")
		const want = "templates ok virt-operator: Virtward does not serve VM templates, because virt-operator manages CustomResourceDefinition virtualmachinetemplates.template.kubevirt.io"
		if (len(got) == 1 && got[0] == want) != foreign || len(got) > 0 != foreign {
			t.Errorf("managed by %s: %q", manager, got)
		}
	}
}

// --watch prints the results again only if they differ.
func TestWatch(t *testing.T) {
	var out bytes.Buffer
	c := &command{program: options.Program{Streams: genericiooptions.IOStreams{Out: &out}}, output: printers.Table, interval: time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	err := c.follow(ctx, func() ([]Result, error) {
		reads++
		r := Result{Check: "switch", Subject: "a", State: OK, Message: "on"}
		if reads > 3 {
			r.State, r.Message, r.Remedy = Error, "off in part", "enable"
		}
		if reads == 6 {
			cancel()
		}
		return []Result{r}, nil
	})
	if err == nil || err.Error() != "1 thing is wrong" {
		t.Errorf("error %v", err)
	}
	if n := strings.Count(out.String(), "CHECK"); n != 2 || !strings.Contains(out.String(), "To do:\n  switch a: enable\n") {
		t.Errorf("%d tables:\n%s", n, &out)
	}
}

// The documents in JSON and YAML have the worst state.
func TestDocuments(t *testing.T) {
	results := []Result{{"a", "b", OK, "c", ""}, {"d", "e", Warning, "f", "g"}, {"h", "i", Unknown, "j", ""}}
	for output, want := range map[string]string{
		printers.JSON: `"state": "warning"`,
		printers.YAML: "- check: d\n  message: f\n  remedy: g\n  state: warning\n  subject: e\n",
	} {
		var out bytes.Buffer
		c := &command{output: output}
		if err := c.write(&out, results); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// Metrics that are not those of an API server are an error, and not endless.
func TestMetrics(t *testing.T) {
	if _, err := metricsOf(strings.NewReader(failOpen+"{name=\"a.virtward.io\"} none\n"), failOpen); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("error %v", err)
	}
	if _, err := metricsOf(strings.NewReader(strings.Repeat("x", 2*maxLine)), failOpen); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("error %v", err)
	}
	endless := io.MultiReader(strings.NewReader(failOpen+"{"), strings.NewReader(strings.Repeat("x\n"+failOpen+"{", maxSamples/len(failOpen))))
	if _, err := metricsOf(endless, failOpen); err == nil || !strings.Contains(err.Error(), "more than 4 MiB") {
		t.Errorf("error %v", err)
	}
}

// An API server that is not to be trusted controls no terminal, and prints no endless list.
func TestHostile(t *testing.T) {
	const namespace = "a\x1b[2J\r\nb"
	b := newBench(t, "kind: CDI", `kind: VirtualMachinePolicyException
apiVersion: policy.virtward.io/v1alpha1
metadata: {namespace: "a\x1b[2J\r\nb", name: "db\x1b]0;x\a"}
status: {conditions: [{type: Active, reason: NotPermitted, message: "c\x1b[2J"}]}
---
kind: CDI`)
	for i := range 3 * maxResults {
		b.add(t, fmt.Sprintf(`{kind: VirtualMachinePolicy, apiVersion: policy.virtward.io/v1alpha1, metadata: {name: p%03d}, spec: {enforcement: Deny},
  status: {conditions: [{type: Ready, status: "False", reason: "x\x1b[2J", message: %s}]}}`, i, strings.Repeat("m", 2*maxMessage)))
	}
	results := b.results(t.Context())
	var out bytes.Buffer
	for _, output := range []string{printers.Table, printers.JSON, printers.YAML} {
		if err := (&command{output: output}).write(&out, results); err != nil {
			t.Fatal(err)
		}
	}
	if strings.ContainsAny(out.String(), "\x1b\r\a") || strings.Contains(out.String(), namespace) {
		t.Errorf("control characters in\n%q", &out)
	}
	var last Result
	found := 0
	for _, r := range results {
		if len(r.Message) > maxMessage || len(r.Subject) > maxMessage || len(r.Remedy) > maxMessage {
			t.Errorf("too long: %+v", r)
		}
		if r.Check == "policies" {
			last = r
			found++
		}
	}
	if want := (Result{"policies", "others", Error, "201 results are not shown", "kubectl describe vmpol p299"}); found != maxResults || last != want {
		t.Errorf("%d results, the last one %+v", found, last)
	}
}
