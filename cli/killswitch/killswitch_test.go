package killswitch

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/policies/export"
)

const existing = "not-being-deleted"

// installation are the objects that a cluster with Virtward has, and one that is not Virtward's.
func installation(extra ...runtime.Object) []runtime.Object {
	labels := metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/part-of": "virtward"}}
	named := func(name string) metav1.ObjectMeta {
		meta := *labels.DeepCopy()
		meta.Name = name
		return meta
	}
	calls := admissionv1.WebhookClientConfig{
		Service:  &admissionv1.ServiceReference{Namespace: "virtward-system", Name: "virtward-webhook"},
		CABundle: []byte("bundle"),
	}
	conditions := []admissionv1.MatchCondition{{Name: existing, Expression: "!has(object.metadata.deletionTimestamp)"}}
	return append([]runtime.Object{
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: named("mutate.virtward.io"),
			Webhooks:   []admissionv1.MutatingWebhook{{Name: "mutate.virtward.io", ClientConfig: calls}},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: named("validate.virtward.io"),
			Webhooks: []admissionv1.ValidatingWebhook{
				{Name: "virtualmachines.validate.virtward.io", ClientConfig: calls, MatchConditions: conditions},
				{Name: "rulesettings.validate.virtward.io", ClientConfig: calls},
			},
		},
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: named("virtward-policies"),
			Spec:       admissionv1.ValidatingAdmissionPolicySpec{MatchConditions: conditions},
		},
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{
			Name: "virtward-exported", Labels: map[string]string{export.ManagedBy: export.Manager},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: named("virtward-policies"),
			Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "virtward-policies"},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "virt-api-validator"},
			Webhooks:   []admissionv1.ValidatingWebhook{{Name: "validator.kubevirt.io"}},
		},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "virtward-system", Name: "virtward-webhook"}},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "virtward-system", Name: "virtward-webhook-1",
				Labels: map[string]string{discoveryv1.LabelServiceName: "virtward-webhook"},
			},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		},
	}, extra...)
}

// bench is a Switch on a cluster that is not real, and what it printed.
type bench struct {
	*Switch
	fake        *fake.FakeDynamicClient
	out, errOut bytes.Buffer
}

// kinds are those of Kubernetes, and APIService.
func kinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	all := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(all); err != nil {
		t.Fatal(err)
	}
	all.AddKnownTypeWithName(APIServices.GroupVersion().WithKind("APIService"), &unstructured.Unstructured{})
	all.AddKnownTypeWithName(APIServices.GroupVersion().WithKind("APIServiceList"), &unstructured.UnstructuredList{})
	return all
}

func newBench(t *testing.T, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{fake: fake.NewSimpleDynamicClient(kinds(t), objects...)}
	b.fake.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		review := &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{
			UserInfo: authenticationv1.UserInfo{Username: "jane"},
		}}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(review)
		return true, &unstructured.Unstructured{Object: fields}, err
	})
	b.Switch = &Switch{
		Client: b.fake, Program: "kubectl virtward", Out: &b.out, ErrOut: &b.errOut,
		Now: func() time.Time { return time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("", 3600)) },
	}
	return b
}

// printed is what the Switch wrote since the last call, to both streams.
func (b *bench) printed() string {
	text := b.out.String() + b.errOut.String()
	b.out.Reset()
	b.errOut.Reset()
	return text
}

// snapshot is every object that takes part in admission.
func (b *bench) snapshot(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, kind := range Kinds() {
		list, err := b.Client.Resource(kind.Resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all[kind.Name+" "+list.Items[i].GetName()] = list.Items[i].Object
		}
	}
	return all
}

// Off, off again, on, on again; and what is left is what was there before.
func TestDisableAndEnable(t *testing.T) {
	b := newBench(t, installation()...)
	before := b.snapshot(t)
	steps := []struct {
		name string
		do   func() error
	}{
		{"disable", func() error { return b.Disable(t.Context(), "no replica starts") }},
		{"disable-again", func() error { return b.Disable(t.Context(), "another reason") }},
		{"enable", func() error { return b.Enable(t.Context()) }},
		{"enable-again", func() error { return b.Enable(t.Context()) }},
	}
	var all strings.Builder
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		all.WriteString("## " + step.name + "\n" + b.printed())
		if strings.HasPrefix(step.name, "disable-") || step.name == "disable" {
			b.isOff(t)
		}
	}
	golden(t, all.String())
	if diff := cmp.Diff(before, b.snapshot(t)); diff != "" {
		t.Errorf("off and on again (-before +after):\n%s", diff)
	}
}

// isOff fails unless every webhook and policy of Virtward has the condition, behind those that it had, and all else is
// as it was.
func (b *bench) isOff(t *testing.T) {
	t.Helper()
	mark := map[string]any{"name": "virtward.io/disabled", "expression": "false"}
	own := map[string]any{"name": existing, "expression": "!has(object.metadata.deletionTimestamp)"}
	want := map[string][][]any{
		"MutatingWebhookConfiguration mutate.virtward.io":     {{mark}},
		"ValidatingWebhookConfiguration validate.virtward.io": {{own, mark}, {mark}},
		"ValidatingWebhookConfiguration virt-api-validator":   {nil},
		"ValidatingAdmissionPolicy virtward-policies":         {{own, mark}},
		"ValidatingAdmissionPolicy virtward-exported":         {{mark}},
	}
	got := map[string][][]any{}
	for name, fields := range b.snapshot(t) {
		object := &unstructured.Unstructured{Object: fields.(map[string]any)}
		for _, holder := range Conditioned(object) {
			got[name] = append(got[name], conditionsOf(holder))
		}
		note, noted := object.GetAnnotations()["virtward.io/disabled"]
		if noted == strings.Contains(name, "virt-api-") {
			t.Errorf("%s: annotated %t", name, noted)
		}
		if want := `{"reason":"no replica starts","by":"jane","at":"2026-03-01T12:00:00Z"}`; noted && note != want {
			t.Errorf("%s: the note is %s, not %s", name, note, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("match conditions (-want +got):\n%s", diff)
	}
}

// The guards that stay active are shown. Disable does not change them, and Enable switches on what an earlier release switched
// off.
func TestGuardsThatStayActive(t *testing.T) {
	var guards []runtime.Object
	labels := map[string]string{"app.kubernetes.io/part-of": "virtward"}
	for _, name := range admissionpolicies.StayActive() {
		off := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if name == admissionpolicies.TemplateStatus {
			off.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: admissionpolicies.Disabled, Expression: never}}
		}
		guards = append(guards, off)
	}
	b := newBench(t, installation(guards...)...)
	before := b.snapshot(t)
	if err := b.Disable(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	after := b.snapshot(t)
	for _, name := range admissionpolicies.StayActive() {
		if diff := cmp.Diff(before["ValidatingAdmissionPolicy "+name], after["ValidatingAdmissionPolicy "+name]); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
	for _, name := range []string{
		admissionpolicies.TemplateApprovedOnly, admissionpolicies.TemplateCapture, admissionpolicies.TemplateNamespaces, admissionpolicies.TemplateProvenance,
		admissionpolicies.TemplateRequestLabels, admissionpolicies.TemplateStatus,
	} {
		if strings.Contains(b.out.String(), name) {
			t.Errorf("disable changes %s:\n%s", name, &b.out)
		}
	}
	b.printed()
	if err := b.Enable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.printed(); !strings.Contains(got, "ValidatingAdmissionPolicy virtward-template-status: switched on\n") {
		t.Errorf("enable leaves a guard off:\n%s", got)
	}
}

// A dry run asks the API server with its own dry run, everywhere.
func TestDisableDryRun(t *testing.T) {
	b := newBench(t, installation()...)
	b.DryRun = true
	b.fake.PrependReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		update := action.(clienttesting.UpdateActionImpl)
		if diff := cmp.Diff([]string{metav1.DryRunAll}, update.UpdateOptions.DryRun); diff != "" {
			t.Errorf("%s: dry run (-want +got):\n%s", update.Resource.Resource, diff)
		}
		return true, update.Object, nil
	})
	if err := b.Disable(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	want := `ValidatingWebhookConfiguration validate.virtward.io: would be switched off
MutatingWebhookConfiguration mutate.virtward.io: would be switched off
ValidatingAdmissionPolicy virtward-exported: would be switched off
ValidatingAdmissionPolicy virtward-policies: would be switched off
`
	if diff := cmp.Diff(want, b.printed()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// An error is reported, and the other objects are switched off.
func TestDisableGoesOn(t *testing.T) {
	b := newBench(t, installation()...)
	b.fake.PrependReactor("update", "validatingwebhookconfigurations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource().GroupResource()
		return true, nil, apierrors.NewForbidden(resource, "validate.virtward.io", errors.New("jane may not"))
	})
	b.fake.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server does not know")
	})
	err := b.Disable(t.Context(), "a test")
	if err == nil || err.Error() != "some objects of Virtward are not off: see above" {
		t.Errorf("error %v", err)
	}
	want := `ValidatingAdmissionPolicy virtward-exported: switched off
ValidatingAdmissionPolicy virtward-policies: switched off
error: ValidatingWebhookConfiguration validate.virtward.io: validatingwebhookconfigurations.admissionregistration.k8s.io "validate.virtward.io" is forbidden: jane may not
error: each MutatingWebhookConfiguration stays as it is: with only one of the two switched off, new instances would be denied as incomplete
`
	if diff := cmp.Diff(want, b.printed()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	object := &unstructured.Unstructured{Object: b.snapshot(t)["ValidatingAdmissionPolicy virtward-policies"].(map[string]any)}
	note := disabledNote{}
	if err := json.Unmarshal([]byte(object.GetAnnotations()[admissionpolicies.Disabled]), &note); err != nil || note.By != "unknown" {
		t.Errorf("by %q, %v", note.By, err)
	}
}

// An error of a list is reported too, and the other kinds are switched off.
func TestDisableWithoutList(t *testing.T) {
	b := newBench(t, installation()...)
	b.fake.PrependReactor("list", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not today")
	})
	if err := b.Disable(t.Context(), "a test"); err == nil || err.Error() != "some objects of Virtward are not off: see above" {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{
		"error: listing mutatingwebhookconfigurations: not today\n",
		"ValidatingWebhookConfiguration validate.virtward.io: switched off\n",
	} {
		if !strings.Contains(b.out.String()+b.errOut.String(), want) {
			t.Errorf("it does not say %q, but:\n%s%s", want, &b.out, &b.errOut)
		}
	}
}

// A process that ends in the middle leaves no state in which the checks are on and the completion is off; the next one ends it.
func TestSwitchEndsInTheMiddle(t *testing.T) {
	for after := range 5 {
		for _, way := range []string{"disable", "enable"} {
			b := newBench(t, installation()...)
			do, other := func() error { return b.Disable(t.Context(), "no replica starts") }, func() error { return b.Enable(t.Context()) }
			if way == "enable" {
				do, other = other, do
			}
			if err := other(); err != nil {
				t.Fatal(err)
			}
			writes, ended := 0, true
			b.fake.PrependReactor("update", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				if writes++; ended && writes > after {
					return true, nil, errors.New("the process ended")
				}
				return false, nil, nil
			})
			if err := do(); err == nil && after < 4 {
				t.Fatalf("%s, %d writes: it does not end in the middle", way, after)
			}
			off := func(name string) bool {
				off, all := Disabled(&unstructured.Unstructured{Object: b.snapshot(t)[name].(map[string]any)})
				return off == all
			}
			if off("MutatingWebhookConfiguration mutate.virtward.io") && !off("ValidatingWebhookConfiguration validate.virtward.io") {
				t.Errorf("%s, %d writes: the checks are on, and nothing completes instances", way, after)
			}
			ended = false
			if err := do(); err != nil {
				t.Errorf("%s, %d writes: it cannot be ended: %v", way, after, err)
			}
			if got := off("ValidatingWebhookConfiguration validate.virtward.io"); got != (way == "disable") {
				t.Errorf("%s, %d writes: off is %t at the end", way, after, got)
			}
		}
	}
}

// Concurrent changes, such as the rotation of certificates, are not overwritten.
func TestDisableConflict(t *testing.T) {
	b := newBench(t, installation()...)
	rejected := 0
	b.fake.PrependReactor("update", "mutatingwebhookconfigurations", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if rejected++; rejected > 2 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), "mutate.virtward.io", errors.New("it has changed"))
	})
	if err := b.Disable(t.Context(), "no replica starts"); err != nil {
		t.Fatal(err)
	}
	if rejected != 3 {
		t.Errorf("%d attempts, not 3", rejected)
	}
	b.isOff(t)
}

// In a cluster without Virtward, Disable returns an error.
func TestDisableNothing(t *testing.T) {
	b := newBench(t)
	const want = "the cluster has no webhook configuration or admission policy of Virtward, with the label app.kubernetes.io/part-of=virtward"
	for name, do := range map[string]func() error{
		"disable": func() error { return b.Disable(t.Context(), "a test") },
		"enable":  func() error { return b.Enable(t.Context()) },
	} {
		if err := do(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What an upgrade added is on while the rest is off; it is shown, and disable switches it off with a note of its own.
func TestDisabledInPart(t *testing.T) {
	b := newBench(t, installation()...)
	if err := b.Disable(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	resource := Kinds()[1].Resource
	object, err := b.Client.Resource(resource).Get(t.Context(), "validate.virtward.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Object["webhooks"] = append(object.Object["webhooks"].([]any), map[string]any{"name": "policies.validate.virtward.io"})
	if _, err := b.Client.Resource(resource).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if off, all := Disabled(object); off != 2 || all != 3 || Why(object) != "before, by jane at 2026-03-01T12:00:00Z" {
		t.Errorf("%d of %d are off: %s", off, all, Why(object))
	}
	if err := b.Disable(t.Context(), "after"); err != nil {
		t.Fatal(err)
	}
	object, err = b.Client.Resource(resource).Get(t.Context(), "validate.virtward.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if off, all := Disabled(object); off != 3 || all != 3 {
		t.Errorf("%d of %d are off", off, all)
	}
	if why := Why(object); why != "after, by jane at 2026-03-01T12:00:00Z" {
		t.Errorf("why: %s", why)
	}
}

// A condition of the name with another expression does not count as off.
func TestDisableForeignMark(t *testing.T) {
	objects := installation()
	objects[0].(*admissionv1.MutatingWebhookConfiguration).Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: admissionpolicies.Disabled, Expression: "true"}}
	b := newBench(t, objects...)
	if err := b.Disable(t.Context(), "no replica starts"); err != nil {
		t.Fatal(err)
	}
	b.isOff(t)
}

// enable warns if what it switches on cannot be reached; not if that is unknown.
func TestEnableWarns(t *testing.T) {
	const warning = "warning: Service virtward-system/virtward-webhook has no ready endpoint: until it has, the API server denies the requests that the webhooks match. To switch them off again: kubectl virtward disable\n"
	for _, c := range []struct {
		name   string
		change func(*corev1.Service, *discoveryv1.EndpointSlice)
		want   string
	}{
		{"ready", func(*corev1.Service, *discoveryv1.EndpointSlice) {}, ""},
		{"not ready", func(_ *corev1.Service, s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) }, warning},
		{"no endpoints", func(_ *corev1.Service, s *discoveryv1.EndpointSlice) { s.Endpoints = nil }, warning},
		{"no word about ready", func(_ *corev1.Service, s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = nil }, ""},
		{"a name elsewhere", func(s *corev1.Service, e *discoveryv1.EndpointSlice) {
			s.Spec.Type, e.Labels = corev1.ServiceTypeExternalName, nil
		}, ""},
		{"a name elsewhere with endpoints", func(s *corev1.Service, e *discoveryv1.EndpointSlice) {
			s.Spec.Type, e.Endpoints[0].Conditions.Ready = corev1.ServiceTypeExternalName, new(false)
		}, warning},
		{"no Service", func(s *corev1.Service, _ *discoveryv1.EndpointSlice) { s.Name = "another" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects := installation()
			c.change(objects[6].(*corev1.Service), objects[7].(*discoveryv1.EndpointSlice))
			b := newBench(t, objects...)
			if err := b.Enable(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.errOut.String(); got != c.want {
				t.Errorf("it warns\n%q\nnot\n%q", got, c.want)
			}
		})
	}
}

// Objects that are not what they should be are skipped, and nothing panics.
func TestSwitchOddObjects(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"webhooks":null}`, `{"webhooks":"none"}`, `{"webhooks":[1,null,"a"]}`, `{"spec":3}`,
		`{"webhooks":[{"matchConditions":"all"}]}`, `{"spec":{"matchConditions":[1,null,{"name":2}]}}`,
	} {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		turnOff(object, "note")
		if off, all := Disabled(object); off != all {
			t.Errorf("%s: %d of %d are off", text, off, all)
		}
		turnOn(object)
		if off, _ := Disabled(object); off != 0 {
			t.Errorf("%s: %d are still off", text, off)
		}
		Why(object)
	}
}

var update = flag.Bool("update", false, "write the golden file")

func golden(t *testing.T, got string) {
	t.Helper()
	const path = "testdata/disable.txt"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", path, diff)
	}
}
