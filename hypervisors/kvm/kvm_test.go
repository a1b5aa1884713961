package kvm_test

import (
	"testing"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/conformance/hypervisor"
)

func TestKVM(t *testing.T) {
	hypervisor.Run(t, hypervisor.BuiltIn(t, platform.KVM))
}
