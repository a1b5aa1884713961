package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The versions of the packages that TestSoakSchema compiles with.
var packages = []string{"@grafana/schema@11.6.16", "typescript@5.7.3"}

// TestSoakSchema compiles each dashboard as a value of the type that Grafana publishes. Only it finds fields that Grafana does not
// know, or misses. Grafana itself is in no package registry of the tests.
func TestSoakSchema(t *testing.T) {
	if os.Getenv("VIRTWARD_SOAK") == "" {
		t.Skip("it takes a while: set VIRTWARD_SOAK")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed: apt-get install npm")
	}
	folder := t.TempDir()
	run := func(program string, arguments ...string) {
		command := exec.CommandContext(t.Context(), program, arguments...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, arguments, err, output)
		}
	}
	run(npm, append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder}, packages...)...)
	plain, err := os.ReadFile(filepath.Join("testdata", "plain.ts"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("plain.ts", string(plain))
	files, err := filepath.Glob(filepath.Join(root, "charts", "virtward", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	arguments := []string{"--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler", "--module", "esnext", "--target", "esnext"}
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("dashboard%d.ts", i)
		write(name, "import type { Dashboard } from './plain'\nexport const dashboard: Dashboard = "+string(content))
		arguments = append(arguments, name)
	}
	run(filepath.Join(folder, "node_modules", ".bin", "tsc"), arguments...)
}
