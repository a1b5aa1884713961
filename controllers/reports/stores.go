package reports

import (
	"context"
	"errors"
	"slices"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Stores store the same Reports in several APIs.
type Stores []*Store

// NewStores returns a store for each API.
func NewStores(apis []API, c client.Client, pages Pages) (all Stores) {
	for _, api := range apis {
		all = append(all, &Store{API: api, Client: c, Pages: pages})
	}
	return all
}

// Available returns the names of the APIs that the cluster has.
func (all Stores) Available(ctx context.Context) ([]string, error) {
	var names []string
	for _, store := range all {
		available, err := store.Available(ctx)
		if err != nil {
			return nil, err
		}
		if available {
			names = append(names, store.API.Name())
		}
	}
	return names, nil
}

// Namespaces returns the namespaces with a Report of Virtward in one of the APIs, sorted.
func (all Stores) Namespaces(ctx context.Context) ([]string, error) {
	var names []string
	for _, store := range all {
		found, err := store.Namespaces(ctx)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Put writes a Report to all APIs that the cluster has: see Store.Put. It returns the one before of the first API that had one. An
// error of one API does not keep it from the others. ErrForeign is returned only if there is no other error.
func (all Stores) Put(ctx context.Context, namespace string, build func(before *openreports.Report) *openreports.Report) (before *openreports.Report, err error) {
	var foreign error
	var errs []error
	for _, store := range all {
		found, err := store.Put(ctx, namespace, build)
		if errors.Is(err, ErrForeign) {
			foreign = errors.Join(foreign, err)
		} else {
			errs = append(errs, err)
		}
		if before == nil {
			before = found
		}
	}
	if err := errors.Join(errs...); err != nil {
		return before, err
	}
	return before, foreign
}
