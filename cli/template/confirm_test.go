package template

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/cli/options"
)

// On a terminal, only yes approves.
func TestConfirm(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var errOut bytes.Buffer
		a := newApproval(options.Program{Streams: genericiooptions.IOStreams{In: strings.NewReader(answer), ErrOut: &errOut}})
		a.isTerminal = func() bool { return true }
		err := a.confirm(&subresources.TemplateReview{Digest: "sha256:aaaa"})
		if (err == nil) != want || errOut.String() != "Approve this template? [y/N] " {
			t.Errorf("%q: %v, %s", answer, err, errOut.String())
		}
	}
}
