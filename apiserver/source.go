package apiserver

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// source is where a template comes from, or why that is not known. It believes only the status of an import, which Virtward's account
// writes: what runs in the namespace of the template, and what users write, cannot change it.
func (s *storage) source(ctx context.Context, template *v1beta1.VirtualMachineTemplate) (found *v1beta1.TemplateSource, why string, err error) {
	name := templates.ImportName(template)
	if name == "" {
		_, why = templates.SourceOf(template, nil)
		return nil, why, nil
	}
	release, err := s.memory.acquire(ctx, s.memory.imports, 1)
	if err != nil {
		return nil, "", err
	}
	defer release()
	of, err := s.Cluster.Import(ctx, template.Namespace, name)
	switch {
	case apierrors.IsForbidden(err):
		return nil, "Virtward's API server may not read imports: templates.imports.enabled of the chart is false", nil
	case err != nil && !apierrors.IsNotFound(err):
		return nil, "", asReadAnswer(err, "read the import of the template")
	case err == nil:
		if why, err := s.unguarded(ctx, of); why != "" || err != nil {
			return nil, why, err
		}
	}
	err = s.memory.compute(ctx, func() error {
		found, why = templates.SourceOf(template, of)
		return nil
	})
	return found, why, err
}

// unguarded says why the status of an import, and the label of its template, can have been written by a user; empty if they cannot.
func (s *storage) unguarded(ctx context.Context, of *v1beta1.VirtualMachineTemplateImport) (string, error) {
	for _, guard := range admissionpolicies.ImportGuards() {
		since, err := s.Cluster.GuardedSince(ctx, &guard)
		switch {
		case err != nil:
			return "", asReadAnswer(err, "read the guard "+guard.Name)
		case since.IsZero():
			return fmt.Sprintf("users can write the statuses of imports: the ValidatingAdmissionPolicy %s is not active", guard.Name), nil
		case of.CreationTimestamp.Time.Before(since):
			return fmt.Sprintf("a user can have written the status of the import %s: the ValidatingAdmissionPolicy %s is active since %s", of.Name, guard.Name, since.UTC().Format(time.RFC3339)), nil
		}
	}
	return "", nil
}
