package playground_test

import (
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/clitest"
)

// Wrong flags are errors that say what is permitted.
func TestFlags(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--lesson last: unknown lesson: the known ones are first-policy, as-it-will-run, messages,": {"--lesson", "last"},
		"--lesson has files of its own: leave out -f and --from-cluster":                            {"--lesson", "match", "-f", "vm.yaml"},
		"--port 70000: must be from 0 to 65535":                                                     {"--port", "70000"},
		"playground has no arguments: \"vm.yaml\": use -f for files":                                {"vm.yaml"},
	} {
		got := clitest.Call(t, "", append([]string{"playground"}, args...)...)
		if got.Code != 2 || !strings.Contains(got.ErrOut, want) || got.Out != "" {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
}
