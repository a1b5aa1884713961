//go:build !linux

package controlplane

import "syscall"

// attributes of every process: Ctrl-C does not reach it. Only Linux kills a child with its parent. On other systems, the
// components survive a crash of the parent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
