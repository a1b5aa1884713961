package webhooks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

// wholeReview decodes a review with its objects.
func wholeReview(body []byte) (*admissionv1.AdmissionReview, error) {
	review := &admissionv1.AdmissionReview{}
	return review, sigsjson.UnmarshalCaseSensitivePreserveInts(body, review)
}

// sameAsWhole compares a review whose objects are cut out with the review that is decoded as a whole.
func sameAsWhole(t *testing.T, body string) (cut bool) {
	t.Helper()
	rest, object, old, cut := cutOut(nil, []byte(body))
	if !cut {
		return false
	}
	want, failed := wholeReview([]byte(body))
	got, err := wholeReview(rest)
	copy(rest, strings.Repeat("x", len(rest))) // as by another review
	if (err == nil) != (failed == nil) {
		t.Fatalf("%.200s: %v, want %v", body, err, failed)
	}
	if err != nil {
		return true
	}
	if got.Request != nil {
		got.Request.Object.Raw, got.Request.OldObject.Raw = object, old
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.200s (-want +got):\n%s", body, diff)
	}
	return true
}

func TestCutOut(t *testing.T) {
	const begin, end = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1",`, `,"operation":"CREATE"}}`
	for name, body := range map[string]string{
		"an instance":      string(reviewOf(t, apikinds.VirtualMachineInstance, build.Typical("db").Obj())),
		"both objects":     begin + `"object":{"a":"}\"]"},"oldObject":{"b":[{},"{"]}` + end,
		"null":             begin + `"object":null,"oldObject":{}` + end,
		"spaces":           " {\n \"request\" : { \"object\" : [ 1 , 2 ] , \"uid\" : \"1\" } , \"kind\" : \"AdmissionReview\" } ",
		"a number":         begin + `"object":1e3` + end,
		"a text":           begin + `"object":"a\\"` + end,
		"an escaped name":  begin + `"\u006fbject":{"a":1}` + end,
		"no object":        begin + `"name":"a"` + end,
		"objects below":    begin + `"options":{"object":{"a":1}},"object":{"object":{"oldObject":2}}` + end,
		"another case":     begin + `"Object":{"a":1},"OBJECT":{}` + end,
		"a wrong type":     begin + `"name":{},"object":{"a":1}` + end,
		"the object first": `{"request":{"object":{"a":1},"uid":"1"},"kind":"AdmissionReview"}`,
	} {
		if !sameAsWhole(t, body) {
			t.Errorf("%s: the objects are not cut out", name)
		}
	}
	for name, body := range map[string]string{
		"an object twice":    begin + `"object":{"a":1},"object":{"b":1}` + end,
		"a request twice":    `{"request":{"uid":"1","object":{}},"request":{"uid":"1"}}`,
		"not JSON":           begin + `"object":{"a":tru}` + end,
		"cut off":            begin + `"object":{"a":1`,
		"nested too deep":    begin + `"object":` + strings.Repeat("[", 2*maxNesting) + strings.Repeat("]", 2*maxNesting) + end,
		"no review":          `[]`,
		"something after it": begin + `"object":{}` + end + "1",
	} {
		if sameAsWhole(t, body) {
			t.Errorf("%s: the objects are cut out", name)
		}
	}
}

// FuzzCutOut compares each review whose objects are cut out with the one that is decoded as a whole.
func FuzzCutOut(f *testing.F) {
	f.Add(`{"request":{"uid":"1","object":{"a":"}\"]"},"oldObject":{"b":[{},"{"]}}}`)
	f.Add(`{"request":{"\u006fbject":{"a":1},"object":null}}`)
	f.Fuzz(func(t *testing.T, body string) { sameAsWhole(t, body) })
}

// TestAnswerWith: what is encoded in parts is the response.
func TestAnswerWith(t *testing.T) {
	for _, response := range []*admissionv1.AdmissionResponse{
		{UID: `a"<b`, Allowed: true},
		{UID: "1", Allowed: true, Warnings: []string{"a"}},
		{UID: "1"},
		{UID: "1", Allowed: true, AuditAnnotations: map[string]string{"a": "b"}},
	} {
		answer, err := answerWith(response)
		if err != nil {
			t.Fatal(err)
		}
		review, err := wholeReview(answer)
		if err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		if diff := cmp.Diff(response, review.Response); diff != "" || review.Kind != "AdmissionReview" || review.APIVersion != "admission.k8s.io/v1" {
			t.Errorf("%s (-want +got):\n%s", answer, diff)
		}
	}
}
