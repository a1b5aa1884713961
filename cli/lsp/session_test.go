package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
)

// session is a client of the command.
type session struct {
	t        testing.TB
	stream   *protocol.Stream
	messages chan *protocol.Message
	ended    chan int
	last     int
}

// start runs the command, and initializes it for a folder.
func start(t testing.TB, folder string, encodings ...text.Encoding) *session {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	s := &session{t: t, stream: protocol.NewStream(fromServer, toServer), messages: make(chan *protocol.Message, 1000), ended: make(chan int, 1)}
	go func() {
		s.ended <- cli.Run(context.Background(), "v1.2.3", []string{"kubectl-virtward", "lsp"}, genericiooptions.IOStreams{In: in, Out: out, ErrOut: io.Discard})
		out.Close()
	}()
	go func() {
		defer close(s.messages)
		for {
			m, err := s.stream.Read()
			if err != nil {
				return
			}
			s.messages <- m
		}
	}()
	t.Cleanup(func() { toServer.Close() })
	params := map[string]any{"capabilities": map[string]any{"general": map[string]any{"positionEncodings": encodings}}}
	if folder != "" {
		params["workspaceFolders"] = []any{map[string]any{"uri": "file://" + folder, "name": "test"}}
	}
	var initialized protocol.InitializeResult
	if failed := s.request("initialize", params, &initialized); failed != nil {
		t.Fatal(failed)
	}
	want := text.UTF16
	if len(encodings) > 0 {
		want = encodings[0]
	}
	if got := initialized.Capabilities.PositionEncoding; got != want {
		t.Fatalf("encoding %s, want %s", got, want)
	}
	s.notify("initialized", map[string]any{})
	return s
}

func (s *session) write(m *protocol.Message, params any) {
	s.t.Helper()
	data, err := json.Marshal(params)
	if err != nil {
		s.t.Fatal(err)
	}
	m.Params = data
	if err := s.stream.Write(m); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) notify(method string, params any) {
	s.t.Helper()
	s.write(&protocol.Message{Method: method}, params)
}

// next returns the next message that a function accepts.
func (s *session) next(what string, accept func(*protocol.Message) bool) *protocol.Message {
	s.t.Helper()
	deadline := time.After(15 * time.Second)
	for {
		select {
		case m, ok := <-s.messages:
			if !ok {
				s.t.Fatalf("the server ended before %s", what)
			}
			if accept(m) {
				return m
			}
		case <-deadline:
			s.t.Fatalf("no %s", what)
		}
	}
}

// request sends a request, and decodes its result.
func (s *session) request(method string, params, result any) *protocol.Error {
	s.t.Helper()
	s.last++
	id := fmt.Sprint(s.last)
	s.write(&protocol.Message{ID: json.RawMessage(id), Method: method}, params)
	m := s.next("answer to "+method, func(m *protocol.Message) bool { return string(m.ID) == id && m.Method == "" })
	if result != nil && m.Error == nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			s.t.Fatalf("%s: %v: %s", method, err, m.Result)
		}
	}
	return m.Error
}

func (s *session) open(uri string, version int, content string) {
	s.t.Helper()
	s.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": version, "text": content}})
}

func (s *session) change(uri string, version int, changes ...text.Change) {
	s.t.Helper()
	s.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": version}, "contentChanges": changes})
}

// diagnostics returns the diagnostics of a version of a document, one line each: LINE:CHARACTER-CHARACTER SEVERITY CODE MESSAGE.
func (s *session) diagnostics(uri string, version int) []string {
	s.t.Helper()
	var params protocol.PublishDiagnosticsParams
	s.next(fmt.Sprintf("diagnostics of version %d of %s", version, uri), func(m *protocol.Message) bool {
		params = protocol.PublishDiagnosticsParams{}
		return m.Method == "textDocument/publishDiagnostics" && json.Unmarshal(m.Params, &params) == nil && params.URI == uri && params.Version != nil && *params.Version == version
	})
	lines := []string{}
	for _, d := range params.Diagnostics {
		lines = append(lines, fmt.Sprintf("%d:%d-%d %d %s %s", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Character, d.Severity, d.Code, strings.ReplaceAll(d.Message, "\n", " | ")))
	}
	return lines
}

// end ends the session as an editor does.
func (s *session) end() {
	s.t.Helper()
	if failed := s.request("shutdown", nil, nil); failed != nil {
		s.t.Fatal(failed)
	}
	s.notify("exit", nil)
	if code := <-s.ended; code != 0 {
		s.t.Fatalf("exit code %d", code)
	}
}

// about are the parameters of a request about a document.
func about(uri string) map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}}
}

func write(t testing.TB, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contains fails unless one of the lines begins with a text, and returns that line.
func contains(t testing.TB, lines []string, prefix string) string {
	t.Helper()
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			return l
		}
	}
	t.Fatalf("no line begins with %q:\n%s", prefix, strings.Join(lines, "\n"))
	return ""
}

const vm = `apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: db # 🇫🇷
  namespace: shop
spec:
  runStrategy: Always
  instancetype: {name: m1.large}
  template:
    spec:
      domain:
        devices:
          disks: [{name: ä🇫🇷, disk: {bus: sat}}]
`

const instancetype = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: m1.large}
spec: {cpu: {guest: 2}, memory: {guest: 16Gi}}
`

const policy = `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicy
metadata: {name: memory-limit}
spec:
  enforcement: Deny
  validations:
  - expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0"
    message: too much memory
    fieldPath: spec.domain.memory.guest
`

// The columns of the bus differ, because the line has characters of several widths before it.
func TestSession(t *testing.T) {
	for _, c := range []struct {
		encoding text.Encoding
		at       string
	}{{text.UTF16, "12:39-42"}, {text.UTF8, "12:44-47"}, {text.UTF32, "12:37-40"}} {
		t.Run(string(c.encoding), func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, "types", "m1.yaml"), instancetype)
			s := start(t, folder, c.encoding)
			uri := "file://" + folder + "/vm.yaml"
			s.open(uri, 1, vm)
			contains(t, s.diagnostics(uri, 1), c.at+` 1 disk-bus-known spec.template.spec.domain.devices.disks[0].disk.bus: Invalid value: "sat": the bus is unknown`)

			var line, from, to int
			if _, err := fmt.Sscanf(c.at, "%d:%d-%d", &line, &from, &to); err != nil {
				t.Fatal(err)
			}
			s.change(uri, 2, text.Change{Range: &text.Range{Start: text.Position{Line: line, Character: from + 5}, End: text.Position{Line: line, Character: to + 5}}, Text: "sata"})
			for _, l := range s.diagnostics(uri, 2) {
				if strings.Contains(l, "disk-bus-known") {
					t.Errorf("the bus is corrected: %s", l)
				}
			}

			limit := "file://" + folder + "/policies/limit.yaml"
			s.open(limit, 1, policy)
			found := s.diagnostics(limit, 1)
			contains(t, found, "2:11-15 2 lint/tested metadata.name: no suite in these files has a case for this policy")
			contains(t, found, "3:0-4 2 lint/documented spec.title: should be set")
			contains(t, s.diagnostics(uri, 2), "7:17-21 1 policy/memory-limit spec.instancetype")

			var lenses []protocol.CodeLens
			if failed := s.request("textDocument/codeLens", about(uri), &lenses); failed != nil {
				t.Fatal(failed)
			}
			if len(lenses) != 1 || lenses[0].Range.Start.Line != 1 || lenses[0].Command.Title != "1 policy and 2 built-in rules deny this" {
				t.Errorf("lenses %+v", lenses)
			}

			s.notify("textDocument/didClose", about(limit))
			if got := s.diagnostics(limit, 1); len(got) > 0 {
				t.Errorf("a closed document has diagnostics: %q", got)
			}
			for _, l := range s.diagnostics(uri, 2) {
				if strings.Contains(l, "memory-limit") {
					t.Errorf("the policy was never saved: %s", l)
				}
			}
			s.end()
		})
	}
}

// A broken document is an error at its line, and the other documents of the file are evaluated.
func TestBrokenYAML(t *testing.T) {
	s := start(t, t.TempDir())
	s.open("untitled:Untitled-1", 1, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec:\n  a: [\n---\n"+vm)
	found := s.diagnostics("untitled:Untitled-1", 1)
	contains(t, found, "3:0-")
	contains(t, found, "17:39-42 1 disk-bus-known")
	s.open("untitled:other", 1, "a: [\n")
	if got := s.diagnostics("untitled:other", 1); len(got) > 0 {
		t.Errorf("a file without a kind of KubeVirt or Virtward has diagnostics: %q", got)
	}
	s.end()
}

// A change of a file on disk is read when the editor reports it.
func TestWatchedFiles(t *testing.T) {
	folder := t.TempDir()
	write(t, filepath.Join(folder, "policy.yaml"), policy)
	write(t, filepath.Join(folder, ".hidden", "policy.yaml"), strings.ReplaceAll(policy, "memory-limit", "hidden"))
	write(t, filepath.Join(folder, "m1.yaml"), strings.ReplaceAll(instancetype, "16Gi", "4Gi"))
	s := start(t, folder)
	uri := "file://" + folder + "/vm.yaml"
	s.open(uri, 1, vm)
	if found := strings.Join(s.diagnostics(uri, 1), "\n"); strings.Contains(found, "policy/") {
		t.Fatal(found)
	}
	write(t, filepath.Join(folder, "m1.yaml"), instancetype+"# larger\n")
	s.notify("workspace/didChangeWatchedFiles", map[string]any{"changes": []any{}})
	found := s.diagnostics(uri, 1)
	contains(t, found, "7:17-21 1 policy/memory-limit")
	if all := strings.Join(found, "\n"); strings.Contains(all, "policy/hidden") {
		t.Error(all)
	}
	s.end()
}

// Symbolic links do not lead out of the folder, neither in it nor by names in suites.
func TestNothingOutsideOfTheFolder(t *testing.T) {
	outside, folder := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "secret.yaml"), "apiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicy\nmetadata: {name: hunter2}\nspec: {enforcement: Deny, validations: [{expression: \"false\", message: hunter2}]}\n")
	if err := os.Symlink(filepath.Join(outside, "secret.yaml"), filepath.Join(folder, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(folder, "directory")); err != nil {
		t.Fatal(err)
	}
	s := start(t, folder)
	vms, suite := "file://"+folder+"/vm.yaml", "file://"+folder+"/suite.yaml"
	s.open(vms, 1, vm)
	if found := strings.Join(s.diagnostics(vms, 1), "\n"); strings.Contains(found, "hunter2") {
		t.Error(found)
	}
	for i, name := range []string{"link.yaml", "directory/secret.yaml", "../" + filepath.Base(outside) + "/secret.yaml", filepath.Join(outside, "secret.yaml")} {
		s.open(suite, i+1, "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: s}\ntests:\n- name: t\n  policies: ["+name+"]\n  cases: [{name: c, object: "+name+", expect: {allowed: true}}]\n")
		if found := strings.Join(s.diagnostics(suite, i+1), "\n"); strings.Contains(found, "hunter2") {
			t.Errorf("%s: %s", name, found)
		}
	}
	s.end()
}

func TestBounds(t *testing.T) {
	s := start(t, "")
	large := "apiVersion: kubevirt.io/v1\n" + strings.Repeat("# filling the file\n", 60_000)
	s.open("untitled:large", 1, large)
	contains(t, s.diagnostics("untitled:large", 1), "0:0-0 2  the document is larger than 1 MiB: it is not analyzed")
	s.change("untitled:large", 2, text.Change{Text: vm})
	contains(t, s.diagnostics("untitled:large", 2), "12:39-42 1 disk-bus-known")
	for i := range 200 {
		s.open(fmt.Sprintf("untitled:%d", i), 1, "")
	}
	contains(t, s.diagnostics("untitled:199", 1), "0:0-0 2  at most 200 open documents are analyzed")
	s.end()
}

// A message that is too large ends neither the session nor the analysis of other documents, unless it can be a change of them.
func TestLargeMessages(t *testing.T) {
	s := start(t, "")
	s.open("untitled:vm", 1, vm)
	contains(t, s.diagnostics("untitled:vm", 1), "12:39-42 1 disk-bus-known")
	isRefused := func(m *protocol.Message) bool {
		return m.Error != nil && m.Error.Message == "a message can have at most 16 MiB"
	}
	huge := strings.Repeat("a", protocol.MaxMessage)
	s.open("untitled:huge", 1, huge)
	s.next("error", isRefused)
	s.change("untitled:huge", 2, text.Change{Range: &text.Range{}, Text: "a"})
	var hover json.RawMessage
	params := about("untitled:vm")
	params["position"] = text.Position{Line: 6, Character: 4}
	if failed := s.request("textDocument/hover", params, &hover); failed != nil || !strings.Contains(string(hover), "spec.runStrategy") {
		t.Errorf("%v: %s", failed, hover)
	}
	s.change("untitled:vm", 2, text.Change{Range: &text.Range{}, Text: huge})
	s.next("error", isRefused)
	contains(t, s.diagnostics("untitled:vm", 1), "0:0-0 2  a message can have at most 16 MiB; open it again when it is changed")
	s.change("untitled:vm", 3, text.Change{Text: vm})
	contains(t, s.diagnostics("untitled:vm", 3), "12:39-42 1 disk-bus-known")
	s.end()
}

// A request that waits for the analysis of a document has an answer, also if the document is then too large.
func TestWaitingForRejected(t *testing.T) {
	s := start(t, "")
	s.open("untitled:vm", 1, vm)
	s.diagnostics("untitled:vm", 1)
	s.change("untitled:vm", 2, text.Change{Text: vm + "# another\n"})
	s.write(&protocol.Message{ID: json.RawMessage(`"waits"`), Method: "textDocument/codeLens"}, about("untitled:vm"))
	s.change("untitled:vm", 3, text.Change{Text: strings.Repeat("# filling the file\n", 60_000)})
	s.next("answer", func(m *protocol.Message) bool { return string(m.ID) == `"waits"` })
	s.end()
}

func TestProtocolErrors(t *testing.T) {
	s := start(t, "")
	if failed := s.request("textDocument/unknown", map[string]any{}, nil); failed == nil || failed.Code != protocol.CodeUnknownMethod {
		t.Errorf("error %v", failed)
	}
	if failed := s.request("initialize", map[string]any{}, nil); failed == nil || failed.Message != "initialize must be sent once" {
		t.Errorf("error %v", failed)
	}
	s.notify("exit", nil)
	if code := <-s.ended; code != 1 {
		t.Errorf("exit code %d without shutdown", code)
	}
}

// FuzzEdits compares the diagnostics and the answers after edits with those of a fresh server that opens the result.
func FuzzEdits(f *testing.F) {
	f.Add("sata", "\n---\n", 12, 39, 12, 42, 5, 0, 5, 3)
	f.Add("\n", "🇫🇷", 3, 0, 3, 2, 12, 19, 12, 27)
	f.Add("a: [", "- x", 6, 0, 6, 0, 0, 0, 9, 9)
	f.Add("", "", 0, 0, 5, 0, 1, 1, 2, 2)
	folder := f.TempDir()
	write(f, filepath.Join(folder, "types.yaml"), instancetype+"---\n"+policy)
	uri := "file://" + folder + "/vm.yaml"
	f.Fuzz(func(t *testing.T, one, two string, a, b, c, d, e, g, h, i int) {
		encoding := []text.Encoding{text.UTF16, text.UTF8, text.UTF32}[len(one+two)%3]
		s := start(t, folder, encoding)
		s.open(uri, 1, policy+"---\n"+vm)
		want := text.New(policy + "---\n" + vm)
		version := 1
		for _, change := range []text.Change{
			{Range: &text.Range{Start: text.Position{Line: a, Character: b}, End: text.Position{Line: c, Character: d}}, Text: strings.ToValidUTF8(one, "?")},
			{Range: &text.Range{Start: text.Position{Line: e, Character: g}, End: text.Position{Line: h, Character: i}}, Text: strings.ToValidUTF8(two, "?")},
		} {
			edited, err := want.Apply([]text.Change{change}, encoding, 1<<20)
			if err != nil {
				continue // TestBounds has what is rejected
			}
			s.diagnostics(uri, version)
			version++
			want = edited
			s.change(uri, version, change)
		}
		state := func(s *session) []string {
			lines := s.diagnostics(uri, version)
			for _, method := range []string{"codeLens", "inlayHint", "hover", "definition", "completion", "codeAction"} {
				params := about(uri)
				params["position"] = text.Position{Line: a, Character: b}
				params["range"] = text.Range{End: text.Position{Line: 1000}}
				var answer json.RawMessage
				if failed := s.request("textDocument/"+method, params, &answer); failed != nil {
					t.Fatal(failed)
				}
				lines = append(lines, method+" "+string(answer))
			}
			s.end()
			return lines
		}
		got := state(s)
		fresh := start(t, folder, encoding)
		fresh.open(uri, version, want.String())
		if diff := cmp.Diff(state(fresh), got); diff != "" {
			t.Fatalf("%s: (-fresh +edited):\n%s", encoding, diff)
		}
	})
}

// BenchmarkChange measures the time from a change of a file of 300 lines to its diagnostics, with the delay for further changes.
func BenchmarkChange(b *testing.B) {
	folder := b.TempDir()
	write(b, filepath.Join(folder, "types.yaml"), instancetype+"---\n"+policy)
	content := vm + "        resources:\n          requests: {memory: 1Gi}\n"
	for i := 0; strings.Count(content, "\n") < 300; i++ {
		content += fmt.Sprintf("      # line %d\n", i)
	}
	s := start(b, folder)
	uri := "file://" + folder + "/vm.yaml"
	s.open(uri, 1, content)
	s.diagnostics(uri, 1)
	for i := range b.N {
		s.change(uri, i+2, text.Change{Range: &text.Range{Start: text.Position{Line: 12, Character: 39}, End: text.Position{Line: 12, Character: 39}}, Text: "x"})
		s.diagnostics(uri, i+2)
	}
	s.end()
}
