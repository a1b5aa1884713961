package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Options of the demo.
type Options struct {
	// Stay keeps the cluster running after the last chapter, until the context ends.
	Stay bool
	// Colour marks headings, prompts and changes for a terminal.
	Colour bool
	// Parent is the folder for the sandbox's temporary folder; empty for the system's.
	Parent string
	// Tour gets the main step of each chapter, and Full everything. Nil discards it.
	Tour, Full io.Writer
	// Only has the numbers of the chapters to show. Chapters that they need run before them, unseen. Empty shows all.
	Only []int
}

// chapter is one part of the demo. It fails if the result is not as expected.
type chapter struct {
	title string
	// story is what the tour tells about the chapter.
	story string
	// needs has the numbers of the chapters whose objects this one uses.
	needs []int
	steps []step
}

// chapters returns all chapters in order.
func chapters() []chapter {
	return []chapter{
		{
			title: "A Fedora VM with an instancetype and a preference", steps: fedora(),
			story: "Alice's VM names both, and little else. Virtward computes the VM that will run, and the layer of each field.",
		},
		{
			title: "A VMI without a VM", steps: bareVMI(),
			story: "A VMI is completed when it is created:",
		},
		{
			title: "A VM for arm64", steps: arm64(),
			story: "The architecture determines defaults:",
		},
		{
			title: "A VM that can never run", steps: neverRuns(),
			story: "KubeVirt accepts this VM, and rejects its VMI when it starts. With Virtward, Alice sees all errors at once:",
		},
		{
			title: "A VM that is created before its preference", steps: early(),
			story: "Objects can be applied in any order:",
		},
		{
			title: "The severity of a rule", steps: severities(),
			story: "In a lab, the admin lets two rules warn. The same file as in chapter 4 is admitted there:",
		},
		{
			title: "Changes of running VMs", steps: runningChanges(),
			story: "A plan shows how a change reaches the guest:",
		},
		{
			title: "A rollout over ten VMs", steps: fleetRollout(), needs: []int{7},
			story: "Ten VMs get more memory, one of them first:",
		},
		{
			title: "A policy of the admin", steps: policies(), needs: []int{6},
			story: "A policy evaluates the VM that will run. The memory of this one comes from its instancetype:",
		},
		{
			title: "An exception, and a protected VM", steps: exceptions(), needs: []int{6, 9},
			story: "Bob exempts this VM from the policy, until a day. And a policy for deletions protects it:",
		},
		{
			title: "Templates", steps: templates(), needs: []int{1},
			story: "Carol cannot create VMs, except from templates that an admin has approved:",
		},
		{
			title: "Golden images for each architecture", steps: goldenImages(),
			story: "A node of s390x joins, and the image is imported for it:",
		},
		{
			title: "Images by name", steps: namedImages(),
			story: "An image is imported from a URL, in the cluster or in OpenStack Glance. It stays while a VM uses it:",
		},
		{
			title: "The cluster moves to another hypervisor", steps: otherHypervisor(), needs: []int{1, 2},
			story: "This changes all VMs, so it must be confirmed:",
		},
		{
			title: "Mistakes in the KubeVirt resource", steps: mistakes(), needs: []int{1, 2, 14},
			story: "The API server itself rejects them:",
		},
		{
			title: "Metrics and the audit log", steps: evidence(), needs: []int{1, 2, 3, 4, 6, 14},
			story: "Each finding is counted:",
		},
		{title: "Now you", steps: farewell(), needs: []int{1}},
	}
}

// Run starts the cluster, runs the chapters and stops the cluster. The error is that of the first chapter that fails.
func Run(ctx context.Context, options Options) (err error) {
	visible := options.pages()
	s := &show{page: visible.page, tour: visible.tour}
	if len(options.Only) == 0 {
		s.contents()
	}
	s.everywhere().heading("What runs")
	if err := s.setUp(ctx, options); err != nil {
		return errors.Join(err, s.takeDown(ctx))
	}
	defer func() { err = errors.Join(err, s.takeDown(ctx)) }()
	shown, needed := selected(options.Only)
	if len(needed) > 0 {
		s.everywhere().prose("Before that, these chapters run without output: " + numbers(needed) + ".")
	}
	for i, c := range chapters() {
		number := i + 1
		switch {
		case slices.Contains(shown, number):
			s.page, s.tour = visible.page, visible.tour
		case slices.Contains(needed, number):
			s.page, s.tour = &page{out: io.Discard}, &page{out: io.Discard}
		default:
			continue
		}
		s.everywhere().heading(fmt.Sprintf("%d. %s", number, c.title))
		if c.story != "" {
			s.tour.prose(c.story)
		}
		if err := s.follow(ctx, c.steps); err != nil {
			return fmt.Errorf("%s: %w", c.title, err)
		}
	}
	if !options.Stay {
		return nil
	}
	s.everywhere().prose("The cluster runs until you press Ctrl-C. Then it is deleted.")
	<-ctx.Done()
	return nil
}

// pages of both forms.
func (o Options) pages() *show {
	full, tour := &page{out: o.Full, colour: o.Colour}, &page{out: o.Tour, colour: o.Colour, cut: cut{short: true}}
	for _, p := range []*page{full, tour} {
		if p.out == nil {
			p.out = io.Discard
		}
	}
	return &show{page: full, tour: tour}
}

// selected returns the numbers of the chapters to show, and of those that must run before.
func selected(only []int) (shown, needed []int) {
	for i, c := range chapters() {
		number := i + 1
		if len(only) > 0 && !slices.Contains(only, number) {
			continue
		}
		shown = append(shown, number)
		needed = append(needed, c.needs...)
	}
	slices.Sort(needed)
	needed = slices.DeleteFunc(slices.Compact(needed), func(number int) bool { return slices.Contains(shown, number) })
	return shown, needed
}

// numbers joins numbers for a sentence.
func numbers(of []int) string {
	var words []string
	for _, n := range of {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ", ")
}

// contents lists the chapters.
func (s *show) contents() {
	all := s.everywhere()
	all.heading("Virtward, demonstrated")
	all.line("")
	for i, c := range chapters() {
		all.line(fmt.Sprintf("%4d  %s", i+1, c.title))
	}
	s.tour.prose(`This is the tour: the main step of each chapter, in four minutes. "make demo DEMO=9" shows chapter 9 with every
		step and check, "make demo DEMO=all" all chapters.`)
}

// everywhere returns the demo with pages that both get everything.
func (s *show) everywhere() *show {
	return s.onBoth(cut{})
}

// key marks a main step: the tour shows it, with the first lines of its output that match a regular expression.
func (s *show) key(lines string) *show {
	return s.onBoth(cut{short: true, lines: regexp.MustCompile(lines)})
}

// unseen returns the demo with a page that shows nothing.
func (s *show) unseen() *show {
	unseen := *s
	unseen.page = &page{out: io.Discard}
	return &unseen
}

func (s *show) onBoth(selection cut) *show {
	full, tour, both := *s.page, *s.tour, *s
	tour.cut = selection
	full.also = &tour
	both.page = &full
	return &both
}
