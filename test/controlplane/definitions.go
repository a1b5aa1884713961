package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// InstallCRDs creates or replaces definitions and waits until they are served, and clients find them. The controller manager is
// started again if a definition is new, for its garbage collector looks for new kinds only every 30 seconds.
func (c *ControlPlane) InstallCRDs(ctx context.Context, definitions ...*apiextensionsv1.CustomResourceDefinition) error {
	created := false
	for _, definition := range definitions {
		isNew, err := c.installCRD(ctx, definition)
		if err != nil {
			return fmt.Errorf("installing the definition %s: %w", definition.Name, err)
		}
		created = created || isNew
	}
	for _, definition := range definitions {
		if err := c.awaitCRD(ctx, definition); err != nil {
			return fmt.Errorf("waiting for the definition %s: %w", definition.Name, err)
		}
	}
	if err := c.awaitDiscovery(ctx, definitions); err != nil {
		return err
	}
	return c.ensureControllerManager(created)
}

func (c *ControlPlane) installCRD(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) (created bool, err error) {
	err = c.client.Create(ctx, definition.DeepCopy())
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	return false, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		installed := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(definition), installed); err != nil {
			return err
		}
		installed.Spec = definition.Spec
		return c.client.Update(ctx, installed)
	})
}

// awaitCRD waits until the API server has accepted the definition's present content.
func (c *ControlPlane) awaitCRD(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) error {
	for {
		installed := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(definition), installed); err != nil {
			return err
		}
		if done, err := established(installed); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not established: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// awaitDiscovery waits until clients find the kinds of definitions: discovery follows the definitions after a moment.
func (c *ControlPlane) awaitDiscovery(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	config := rest.CopyConfig(c.admin)
	config.QPS = -1 // there is one group after the other
	lookup, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		for !discovered(lookup, definition) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for the discovery of %s: %w", definition.Name, ctx.Err())
			case <-time.After(pollInterval):
			}
		}
	}
	return nil
}

// discovered reports whether discovery has all served versions of a kind, in the list of groups and in those of resources.
func discovered(lookup discovery.DiscoveryInterface, definition *apiextensionsv1.CustomResourceDefinition) bool {
	groups, err := lookup.ServerGroups()
	if err != nil {
		return false
	}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		served := metav1.GroupVersion{Group: definition.Spec.Group, Version: version.Name}.String()
		listed := slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
			return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == served })
		})
		resources, err := lookup.ServerResourcesForGroupVersion(served)
		if !listed || err != nil || !slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == definition.Spec.Names.Plural }) {
			return false
		}
	}
	return true
}

func established(definition *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	var ready bool
	for _, condition := range definition.Status.Conditions {
		isTrue := condition.Status == apiextensionsv1.ConditionTrue
		switch condition.Type {
		case apiextensionsv1.Established:
			ready = isTrue
		case apiextensionsv1.NamesAccepted, apiextensionsv1.NonStructuralSchema:
			if isTrue == (condition.Type == apiextensionsv1.NonStructuralSchema) {
				return false, errors.New(condition.Message)
			}
		}
	}
	return ready && namesAccepted(definition), nil
}

// namesAccepted reports whether the short names are served too, not only those of an earlier content.
func namesAccepted(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return equality.Semantic.DeepEqual(definition.Spec.Names.ShortNames, definition.Status.AcceptedNames.ShortNames)
}

func (c *ControlPlane) ensureControllerManager(again bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.controllerManager != nil {
		if !again && c.controllerManager.running() {
			return nil
		}
		c.controllerManager.kill()
	}
	manager, err := c.startControllerManager()
	c.controllerManager = manager
	return err
}
