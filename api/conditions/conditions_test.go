package conditions_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
)

func TestSet(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 999, time.UTC)
	var all []metav1.Condition
	for i, step := range []struct {
		status  metav1.ConditionStatus
		message string
		since   time.Time
	}{
		{metav1.ConditionTrue, "first", noon.Truncate(time.Second)},
		{metav1.ConditionTrue, "second", noon.Truncate(time.Second)},
		{metav1.ConditionFalse, "third", noon.Add(2 * time.Hour).Truncate(time.Second)},
	} {
		conditions.Set(&all, metav1.Condition{Type: "Ready", Status: step.status, Reason: "R", Message: step.message}, int64(i), metav1.NewTime(noon.Add(time.Duration(i)*time.Hour)))
		if c := all[0]; len(all) != 1 || c.Message != step.message || c.ObservedGeneration != int64(i) || !c.LastTransitionTime.Time.Equal(step.since) {
			t.Errorf("step %d: %+v", i, all)
		}
	}
}
