// Package ports hands out loopback ports to servers that want to know their port before they start. A port that the kernel
// chose, and that was closed again, can be given to any outgoing connection of the machine before the server listens on it.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/virtward/virtward/test/locks"
)

// Ports are taken from below the range that Linux gives to outgoing connections, so that only another
// listener can be in the way.
const (
	First = 20000
	Last  = 31999
)

// Set is a set of ports. A port stays locked, across processes, until Release: two sandboxes that start at the same moment
// never get the same one.
type Set struct {
	folder string
	mu     sync.Mutex
	locks  []*os.File
}

// New returns an empty set. Sets whose locks are below the same parent never have a port in common.
func New(parent string) (*Set, error) {
	folder := filepath.Join(parent, fmt.Sprintf("virtward-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return &Set{folder: folder}, nil
}

// Take adds a port that nothing listens on.
func (s *Set) Take() (int, error) {
	for range 200 {
		port := First + rand.IntN(Last-First+1) //nolint:gosec // any free port will do
		lock, err := locks.File(filepath.Join(s.folder, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if !free(port) {
			_ = lock.Close()
			continue
		}
		s.mu.Lock()
		s.locks = append(s.locks, lock)
		s.mu.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", First, Last)
}

// Release gives all ports back.
func (s *Set) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lock := range s.locks {
		_ = os.Remove(lock.Name())
		_ = lock.Close()
	}
	s.locks = nil
}

// Address returns a loopback address with a port that belongs to the test until it ends.
func Address(t testing.TB) string {
	t.Helper()
	set, err := New(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	port, err := set.Take()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// free reports whether no process listens on the port, on any address.
func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
