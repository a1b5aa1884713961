package cel

import (
	"crypto/sha256"
	"encoding/json"
	"runtime"
	"sync"
	"weak"

	"github.com/virtward/virtward/diagnostics"
)

// Policies often have expressions in common: those of a template that is used again and again, with other parameters. What is
// compiled of equal expressions is shared while a policy has it.

// shared has values by their keys while something else refers to them. It is safe for concurrent use.
type shared[K comparable, V any] struct {
	mutex  sync.Mutex
	values map[K]weak.Pointer[V]
	// issues are warnings about values.
	issues map[K][]diagnostics.Problem
}

func newShared[K comparable, V any]() *shared[K, V] {
	return &shared[K, V]{values: map[K]weak.Pointer[V]{}, issues: map[K][]diagnostics.Problem{}}
}

// get returns the value of a key with its issues, or makes it. A value that is nil is not kept.
func (s *shared[K, V]) get(key K, create func() (*V, []diagnostics.Problem)) (*V, []diagnostics.Problem) {
	if v, issues := s.find(key); v != nil {
		return v, issues
	}
	v, issues := create()
	if v == nil {
		return nil, issues
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.values[key], s.issues[key] = weak.Make(v), issues
	runtime.AddCleanup(v, s.forget, key)
	return v, issues
}

func (s *shared[K, V]) find(key K) (*V, []diagnostics.Problem) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.values[key].Value(), s.issues[key]
}

// forget removes a key whose value is gone, unless it has another one since.
func (s *shared[K, V]) forget(key K) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.values[key].Value() == nil {
		delete(s.values, key)
		delete(s.issues, key)
	}
}

// digest identifies the options of a scope.
type digest [sha256.Size]byte

func digestOf(o *ScopeOptions) (digest, error) {
	encoded, err := json.Marshal(o)
	return sha256.Sum256(encoded), err
}
