// Package rollouts has the end-to-end tests of VirtualMachineRollouts: on a real API server, with simulated controllers of
// KubeVirt.
package rollouts

import "testing"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
