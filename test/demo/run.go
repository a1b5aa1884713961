package main

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Options of the demo.
type Options struct {
	// Stay keeps the cluster running after the last chapter, until the context ends.
	Stay bool
	// Colour marks headings, prompts and changes for a terminal.
	Colour bool
	// Parent is the folder for the sandbox's temporary folder; empty for the system's.
	Parent string
}

// chapter is one part of the demo. It fails if the result is not as expected.
type chapter struct {
	title string
	tell  func(context.Context, *show) error
}

// chapters returns all chapters in order.
func chapters() []chapter {
	return []chapter{
		{"A Fedora VM with an instancetype and a preference", fedora},
		{"A VMI without a VM", bareVMI},
		{"A VM for arm64", arm64},
		{"A VM that can never run", neverRuns},
		{"A VM that is created before its preference", early},
		{"The severity of a rule", severities},
		{"Changes of running VMs", runningChanges},
		{"A rollout over ten VMs", fleetRollout},
		{"A policy of the admin", policies},
		{"Templates", templates},
		{"Golden images for each architecture", goldenImages},
		{"Images by name", namedImages},
		{"The cluster moves to another hypervisor", otherHypervisor},
		{"Mistakes in the KubeVirt resource", mistakes},
		{"Metrics and the audit log", evidence},
		{"Now you", farewell},
	}
}

// Run starts the cluster, runs all chapters and stops the cluster. The error is that of the first chapter that fails.
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
	s.prose("The cluster runs until you press Ctrl-C. Then it is deleted.")
	<-ctx.Done()
	return nil
}
