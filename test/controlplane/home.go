package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/virtward/virtward/test/locks"
)

const (
	homePrefix = "virtward-sandbox-"
	lockName   = "lock"
	// grace is how long a folder may exist before its owner has locked it.
	grace = time.Minute
)

// home is the folder of one control plane. Its owner holds a lock on it, which the kernel releases when the owner ends in
// any way. So a folder without a lock is stale.
type home struct {
	path string
	lock *os.File
}

func newHome(parent string) (*home, error) {
	path, err := os.MkdirTemp(parent, homePrefix)
	if err != nil {
		return nil, fmt.Errorf("making the sandbox's folder: %w", err)
	}
	lock, err := locks.File(filepath.Join(path, lockName))
	if err != nil {
		return nil, fmt.Errorf("locking the sandbox's folder: %w", err)
	}
	return &home{path: path, lock: lock}, nil
}

func (h *home) file(parts ...string) string {
	return filepath.Join(append([]string{h.path}, parts...)...)
}

func (h *home) write(name string, content []byte) (string, error) {
	path := h.file(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o600)
}

func (h *home) remove() error {
	err := os.RemoveAll(h.path)
	_ = h.lock.Close() // only after the folder is gone, or a sweep might race with us
	return err
}

// sweep removes the folders under parent whose owners are dead. It is best effort: what cannot be removed
// now is tried again by the next start.
func sweep(parent string) {
	folders, err := filepath.Glob(filepath.Join(parent, homePrefix+"*"))
	if err != nil {
		return
	}
	for _, folder := range folders {
		if abandoned(folder) {
			_ = os.RemoveAll(folder)
		}
	}
}

func abandoned(folder string) bool {
	info, err := os.Lstat(folder)
	if err != nil || !info.IsDir() {
		return false
	}
	path := filepath.Join(folder, lockName)
	if _, err := os.Stat(path); err != nil {
		return time.Since(info.ModTime()) > grace
	}
	lock, err := locks.File(path)
	if err != nil {
		return false
	}
	_ = lock.Close()
	return true
}
