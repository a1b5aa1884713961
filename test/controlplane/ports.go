package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Ports are taken from below the range that Linux gives to outgoing connections, so that only another
// listener can be in the way.
const (
	firstPort = 20000
	lastPort  = 31999
)

// ports hands out loopback ports. A port stays locked, across processes, until release: two sandboxes that
// start at the same moment never get the same one.
type ports struct {
	folder string
	mu     sync.Mutex
	locks  []*os.File
}

func newPorts(parent string) (*ports, error) {
	folder := filepath.Join(parent, fmt.Sprintf("virtward-ports-%d", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	return &ports{folder: folder}, nil
}

func (p *ports) take() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // any free port will do
		lock, err := lockFile(filepath.Join(p.folder, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if !free(port) {
			_ = lock.Close()
			continue
		}
		p.mu.Lock()
		p.locks = append(p.locks, lock)
		p.mu.Unlock()
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func (p *ports) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, lock := range p.locks {
		_ = os.Remove(lock.Name())
		_ = lock.Close()
	}
	p.locks = nil
}

// free reports whether no process listens on the port, on any address.
func free(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}
