package clitest

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli"
)

var update = flag.Bool("update", false, "write the golden files")

// Exit codes of the program.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// Result is what a call of the program returned and wrote.
type Result struct {
	Code        int
	Out, ErrOut string
}

// Call runs the program as kubectl does.
func Call(t testing.TB, stdin string, args ...string) Result {
	t.Helper()
	return CallAs(t, "/usr/local/bin/kubectl-virtward", stdin, args...)
}

// CallAs runs the program by a path of its own.
func CallAs(t testing.TB, path, stdin string, args ...string) Result {
	t.Helper()
	return Start(t, cli.Run, path, stdin, args...)
}

// Start runs another program by its path. The function gets the version, the arguments and the streams.
func Start(t testing.TB, run func(context.Context, string, []string, genericiooptions.IOStreams) int, path, stdin string, args ...string) Result {
	t.Helper()
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut}
	code := run(t.Context(), "development", append([]string{path}, args...), streams)
	return Result{Code: code, Out: out.String(), ErrOut: errOut.String()}
}

// Golden compares a text with testdata/golden/NAME of the test's package, or writes that file with -update.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-golden +got):\n%s", path, diff)
	}
}

// Decode decodes a text, and ends the test if it cannot.
func Decode(t *testing.T, decode func([]byte, any) error, text string, into any) {
	t.Helper()
	if err := decode([]byte(text), into); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
}
