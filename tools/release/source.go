package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// source is the state of the repository that is built.
type source struct {
	root, commit string
	// at is the time of all files: SOURCE_DATE_EPOCH, or else that of the commit.
	at time.Time
}

// errDirty means that the provenance would name a commit that was not built.
var errDirty = errors.New("the files differ from the commit: commit them, or build with -dirty")

func readSource(ctx context.Context, root string, dirty bool) (source, error) {
	s := source{root: root}
	changed, err := s.git(ctx, "status", "--porcelain")
	if err != nil {
		return s, err
	}
	if changed != "" && !dirty {
		return s, errDirty
	}
	if s.commit, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
		return s, err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = s.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return s, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return s, fmt.Errorf("SOURCE_DATE_EPOCH must be a number of seconds: %w", err)
	}
	s.at = time.Unix(seconds, 0).UTC()
	return s, nil
}

// git returns the output of a command of git without the newline at its end.
func (s source) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", append([]string{"-C", s.root}, args...)...)
	command.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0", "TZ=UTC")
	output, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimRight(string(output), "\n"), nil
}
