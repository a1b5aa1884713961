package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestShrink(t *testing.T) {
	for size, kept := range map[int]bool{100: true, 10 << 10: false} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": strings.Repeat("b", size)}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
		}}
		if _, err := shrink(namespace); err != nil || (namespace.Annotations != nil) != kept || namespace.ManagedFields != nil || namespace.Labels["a"] != "b" {
			t.Errorf("%d bytes: %+v, %v", size, namespace, err)
		}
	}
	if got, err := shrink(cache.DeletedFinalStateUnknown{Key: "a"}); err != nil || got != (cache.DeletedFinalStateUnknown{Key: "a"}) {
		t.Errorf("%v, %v", got, err)
	}
}
