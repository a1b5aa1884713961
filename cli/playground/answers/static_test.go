package answers_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/test/soak"
)

// TestSoakStatic builds the playground of the site, and uses it in Chromium: its answers to 200 random questions are those of this
// process, which TestEqualsCommands compares with the commands. VIRTWARD_STATIC is a folder of a build to use, and VIRTWARD_SHOTS one
// for pictures.
func TestSoakStatic(t *testing.T) {
	soak.Only(t)
	for _, program := range []string{"node", "npm", "chromium", "zstd"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: apt-get install nodejs npm chromium zstd", program)
		}
	}
	site, err := filepath.Abs("../../../site")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, arguments ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, arguments...)
		command.Dir = site
		command.Env = append(os.Environ(), "SHOTS="+os.Getenv("VIRTWARD_SHOTS"))
		out, err := command.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(site, "node_modules", "fzstd")); err != nil {
		run("npm", "ci", "--no-audit", "--no-fund")
	}
	folder := os.Getenv("VIRTWARD_STATIC")
	if folder == "" {
		folder = filepath.Join(t.TempDir(), "play")
		run("play/build", folder)
	}
	type pair struct {
		Question *answers.Question `json:"question"`
		Answer   json.RawMessage   `json:"answer"`
	}
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // reproducible
	examples := answers.NewStart().Examples
	var pairs []pair
	for range 200 {
		q := randomQuestion(random, examples)
		question, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, pair{q, json.RawMessage(answerer.AnswerJSON(t.Context(), string(question)))})
	}
	data, err := json.Marshal(pairs)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pairs.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run("node", "playground.mjs", folder, file)
}
