package annotations

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/validators"
)

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		result sarif.Result
		want   string
	}{
		{"a rejection", sarif.Result{Rule: "arm64-disk-bus", Severity: validators.Deny, Text: "spec: wrong", File: "a/vm.yaml", Line: 12, Column: 7}, "::error file=a/vm.yaml,line=12,col=7,title=arm64-disk-bus::spec: wrong"},
		{"a warning", sarif.Result{Rule: "a", Severity: validators.Warn, Text: "b", File: "c"}, "::warning file=c,line=1,col=1,title=a::b"},
		{"an audited policy", sarif.Result{Rule: "policy/a", Severity: validators.Audit, Text: "b", File: "c", Line: 2, Column: 3}, "::notice file=c,line=2,col=3,title=policy/a::b"},
		{"without a file", sarif.Result{Rule: "a", Severity: validators.Deny, Text: "b", Name: "VirtualMachine shop/db spec"}, "::error title=a::VirtualMachine shop/db spec: b"},
		{"two lines", sarif.Result{Rule: "a", Severity: validators.Deny, Text: "b\nRemedy", Name: "n"}, "::error title=a::n: b Remedy"},
		{"a command in a message", sarif.Result{Rule: "a", Severity: validators.Deny, Text: "b\n::add-mask::c\r::stop-commands::d\u2028::e", Name: "n"}, "::error title=a::n: b ::add-mask::c ::stop-commands::d ::e"},
		{"a command in a name", sarif.Result{Rule: "a::b,c=d\n::x::", Severity: validators.Deny, Text: "t", File: "x,line=9::y\n::z%0A"}, "::error file=x%2Cline=9%3A%3Ay %3A%3Az%250A,line=1,col=1,title=a%3A%3Ab%2Cc=d %3A%3Ax%3A%3A::t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, command(&c.result)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

var form = regexp.MustCompile(`^::(error|warning|notice) (file=[^:,]*,line=[0-9]+,col=[0-9]+,)?title=[^:,]*::[^\r\n]*\n$`)

// FuzzWrite requires one line of the one form for any text.
func FuzzWrite(f *testing.F) {
	f.Add("rule", "text\n::error::x", "name", "file,::")
	f.Fuzz(func(t *testing.T, rule, text, name, file string) {
		var out bytes.Buffer
		if err := Write(&out, []sarif.Result{{Rule: rule, Text: text, Name: name, File: file, Severity: validators.Deny}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !form.MatchString(got) || strings.Contains(strings.TrimSuffix(got, "\n"), "\n") {
			t.Errorf("%q", got)
		}
	})
}
