package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/test/soak"
)

// asCommand makes this test program the command.
const asCommand = "VIRTWARD_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		args := append([]string{"kubectl-virtward"}, os.Args[1:]...)
		os.Exit(cli.Run(context.Background(), "v1.2.3", args, genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
	os.Exit(m.Run())
}

// client runs a client, which starts this test program as the server, and returns its output.
func client(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), asCommand+"=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return out
}

func program(t *testing.T) string {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return executable
}

// TestSoakNodeClient uses the library of Visual Studio Code's clients. make editors installs it.
func TestSoakNodeClient(t *testing.T) {
	soak.Only(t)
	script, err := filepath.Abs("../../editors/vscode/test/client.js")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("../../editors/vscode/node_modules"); err != nil {
		t.Skip("make editors installs the packages of the client")
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "vm.yaml"), vm)
	write(t, filepath.Join(folder, "m1.yaml"), instancetype)
	var got struct {
		Capabilities protocol.ServerCapabilities
		Diagnostics  []protocol.Diagnostic
		Hover        protocol.Hover
		Completion   protocol.CompletionList
		Definition   protocol.Location
		Lenses       []protocol.CodeLens
		Hints        []protocol.InlayHint
		Exit         int
	}
	got.Exit = -1
	if err := json.Unmarshal(client(t, "node", script, program(t), folder), &got); err != nil {
		t.Fatal(err)
	}
	if got.Capabilities.PositionEncoding != text.UTF16 || got.Exit != 0 || len(got.Diagnostics) == 0 || len(got.Hints) == 0 || len(got.Lenses) != 1 {
		t.Errorf("%+v", got)
	}
	if len(got.Completion.Items) != 1 || got.Completion.Items[0].Label != "m1.large" || !strings.HasSuffix(got.Definition.URI, "/m1.yaml") {
		t.Errorf("completion %+v, definition %+v", got.Completion, got.Definition)
	}
	if !strings.Contains(got.Hover.Contents.Value, "Name is the name of the") {
		t.Errorf("hover %+v", got.Hover)
	}
}

// TestSoakNeovim uses Neovim's own client.
func TestSoakNeovim(t *testing.T) {
	soak.Only(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "vm.yaml"), vm)
	write(t, filepath.Join(folder, "m1.yaml"), instancetype)
	write(t, filepath.Join(folder, "test.lua"), fmt.Sprintf(`
vim.cmd('edit ' .. %[2]q .. '/vm.yaml')
local id = vim.lsp.start_client({ name = 'virtward', cmd = { %[1]q, 'lsp' }, root_dir = %[2]q })
vim.lsp.buf_attach_client(0, id)
if not vim.wait(30000, function() return #vim.diagnostic.get(0) > 0 end) then error('no diagnostics') end
vim.api.nvim_win_set_cursor(0, { 8, 18 })
local answers = vim.lsp.buf_request_sync(0, 'textDocument/hover', vim.lsp.util.make_position_params(0, 'utf-16'), 10000)
for _, a in pairs(answers) do io.stdout:write(a.result.contents.value .. '\n') end
for _, d in ipairs(vim.diagnostic.get(0)) do io.stdout:write(d.lnum .. ':' .. d.col .. ' ' .. d.code .. '\n') end
`, program(t), folder))
	out := string(client(t, "nvim", "--headless", "--clean", "-c", "luafile "+filepath.Join(folder, "test.lua"), "-c", "qa!"))
	if !strings.Contains(out, "Name is the name of the") || !strings.Contains(out, "12:44 disk-bus-known") { // Neovim's columns count bytes
		t.Error(out)
	}
}

// TestSoakMemory opens a folder of 500 files.
func TestSoakMemory(t *testing.T) {
	soak.Only(t)
	if !isolated.Run(t) {
		return
	}
	folder, before, most := t.TempDir(), isolated.Heap(), int64(0)
	for i := range 500 {
		name := fmt.Sprintf("m%d", i)
		switch {
		case i < 20:
			write(t, filepath.Join(folder, "policies", name+".yaml"), strings.ReplaceAll(policy, "memory-limit", name))
		case i < 100:
			write(t, filepath.Join(folder, "types", name+".yaml"), strings.ReplaceAll(instancetype, "m1.large", name))
		default:
			write(t, filepath.Join(folder, "vms", name+".yaml"), strings.ReplaceAll(vm, "m1.large", fmt.Sprintf("m%d", 20+i%80)))
		}
	}
	s := start(t, folder)
	for i := range 10 {
		uri := fmt.Sprintf("file://%s/vms/m%d.yaml", folder, 100+i)
		s.open(uri, 1, vm)
		s.diagnostics(uri, 1)
		if failed := s.request("textDocument/inlayHint", about(uri), nil); failed != nil {
			t.Fatal(failed)
		}
		most = max(most, isolated.InUse())
	}
	kept := isolated.Heap() - before
	t.Logf("%d MiB are kept, and at most %d MiB were used", kept>>20, most>>20)
	if most > 150<<20 {
		t.Errorf("%d MiB are used, want at most 150", most>>20)
	}
	s.end()
}
