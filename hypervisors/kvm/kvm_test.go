package kvm_test

import (
	"testing"

	"github.com/virtward/virtward/conformance/hypervisor"
	"github.com/virtward/virtward/platform"
)

func TestKVM(t *testing.T) {
	hypervisor.Run(t, hypervisor.BuiltIn(t, platform.KVM))
}
