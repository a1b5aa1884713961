package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set sets a condition about a generation; 0 is for a part of an object. Its transition time is in whole seconds, as it is stored, and
// changes only with its status.
func Set(of *[]metav1.Condition, c metav1.Condition, generation int64, now metav1.Time) {
	c.ObservedGeneration, c.LastTransitionTime = generation, now.Rfc3339Copy()
	meta.SetStatusCondition(of, c)
}
