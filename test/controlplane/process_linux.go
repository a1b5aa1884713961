package controlplane

import "syscall"

// attributes of every process: it dies with us, and Ctrl-C on the terminal reaches us alone, so that we
// take the sandbox down in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
