package options

import (
	"time"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/platform"
)

// Assume replaces the hypervisor and the architecture of the facts by those of the command line.
func (s *Sources) Assume(facts *platform.Facts) (*platform.Facts, error) {
	assumed, err := s.assumptions().Apply(facts)
	if err != nil {
		return nil, usageError{err}
	}
	return assumed, nil
}

// assumptions returns the assumptions of the command line.
func (s *Sources) assumptions() *offline.Assumptions {
	return &offline.Assumptions{
		Hypervisor: s.Hypervisor, Architecture: s.Architecture, KubeVirtVersion: s.KubeVirtVersion, Settings: s.Settings,
		MaxException: time.Duration(s.ExceptionDays) * day, UnknownFields: s.UnknownFieldsSeverity(),
	}
}
