package offline

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// pageSize is the number of objects that are read together.
const pageSize = 500

// errTooMany is the error for a list beyond its bound.
var errTooMany = errors.New("too many objects")

// List reads a list in pages, of a namespace or of all, with a label selector or without. More objects than the limit are an error.
func List[T any](ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace, selector string, limit int, each func(*T)) error {
	var in dynamic.ResourceInterface = client.Resource(resource)
	if namespace != "" {
		in = client.Resource(resource).Namespace(namespace)
	}
	count := 0
	for query := (metav1.ListOptions{Limit: pageSize, LabelSelector: selector}); ; {
		list, err := in.List(ctx, query)
		if err != nil {
			return err
		}
		if count += len(list.Items); count > limit {
			return fmt.Errorf("%w: more than %d", errTooMany, limit)
		}
		for i := range list.Items {
			one := new(T)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, one); err != nil {
				return fmt.Errorf("%s: %w", list.Items[i].GetName(), err)
			}
			each(one)
		}
		if query.Continue = list.GetContinue(); query.Continue == "" {
			return nil
		}
	}
}
