package main

import (
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// newScheme returns a scheme with the kinds of Kubernetes and others.
func newScheme(others ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range append([]func(*runtime.Scheme) error{clientgoscheme.AddToScheme}, others...) {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}
