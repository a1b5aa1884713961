package validators

import "k8s.io/apimachinery/pkg/util/validation/field"

// place returns a path. Most checks find no fault and need none, so they make it when they do.
type place func() *field.Path

// under is the place of a field under a path.
func under(path *field.Path, name string, more ...string) place {
	return func() *field.Path { return path.Child(name, more...) }
}

// inDomain is the place of a field in the domain.
func inDomain(s *Subject, name string, more ...string) place {
	return func() *field.Path { return s.Domain().Child(name, more...) }
}
