package controlplane

import "syscall"

// attributes of every process: the kernel kills it if this process ends, and Ctrl-C does not reach it, so that the
// sandbox stops its processes in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
