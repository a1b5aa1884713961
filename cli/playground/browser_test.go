package playground

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/virtward/virtward/test/soak"
)

// TestSoakBrowser uses the page in Chromium: it types, clicks and presses keys, opens hostile files and links, and measures contrast and
// width. VIRTWARD_SHOTS is a folder for pictures.
func TestSoakBrowser(t *testing.T) {
	soak.Only(t)
	for _, program := range []string{"node", "npm", "chromium"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: apt-get install nodejs npm chromium", program)
		}
	}
	site, err := filepath.Abs("../../site")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(site, "node_modules", "playwright-core")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund")
		install.Dir = site
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v: %s", err, out)
		}
	}
	b := open(t)
	script := exec.CommandContext(t.Context(), "node", filepath.Join(site, "playground.mjs"), b.server.link())
	script.Env = append(os.Environ(), "SHOTS="+os.Getenv("VIRTWARD_SHOTS"))
	out, err := script.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
