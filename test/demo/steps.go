package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// step is one part of a chapter. Its fields act in the order in which they are listed; those without a value have no effect.
type step struct {
	// prose is a paragraph, and inTour one that only the tour has.
	prose, inTour string
	// as is the user of the commands.
	as string
	// await is a command that runs, without being shown, until it prints until: a word, or words of a row. Without until, it must
	// print nothing.
	await, until string
	// reads is a file to show.
	reads string
	// runs are commands that must succeed, and rejects is one that must fail. hidden does not show them.
	runs    []string
	rejects string
	hidden  bool
	// tour marks a main step, which the tour has too: with the lines of the output that match this regular expression.
	tour string
	// grep keeps only what matches this regular expression.
	grep string
	// says are words that the output of the commands must have, and lacks is one that it must not have.
	says  []string
	lacks string
	// do is what a table cannot say.
	do func(*show, context.Context) error
	// checked is what the step has verified.
	checked string
}

// top selects the first lines of an output for the tour.
const top = "^"

// follow takes steps in order.
func (s *show) follow(ctx context.Context, steps []step) error {
	for i := range steps {
		if err := s.take(ctx, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) take(ctx context.Context, t *step) error {
	if t.prose != "" {
		s.prose(t.prose)
	}
	if t.inTour != "" {
		s.tour.prose(t.inTour)
	}
	if t.await != "" {
		if err := s.awaitOutput(ctx, t.as, t.await, t.until); err != nil {
			return err
		}
	}
	if t.reads != "" {
		if err := s.reads(t.as, t.reads); err != nil {
			return err
		}
	}
	output, err := s.commands(ctx, t)
	if err != nil {
		return err
	}
	if err := says(output, t.says...); err != nil {
		return err
	}
	if t.lacks != "" && strings.Contains(output, t.lacks) {
		return fmt.Errorf("%q is in:\n%s", t.lacks, output)
	}
	if t.do != nil {
		if err := t.do(s, ctx); err != nil {
			return err
		}
	}
	if t.checked != "" {
		s.checked("%s", t.checked)
	}
	return nil
}

// commands runs the commands of a step, and returns what they printed.
func (s *show) commands(ctx context.Context, t *step) (string, error) {
	shown := s
	switch {
	case t.hidden:
		shown = s.unseen()
	case t.tour != "":
		shown = s.key(t.tour)
	}
	var all strings.Builder
	for _, line := range t.runs {
		var output string
		var err error
		if t.grep != "" {
			output, err = shown.greps(ctx, t.as, line, regexp.MustCompile(t.grep), true)
		} else {
			output, err = shown.does(ctx, t.as, line)
		}
		if err != nil {
			return "", err
		}
		all.WriteString(output)
	}
	if t.rejects != "" {
		output, err := shown.isRejected(ctx, t.as, t.rejects)
		if err != nil {
			return "", err
		}
		all.WriteString(output)
	}
	return all.String(), nil
}
