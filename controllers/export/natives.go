package export

import (
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// object is a pointer to one of the two kinds that a native form consists of.
type object[T any] interface {
	*T
	metav1.Object
}

// client is what a typed client offers for a kind.
type client[P any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (P, error)
	Create(ctx context.Context, object P, options metav1.CreateOptions) (P, error)
	Update(ctx context.Context, object P, options metav1.UpdateOptions) (P, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// part is one of the two objects of native forms.
type part[T any, P object[T]] struct {
	kind   string
	client client[P]
	// cached finds an object in the watch; nil if it is not there.
	cached func(name string) P
	// meta and spec are those of an object.
	meta func(P) *metav1.ObjectMeta
	spec func(P) any
	// put gives an object the spec of another, but for what was switched off by hand in the one that is there; nil if
	// there is none.
	put func(to, from, there P)
}

// errTaken says that something else has the name.
var errTaken = errors.New("the name is taken")

// find is an object as it is known, nil if there is none.
func (p *part[T, P]) find(ctx context.Context, name string) (P, error) {
	if found := p.cached(name); found != nil {
		return found, nil
	}
	found, err := p.client.Get(ctx, name, metav1.GetOptions{}) // what has not our label is not watched
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", p.kind, name, err)
	}
	return found, nil
}

// free tells whether a name is nobody's, or that of an object which belongs to the policy with a uid.
func (p *part[T, P]) free(ctx context.Context, name string, uid types.UID) (bool, error) {
	there, err := p.find(ctx, name)
	return there == nil || ownedBy(there, uid), err
}

// keep creates an object, or brings the one that belongs to the policy with a uid up to date; dress makes the
// metadata of the one that is wanted, given those of the one that is there.
func (p *part[T, P]) keep(ctx context.Context, wanted P, uid types.UID, dress func(made, there *metav1.ObjectMeta) metav1.ObjectMeta) error {
	name := p.meta(wanted).Name
	there, err := p.find(ctx, name)
	if err != nil {
		return err
	}
	if there == nil {
		made := P(new(T))
		*p.meta(made) = dress(p.meta(wanted), nil)
		p.put(made, wanted, nil)
		_, err := p.client.Create(ctx, made, metav1.CreateOptions{FieldManager: Owner})
		return p.failed("creating", name, err)
	}
	if !ownedBy(there, uid) { // since a moment ago
		return apierrors.NewConflict(admissionregistrationv1.Resource(p.kind), name, errTaken)
	}
	changed := P(new(T))
	*p.meta(changed) = dress(p.meta(wanted), p.meta(there))
	p.put(changed, wanted, there)
	if equality.Semantic.DeepEqual(p.spec(changed), p.spec(there)) && equality.Semantic.DeepEqual(p.meta(changed), p.meta(there)) {
		return nil
	}
	_, err = p.client.Update(ctx, changed, metav1.UpdateOptions{FieldManager: Owner}) // of the version that was read
	return p.failed("updating", name, err)
}

// remove deletes an object that belongs to the policy with a uid. Anything else is left alone.
func (p *part[T, P]) remove(ctx context.Context, name string, uid types.UID) error {
	there := p.cached(name)
	if there == nil || !ownedBy(there, uid) || p.meta(there).DeletionTimestamp != nil {
		return nil
	}
	own := p.meta(there).UID
	err := p.client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &own}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return p.failed("deleting", name, err)
}

func (p *part[T, P]) failed(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", doing, p.kind, name, err)
}

type (
	policyPart  = part[admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicy]
	bindingPart = part[admissionregistrationv1.ValidatingAdmissionPolicyBinding, *admissionregistrationv1.ValidatingAdmissionPolicyBinding]
)
