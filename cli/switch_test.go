package cli

import (
	"strings"
	"testing"
)

func TestSwitchUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"disable"}, "error: say why, for whoever finds Virtward switched off: --reason TEXT\n"},
		{[]string{"disable", "--reason", " "}, "error: say why, for whoever finds Virtward switched off: --reason TEXT\n"},
		{[]string{"disable", "--reason", strings.Repeat("a", 1025)}, "error: --reason: may have 1024 bytes at most, and has 1025\n"},
		{[]string{"disable", "--reason", "a", "now"}, "error: kubectl virtward disable takes no arguments, but got \"now\": see kubectl virtward disable --help\n"},
		{[]string{"enable", "now"}, "error: kubectl virtward enable takes no arguments, but got \"now\": see kubectl virtward enable --help\n"},
		{[]string{"enable", "--namespace", "shop"}, "error: unknown flag: --namespace: see kubectl virtward enable --help\n"},
		{[]string{"status", "now"}, "error: kubectl virtward status takes no arguments, but got \"now\": see kubectl virtward status --help\n"},
	} {
		got := call(t, "", c.args...)
		if got.code != exitUsage || got.errOut != c.want || got.out != "" {
			t.Errorf("%v: code %d, output %q, errors %q", c.args, got.code, got.out, got.errOut)
		}
	}
	for _, command := range []string{"disable", "enable", "status"} {
		help := call(t, "", command, "--help")
		if help.code != exitOK || !strings.Contains(help.out, "\nCluster flags (those of kubectl):\n") {
			t.Errorf("%s --help: code %d\n%s", command, help.code, help.out)
		}
	}
}

// Without a cluster, nothing is switched.
func TestSwitchWithoutCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	for _, args := range [][]string{{"disable", "--reason", "a"}, {"enable"}, {"status"}} {
		got := call(t, "", args...)
		if got.code != exitFailed || !strings.Contains(got.errOut, "no kubeconfig names a cluster") {
			t.Errorf("%v: code %d, errors %q", args, got.code, got.errOut)
		}
	}
}
