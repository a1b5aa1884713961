//go:build !linux

package controlplane

import "syscall"

// attributes of every process: Ctrl-C on the terminal reaches us alone. Only Linux kills a child with its
// parent; elsewhere a crash of the parent leaves the components behind.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
