package labeller

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/virtward/virtward/nodelabels"
)

// Prober opens devices of the container.
type Prober interface {
	// Probe returns what a device answers. A device that the container does not have, or must not open, is NotOpened: most containers
	// have none.
	Probe(name string) nodelabels.Access
}

// Ioctl calls a device.
type Ioctl func(descriptor, request, argument uintptr) (uintptr, error)

// Devices are those in a folder, usually /dev.
type Devices struct {
	Folder string
	// Ioctl replaces the system call in tests.
	Ioctl Ioctl
}

// The version of KVM's interface that every hypervisor uses (linux/kvm.h).
const (
	kvmGetVersion = 0xAE00
	kvmVersion    = 12
)

// Probe implements Prober. It asks kvm for the version of its interface; other devices are only opened.
func (d Devices) Probe(name string) nodelabels.Access {
	file, err := os.OpenFile(filepath.Join(d.Folder, name), os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nodelabels.NotOpened
	case err != nil:
		return nodelabels.Fails
	}
	defer file.Close()
	if name != "kvm" {
		return nodelabels.Works
	}
	call := d.Ioctl
	if call == nil {
		call = ioctl
	}
	if version, err := call(file.Fd(), kvmGetVersion, 0); err != nil || version != kvmVersion {
		return nodelabels.Fails
	}
	return nodelabels.Works
}

func ioctl(descriptor, request, argument uintptr) (uintptr, error) {
	result, _, errno := syscall.Syscall(syscall.SYS_IOCTL, descriptor, request, argument)
	if errno != 0 {
		return 0, errno
	}
	return result, nil
}
