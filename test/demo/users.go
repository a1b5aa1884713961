package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The users, who have a kubeconfig each. Carol can only use templates, and editor can edit VMs in every namespace.
const (
	admin  = "admin"
	alice  = "alice"
	bob    = "bob"
	carol  = "carol"
	editor = "editor"
)

// call runs a command line as a user would in the repository's folder: words are separated by spaces, and may be in single
// quotes. It returns what was printed, and the error if the command failed.
func (s *show) call(ctx context.Context, who, line string) (string, error) {
	var output bytes.Buffer
	err := s.start(ctx, who, line, &output, &output)
	return output.String(), err
}

// decode reads the JSON that a command of Alice prints on standard output.
func (s *show) decode(ctx context.Context, line string, into any) error {
	var output, complaints bytes.Buffer
	if err := s.start(ctx, alice, line, &output, &complaints); err != nil {
		return fmt.Errorf("%w%s", err, &complaints)
	}
	if err := json.Unmarshal(output.Bytes(), into); err != nil {
		return fmt.Errorf("%s$ %s: %w", alice, line, err)
	}
	return nil
}

func (s *show) start(ctx context.Context, who, line string, stdout, stderr io.Writer) error {
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.Trim(words[i], "'")
	}
	if words[0] != "kubectl" {
		return fmt.Errorf("%q is not a command of kubectl", line)
	}
	bin := s.cluster.Binary("")
	cmd := exec.CommandContext(ctx, s.cluster.Binary("sandbox/kubectl"), words[1:]...)
	cmd.Dir = filepath.Dir(bin)
	cmd.Env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), // for kubectl virtward
		"HOME=" + s.cluster.Dir(), // for kubectl's cache
		"KUBECONFIG=" + s.kubeconfigs[who],
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// failed says which command it was.
func failed(who, line, output string, err error) error {
	return fmt.Errorf("%s$ %s: %w\n%s", who, line, err, output)
}

// does shows a command and its output, and fails if the command does.
func (s *show) does(ctx context.Context, who, line string) (string, error) {
	s.prompt(who, line)
	output, err := s.call(ctx, who, line)
	if err != nil {
		return "", failed(who, line, output, err)
	}
	s.output(output)
	return output, nil
}

// doesAll shows commands that must succeed.
func (s *show) doesAll(ctx context.Context, who string, lines ...string) error {
	return s.follow(ctx, []step{{as: who, runs: lines}})
}

// greps shows `line | grep pattern`, or with onlyMatching `grep -o`, and fails if nothing is left. What the
// command complains of, a pipe does not filter.
func (s *show) greps(ctx context.Context, who, line string, pattern *regexp.Regexp, onlyMatching bool) (string, error) {
	grep := " | grep "
	if onlyMatching {
		grep += "-o "
	}
	s.prompt(who, line+grep+"'"+pattern.String()+"'")
	var output, complaints bytes.Buffer
	if err := s.start(ctx, who, line, &output, &complaints); err != nil {
		return "", failed(who, line, complaints.String(), err)
	}
	var kept strings.Builder
	for l := range strings.Lines(output.String()) {
		switch found := pattern.FindString(strings.TrimSuffix(l, "\n")); {
		case found == "":
		case onlyMatching:
			kept.WriteString(found + "\n")
		default:
			kept.WriteString(l)
		}
	}
	if kept.Len() == 0 {
		return "", fmt.Errorf("%s$ %s: no line with %q in:\n%s", who, line, pattern, &output)
	}
	s.output(complaints.String() + kept.String())
	return kept.String(), nil
}

// isRejected shows a command that is to fail, and fails if it does not.
func (s *show) isRejected(ctx context.Context, who, line string) (string, error) {
	s.prompt(who, line)
	output, err := s.fails(ctx, who, line)
	if err != nil {
		return "", err
	}
	s.output(output)
	return output, nil
}

// redirects shows `line >file; echo $?` of a command that is to fail with this exit code. It returns what the
// command complained of.
func (s *show) redirects(ctx context.Context, who string, line, file string, code int) (string, error) {
	s.prompt(who, line+" >"+file+"; echo $?")
	var output, complaints bytes.Buffer
	got, err := exitCode(s.start(ctx, who, line, &output, &complaints))
	if err != nil {
		return "", failed(who, line, complaints.String(), err)
	}
	if got != code {
		return "", fmt.Errorf("%s$ %s: the exit code is %d, want %d:\n%s", who, line, got, code, &complaints)
	}
	s.output(complaints.String() + strconv.Itoa(got))
	return complaints.String(), os.WriteFile(file, output.Bytes(), 0o600)
}

// fails runs a command that is to fail, and returns its output.
func (s *show) fails(ctx context.Context, who, line string) (string, error) {
	output, err := s.call(ctx, who, line)
	switch code, err := exitCode(err); {
	case err != nil:
		return "", failed(who, line, output, err)
	case code == 0:
		return "", fmt.Errorf("%s$ %s: succeeded, and should have been rejected:\n%s", who, line, output)
	}
	return output, nil
}

// exitCode of a command that ended by itself.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// says fails if a text lacks one of the words, whatever the width of its columns.
func says(text string, words ...string) error {
	for _, word := range words {
		if !has(text, word) {
			return fmt.Errorf("%q is not in:\n%s", word, text)
		}
	}
	return nil
}

// has reports whether a text has words, or has them when columns are one space wide.
func has(text, words string) bool {
	return strings.Contains(text, words) || strings.Contains(strings.Join(strings.Fields(text), " "), words)
}

// reads shows a file of the examples.
func (s *show) reads(who, file string) error {
	s.prompt(who, "cat "+file)
	content, err := s.file(file)
	if err != nil {
		return err
	}
	s.output(string(content))
	return nil
}

// file of the repository, or with an absolute path.
func (s *show) file(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(s.cluster.Binary("")), name)
	}
	return os.ReadFile(name)
}
