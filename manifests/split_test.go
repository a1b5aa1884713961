package manifests

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

// described returns a line for each object and each unreadable document of a text, objects first.
func described(t *testing.T, text string) []string {
	t.Helper()
	content, err := ReadParts(context.Background(), "f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range content.Documents {
		got = append(got, fmt.Sprintf("%d %s", d.Index, d.Object.GetKind()))
	}
	for i := range content.Unreadable {
		u := &content.Unreadable[i]
		got = append(got, fmt.Sprintf("%d:%d:%d %v", u.Index, u.Line, u.Column, u.Err))
	}
	return got
}

func TestReadParts(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"an error in the middle", "kind: A\n---\nb: c: d\n---\nkind: C\n", []string{"1 A", "3 C", "2:3:1 line 3: mapping values are not allowed in this context"}},
		{"errors of several kinds", "[\n---\nkind: B\n---\n\n3\n---\na: 1\na: 2\n---\nkind: E", []string{
			"2 B", "4 ", "5 E", "1:1:1 line 1: did not find expected node content", "3:6:1 is the number 3 where an object is expected",
		}},
		{"an error without a line", "kind: A\n---\n\nb: *c\n", []string{"1 A", "2:4:1 unknown anchor 'c' referenced"}},
		{"an open quotation mark", "kind: A\n---\nb: \"c\n---\nkind: C\n", []string{"1 A", "3 C", "2:4:1 line 4: found unexpected end of stream"}},
		{"an open block", "kind: A\n---\nb: |\n  c\n---\nkind: C\n", []string{"1 A", "2 ", "3 C"}},
		{"an end of a document", "kind: A\n...\nkind: B\n...\n", []string{"1 A", "2 B"}},
		{"a document behind the separator", "--- {kind: A}\n--- # one\nkind: B\n--- kind\n--- |\n text\n", []string{"1 A", "2 B", "3:4:5 is a text where an object is expected", "4:5:5 is a text where an object is expected"}},
		{"no separator", "kind: A\n---x: 1\n ---\n", []string{"1 A"}},
		{"directives", "%YAML 1.1\n# the first one\n---\nkind: A\n...\n%YAML 1.1\n---\nkind: B\n", []string{"1 A", "2 B"}},
		{"lines that end as on old systems", "kind: A\r---\rkind: B\r", []string{"1 A", "2 B"}},
		{"items", "kind: List\nitems:\n- kind: A\n- 3\n- kind: C\n", []string{"1 A", "1 C", "1:4:3 items[1]: is the number 3 where an object is expected"}},
		{"JSON objects on lines", "{\"kind\":\"A\"}\n{\"kind\":\n{\"kind\":\"C\"}\n{\n\t\"kind\": \"D\",\n\t\"spec\": {}\n}\n", []string{"1 A", "3 C", "4 D", "2:2:1 line 2: did not find expected node content"}},
		{"a JSON object with a key twice", "{\"kind\":\"A\"}\n{\"kind\":\"B\",\"kind\":\"C\"}\n{\"kind\":\"D\"}", []string{"1 A", "2 C", "3 D"}},
		{"flow mappings on lines", "{kind: A}\n{kind: B}\n", []string{"1 A", "2 B"}},
		{"text behind the end", "---\n{kind: A}\nspec\n---\n  kind: B\nspec: {}\n--- [a]\nb\n", []string{
			"1:2:1 has text behind its end: separate documents by ---", "2:5:1 has text behind its end: separate documents by ---", "3:7:1 has text behind its end: separate documents by ---",
		}},
		{"a byte order mark", "\uFEFFkind: A\n---\nkind: B\n", []string{"1 A", "2 B"}},
		{"little endian", string(utf16Of(binary.LittleEndian, "\uFEFFkind: Ä\n---\nkind: 😀\n")), []string{"1 Ä", "2 😀"}},
		{"big endian", string(utf16Of(binary.BigEndian, "\uFEFFkind: A\n---\nkind: B\n")), []string{"1 A", "2 B"}},
		{"bytes that are no text", "kind: A\n---\n\x00\xff\n---\nkind: C\n", []string{"1 A", "3 C", "2:3:1 control characters are not allowed"}},
		{"too deep", "kind: A\n---\n" + strings.Repeat("[", 20_000) + "\n---\nkind: C\n", []string{"1 A", "3 C", "2:3:1 line 3: exceeded max depth of 10000"}},
		{"aliases that multiply", "kind: A\n---\na: &a [b,b,b,b,b,b,b,b,b]\n" + multiplied("a", "c", "d", "e", "f", "g", "h") + "---\nkind: C\n", []string{"1 A", "3 C", "2:3:1 document contains excessive aliasing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, described(t, c.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The last value counts, as in kubectl.
func TestRepeated(t *testing.T) {
	const text = "kind: List\nitems:\n- kind: A\n  spec: {a: 1, b: {c: 1,\n    c: 2}}\n- kind: B\n  kind: C\n"
	content, err := ReadParts(context.Background(), "f", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range content.Documents {
		got = append(got, fmt.Sprint(d.Object.Object, d.Repeated))
	}
	want := []string{"map[kind:A spec:map[a:1 b:map[c:2]]] [line 5: spec.b.c is already set in line 4]", "map[kind:C] [line 7: kind is already set in line 6]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	strict := content.Strictly()
	if len(strict.Documents) != 0 || len(strict.Unreadable) != 2 || strict.Unreadable[1].Line != 7 {
		t.Errorf("strictly: %v", strict)
	}
	content, err = ReadParts(context.Background(), "f", strings.NewReader("{"+strings.Repeat("a: 1, ", 5*maxRepeated)+"}"))
	if err != nil || len(content.Documents) != 1 || len(content.Documents[0].Repeated) != maxRepeated {
		t.Errorf("many: %v, %v", content, err)
	}
}

// A field beside a merge key replaces the merged one. It is not set twice.
func TestReplacedMerges(t *testing.T) {
	content, err := ReadParts(context.Background(), "f", strings.NewReader("kind: A\nbase: &b {x: 1, z: 1}\nspec:\n  <<: *b\n  z: 2\n"))
	if err != nil || len(content.Documents) != 1 || len(content.Documents[0].Repeated) > 0 {
		t.Fatalf("%v, %v", content, err)
	}
	if got := fmt.Sprint(content.Documents[0].Object.Object["spec"]); got != "map[x:1 z:2]" {
		t.Error(got)
	}
	if at, ok := content.Documents[0].Find("spec.z"); !ok || at.Line != 5 {
		t.Errorf("spec.z is in line %d", at.Line)
	}
	content, err = ReadParts(context.Background(), "f", strings.NewReader("kind: A\nbase: &b {x: 1}\nspec:\n  <<: *b\n  x: 2\n  x: 3\n"))
	if err != nil || len(content.Documents) != 1 || len(content.Documents[0].Repeated) != 1 {
		t.Errorf("a field that is set twice beside a merge key: %v, %v", content, err)
	}
}

// TestRepeatedItems rejects lists that set a field of their own twice: the objects of the first value would be missing.
func TestRepeatedItems(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"kind: List\nitems: [{kind: A}]\nitems: [{kind: B}]\n---\nkind: C\n", []string{"2 C", "1:3:1 line 3: items is already set in line 2"}},
		{"kind: List\nitems: [{kind: A}]\nitems: []\n", []string{"1:3:1 line 3: items is already set in line 2"}},
		{"kind: A\nkind: List\nitems: [{kind: B}]\n", []string{"1:2:1 line 2: kind is already set in line 1"}},
	} {
		if diff := cmp.Diff(c.want, described(t, c.text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

// TestRepeatedDeep reads a file with long names in many objects. The paths of its fields together have gigabytes.
func TestRepeatedDeep(t *testing.T) {
	const depth = 1500
	name := strings.Repeat("k", 1000)
	text := "kind: A\na: 1\na: 2\nb: " + strings.Repeat("{"+name+": ", depth) + "{c: 1, c: 2}" + strings.Repeat("}", depth) + "\n"
	allocated := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			content, err := ReadParts(context.Background(), "f", strings.NewReader(text))
			if err != nil || len(content.Documents) != 1 || len(content.Documents[0].Repeated) != 2 {
				b.Fatalf("%v, %v", content, err)
			}
			if path := content.Documents[0].Repeated[1].Path; len(path) > maxRepeatedPath || !strings.HasPrefix(path, "b.kkk") {
				b.Fatalf("a path of %d bytes", len(path))
			}
		}
	}).AllocedBytesPerOp()
	if most := int64(256 << 20); allocated > most {
		t.Errorf("it allocates %d bytes, more than %d", allocated, most)
	}
}

// multiplied returns a line for each name, with nine aliases of the name before.
func multiplied(names ...string) string {
	var text strings.Builder
	for i := range names[1:] {
		fmt.Fprintf(&text, "%s: &%s [%s]\n", names[i+1], names[i+1], strings.TrimSuffix(strings.Repeat("*"+names[i]+",", 9), ","))
	}
	return text.String()
}

func utf16Of(order binary.AppendByteOrder, text string) (data []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		data = order.AppendUint16(data, unit)
	}
	return data
}

// TestManyUnreadable shows that the list of what cannot be read is bounded.
func TestManyUnreadable(t *testing.T) {
	content, err := ReadParts(context.Background(), "f", strings.NewReader(strings.Repeat("---\n3\n", 5_000)+"---\nkind: A\n"))
	if err != nil || len(content.Documents) != 1 || len(content.Unreadable) != maxUnreadable+1 {
		t.Fatalf("%d documents, %d unreadable, %v", len(content.Documents), len(content.Unreadable), err)
	}
	if want := "f: document 1001: cannot be read, and perhaps later ones: only the first 1000 of a file are listed"; content.Unreadable[maxUnreadable].Error() != want {
		t.Errorf("got %s", content.Unreadable[maxUnreadable].Error())
	}
}

// TestUnreadableFiles reads a directory in which one file cannot be opened, and one is too large.
func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", "kind: A\n")
	write(t, dir, "b.yaml", strings.Repeat("#", MaxFile+1))
	write(t, dir, "c.yaml", "kind: C\n---\n[")
	link(t, dir, "d.yaml")
	content, err := ReadEach(context.Background(), []string{dir}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range content.Unreadable {
		u := &content.Unreadable[i]
		got = append(got, strings.ReplaceAll(u.Error(), dir, "DIR"))
		if !strings.HasPrefix(u.File, dir) {
			t.Errorf("the file of %v is %q", u, u.File)
		}
	}
	want := []string{"DIR/b.yaml: must be no larger than 16 MiB", "DIR/c.yaml: document 2: line 3: did not find expected node content", "DIR/d.yaml: no such file or directory"}
	if diff := cmp.Diff(want, got); diff != "" || len(content.Documents) != 2 {
		t.Errorf("%d documents, errors (-want +got):\n%s", len(content.Documents), diff)
	}
	if _, err := ReadAll(context.Background(), []string{dir}, false, nil); err == nil || !strings.HasSuffix(err.Error(), "b.yaml: must be no larger than 16 MiB") {
		t.Errorf("ReadAll: %v", err)
	}
}

// FuzzSplit puts any text between two documents, and requires that both are read, that each chunk is where it says, and
// that nothing is lost but markers and empty chunks.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{"kind: B", "[", "a: |\n ---\n---\n", "\"\n...\n'", "{\"a\":\n{", "\r--- x\r", "%\n#\n", "\x00", "\u2028---\n", "a: &a [*a]", "--- >\n x", "\uFEFF--- a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data := []byte("kind: First\n---\n" + text + "\n---\nkind: Last\n")
		whole := &cursor{text: newText(data, 1, 1), line: 1, column: 1}
		from, rest := 0, []byte(nil)
		for _, chunk := range split(data) {
			at := from + bytes.Index(data[from:], chunk.content)
			for { // the same text may be in a comment before
				if whole.advance(at); whole.line == chunk.line && whole.column == chunk.column {
					break
				}
				next := bytes.Index(data[at+1:], chunk.content)
				if next < 0 {
					t.Fatalf("%q is not at %d:%d", chunk.content, chunk.line, chunk.column)
				}
				at += 1 + next
			}
			rest, from = append(rest, data[from:at]...), at+len(chunk.content)
		}
		for line := range bytes.FieldsFuncSeq(append(rest, data[from:]...), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' && !isMarker(line) && !isMarker(line[:min(len(line), markerLength)]) {
				t.Errorf("%q is lost", line)
			}
		}
		content, err := ReadParts(t.Context(), "f", bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		n := len(content.Documents)
		if n < 2 || content.Documents[0].Object.GetKind() != "First" || content.Documents[n-1].Object.GetKind() != "Last" {
			t.Fatalf("the documents around %q are not read: %v", text, content.Documents)
		}
		for i := range content.Unreadable {
			u := &content.Unreadable[i]
			if u.Line < 1 || u.Line > 2+bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte("\r")) {
				t.Errorf("%v is at line %d", u, u.Line)
			}
		}
	})
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// link creates a link to a file that does not exist.
func link(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Symlink(filepath.Join(dir, "missing"), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}
