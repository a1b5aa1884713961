package pages

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Shell runs the commands of a page in their order, as a reader does.
type Shell struct {
	// Folder is where the commands run.
	Folder string
	// Environment is all of theirs.
	Environment []string
	// Instead are the commands that cannot run here as they are printed.
	Instead []Replacement
	// Before is called before a command, with whether the page shows that it succeeds, if it is not nil.
	Before func(t *testing.T, s *Shell, command string, succeeds bool)
	// Objects checks the objects of a YAML block, if it is not nil.
	Objects func(t *testing.T, yaml string) error
}

// Replacement replaces the words at the beginning of a line of commands. The output of the line is not compared, unless it is the same.
type Replacement struct {
	Words, With string
	SameOutput  bool
	// Why says why nothing runs instead.
	Why string
}

// fails matches the output of a command that a page shows to fail.
var fails = regexp.MustCompile(`is invalid|denied|forbidden|rejected|(?i)^(…\n)?error|\nerror: `)

// optional matches programs of Debian that commands need, and that a machine need not have.
var optional = regexp.MustCompile(`\b(jq|openssl)\b`)

// maxDuration is for commands that would never end.
const maxDuration = 5 * time.Minute

// Run runs a script of bash.
func (s *Shell) Run(ctx context.Context, script string, options ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxDuration)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", append(options, "-o", "pipefail", "-c", script)...)
	bash.Dir, bash.Env = s.Folder, s.Environment
	output, err := bash.CombinedOutput()
	return string(output), err
}

// Page runs the blocks of a page.
func (s *Shell) Page(t *testing.T, blocks []Block) {
	t.Helper()
	for i := range blocks {
		b := &blocks[i]
		_, skipped := b.Notes[NotRun]
		_, tested := b.Notes[TestedBy]
		file, isFile := b.Notes[File]
		switch {
		case isFile:
			if err := os.WriteFile(filepath.Join(s.Folder, file), []byte(b.words(b.Text)), 0o600); err != nil {
				t.Fatal(err)
			}
		case skipped, tested:
		case b.IsCommands():
			for _, example := range b.Examples() {
				s.example(t, b, &example)
			}
		case b.Language == "yaml" && b.Notes[From] == "":
			s.yaml(t, b)
		}
	}
}

// yaml checks the objects of a block.
func (s *Shell) yaml(t *testing.T, b *Block) {
	t.Helper()
	check := s.Objects
	if check == nil {
		check = func(_ *testing.T, text string) error { return yaml.UnmarshalStrict([]byte(text), &map[string]any{}) }
	}
	if err := check(t, b.words(b.Text)); err != nil {
		t.Errorf("line %d: %v", b.Line, err)
	}
}

// logged matches what the client library of kubectl logs.
var logged = regexp.MustCompile(`(?m)^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \w+\.go:\d+\] .*\n?`)

// withoutLogs leaves out logs, which depend on the time: kubectl wait can log the end of its own watch when the condition is met.
func withoutLogs(output string) string { return logged.ReplaceAllString(output, "") }

// example runs one command, and compares its output.
func (s *Shell) example(t *testing.T, b *Block, shown *Example) {
	t.Helper()
	_, other := b.Notes[RunsOnly]
	command, compared := shown.Command, b.Language == "console" && !other
	for _, r := range s.Instead {
		words := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(r.Words) + `\b`)
		if r.Why != "" && words.MatchString(command) {
			return
		}
		if words.MatchString(command) {
			command, compared = words.ReplaceAllLiteralString(command, r.With), compared && r.SameOutput
			break
		}
	}
	for _, program := range optional.FindAllString(command, -1) {
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("line %d is left out: .ci/system-packages installs %s", shown.Line, program)
			return
		}
	}
	if s.Before != nil {
		s.Before(t, s, command, !compared || !fails.MatchString(shown.String()))
	}
	var options []string
	if b.Language != "console" {
		options = []string{"-e"} // one of several commands can fail
	}
	got, err := s.Run(t.Context(), command, options...)
	var exit *exec.ExitError
	expected := compared && errors.As(err, &exit) && len(shown.Output) > 0 // the output says what fails
	if err != nil && !expected && !other {
		t.Errorf("line %d: $ %s\n%v\n%s", shown.Line, command, err, got)
	}
	if compared && len(shown.Output) > 0 && !shown.Shows(withoutLogs(got)) {
		t.Errorf("line %d: $ %s\nthe page shows\n%s\nthe command prints\n%s", shown.Line, command, shown, got)
	}
}
