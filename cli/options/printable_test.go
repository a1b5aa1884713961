package options

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]struct{ log, terminal string }{
		"plain text\twith ä and 世\n":           {"plain text\twith ä and 世\n", "plain text\twith ä and 世\n"},
		"\x1b[2J\x1b]0;title\x07":              {`\u001b[2J\u001b]0;title\u0007`, `\u001b[2J\u001b]0;title\u0007`},
		"denied\rallowed\n":                    {`denied\u000dallowed` + "\n", `denied\u000dallowed` + "\n"},
		"a line of Windows\r\n":                {"a line of Windows\r\n", "a line of Windows\r\n"},
		"\u009b31m in one character\x7f\x00\b": {`\u009b31m in one character\u007f\u0000\u0008`, `\u009b31m in one character\u007f\u0000\u0008`},
		"not UTF-8: \x9b31m \xff":              {"not UTF-8: �31m �", "not UTF-8: �31m �"},
		"\u202ereversed\u2066":                 {"\u202ereversed\u2066", `\u202ereversed\u2066`},
		"":                                     {"", ""},
	} {
		for where, want := range map[bool]string{false: want.log, true: want.terminal} {
			for name, read := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
				var out bytes.Buffer
				p := &printable{w: &out, terminal: where}
				if _, err := io.Copy(struct{ io.Writer }{p}, struct{ io.Reader }{read}); err != nil {
					t.Fatal(err)
				}
				if out.String() != want {
					t.Errorf("%q, terminal %v, %s: %q, want %q", text, where, name, out.String(), want)
				}
			}
		}
	}
}

// A value in JSON stays the same.
func TestPrintableJSON(t *testing.T) {
	const value = "\x1b[31m \u009b \x7f \u202e é"
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(Printable(string(text))), &got); err != nil || got != value {
		t.Errorf("%q, %v", got, err)
	}
}
