// Package locks locks files across processes. The kernel releases a lock when its owner ends in any way.
package locks

import (
	"os"
	"syscall"
)

// File creates and locks a file without waiting; the lock is not inherited by children, and ends when the file is closed.
func File(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
