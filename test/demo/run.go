package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Options say how the demo is given.
type Options struct {
	// Stay keeps everything up after the story, until the context ends.
	Stay bool
	// Colour marks headings, prompts and changes for a terminal.
	Colour bool
	// Parent is where the sandbox makes its temporary folder; empty means the system's.
	Parent string
}

// chapter is one part of the story. It shows something, and fails if that is not what was to be shown.
type chapter struct {
	title string
	tell  func(context.Context, *show) error
}

// chapters are the story, in order.
func chapters() []chapter {
	return []chapter{
		{"A Fedora VM with an instancetype and a preference", fedora},
		{"A VMI without a VM", bareVMI},
		{"A VM for arm64", arm64},
		{"A VM that could never run", neverRuns},
		{"A VM that comes before its preference", early},
		{"How strict a rule is", severities},
		{"A policy of the admin's", policies},
		{"The cluster moves to another hypervisor", otherHypervisor},
		{"Mistakes in the KubeVirt resource", mistakes},
		{"What the webhooks themselves report", evidence},
		{"Now you", farewell},
	}
}

// Run brings everything up, tells the story and takes everything down again. The error is the first
// thing that was not as it should be.
func Run(ctx context.Context, out io.Writer, options Options) (err error) {
	s := &show{page: &page{out: out, colour: options.Colour}}
	s.heading("What runs")
	if err := s.setUp(ctx, options); err != nil {
		return errors.Join(err, s.takeDown(ctx))
	}
	defer func() { err = errors.Join(err, s.takeDown(ctx)) }()
	for i, c := range chapters() {
		s.heading(fmt.Sprintf("%d. %s", i+1, c.title))
		if err := c.tell(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
	}
	if !options.Stay {
		return nil
	}
	s.prose("Everything stays up until you press Ctrl-C, and is gone then.")
	<-ctx.Done()
	return nil
}
