package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

func TestPending(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())
	pending := v1alpha1.Pending{Generation: 3, RestartRequired: "TemplateChanged", Changes: []v1alpha1.PendingChange{
		{Fields: []string{"spec.template.spec.hostname"}, Takes: "Restart", Reason: "Because.", WayOut: "Restart it.", Since: since},
	}}
	const want = `{"generation":3,"restartRequired":"TemplateChanged","changes":[{"fields":["spec.template.spec.hostname"],"takes":"Restart","reason":"Because.","wayOut":"Restart it.","since":"2026-01-02T03:04:05Z"}]}`
	if got := pending.String(); got != want {
		t.Errorf("%s", got)
	}
	got, err := v1alpha1.PendingOf(map[string]string{v1alpha1.AnnotationPending: want})
	if diff := cmp.Diff(&pending, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := v1alpha1.PendingOf(nil); got != nil || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for name, text := range map[string]string{"no JSON": "yes", "long": `{"changes":[]` + strings.Repeat(" ", v1alpha1.MaxPending) + "}"} {
		if got, err := v1alpha1.PendingOf(map[string]string{v1alpha1.AnnotationPending: text}); got != nil || err == nil {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// TestPendingIsBounded holds that the annotation is valid JSON of at most 4 KiB, and counts what it omits.
func TestPendingIsBounded(t *testing.T) {
	pending := v1alpha1.Pending{Generation: 1}
	for i := range 100 {
		pending.Changes = append(pending.Changes, v1alpha1.PendingChange{Fields: []string{"a", fmt.Sprint(i)}, More: 1, Takes: "Restart", Reason: strings.Repeat("r", 200)})
	}
	text := pending.String()
	got, err := v1alpha1.PendingOf(map[string]string{v1alpha1.AnnotationPending: text})
	if err != nil || len(text) > v1alpha1.MaxPending {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
	if len(got.Changes) < 10 || got.Omitted != 3*(100-len(got.Changes)) || len(pending.Changes) != 100 {
		t.Errorf("%d changes, %d omitted", len(got.Changes), got.Omitted)
	}
}
