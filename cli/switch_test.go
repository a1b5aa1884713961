package cli_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

func TestSwitchUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"disable"}, "error: --reason is required\n"},
		{[]string{"disable", "--reason", " "}, "error: --reason is required\n"},
		{[]string{"disable", "--reason", strings.Repeat("a", 1025)}, "error: --reason: must have at most 1024 bytes, and has 1025\n"},
		{[]string{"disable", "--reason", "a", "now"}, "error: kubectl virtward disable takes no arguments, but got \"now\": see kubectl virtward disable --help\n"},
		{[]string{"enable", "now"}, "error: kubectl virtward enable takes no arguments, but got \"now\": see kubectl virtward enable --help\n"},
		{[]string{"enable", "--namespace", "shop"}, "error: unknown flag: --namespace: see kubectl virtward enable --help\n"},
		{[]string{"status", "now"}, "error: kubectl virtward status takes no arguments, but got \"now\": see kubectl virtward status --help\n"},
	} {
		got := clitest.Call(t, "", c.args...)
		if got.Code != clitest.ExitUsage || got.ErrOut != c.want || got.Out != "" {
			t.Errorf("%v: code %d, output %q, errors %q", c.args, got.Code, got.Out, got.ErrOut)
		}
	}
	for _, command := range []string{"disable", "enable", "status"} {
		help := clitest.Call(t, "", command, "--help")
		if help.Code != clitest.ExitOK || !strings.Contains(help.Out, "\nCluster flags (those of kubectl):\n") {
			t.Errorf("%s --help: code %d\n%s", command, help.Code, help.Out)
		}
	}
}

// Without a cluster, nothing is switched.
func TestSwitchWithoutCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	for _, args := range [][]string{{"disable", "--reason", "a"}, {"enable"}, {"status"}} {
		got := clitest.Call(t, "", args...)
		if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "no kubeconfig names a cluster") {
			t.Errorf("%v: code %d, errors %q", args, got.Code, got.ErrOut)
		}
	}
}
