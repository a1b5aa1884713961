package pages

import "testing"

// TestWithoutLogs leaves out only what klog writes.
func TestWithoutLogs(t *testing.T) {
	const log = `I1128 11:08:57.098280    5227 reflector.go:664] "Warning: watch ended with error" err="context canceled"` + "\n"
	const said = "virtualmachinerollout.rollout.virtward.io/larger condition met\nI said so at 11:08:57\nError from server: x.go:1] is wrong\n"
	if got := withoutLogs(log + said + log); got != said {
		t.Errorf("%q", got)
	}
}
