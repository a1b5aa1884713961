package rego

import (
	"fmt"
	"time"
)

// Limits bound one evaluation of one module. Zero means the default.
type Limits struct {
	// Steps are the expressions that may be evaluated, each once for every way to satisfy those before it. The
	// same module needs as many steps for the same input wherever it runs.
	Steps int
	// Bytes are what the functions that can build large values may build together.
	Bytes int
	// Time is the last resort, for what takes long in few steps. It is the evaluation's own: what others take from
	// it does not count.
	Time time.Duration
	// Violations are those that are returned one by one.
	Violations int
}

// DefaultLimits are far from what a policy needs: one on a VM of a hundred disks takes some thousand steps.
func DefaultLimits() Limits {
	return Limits{Steps: 300_000, Bytes: 32 << 20, Time: 100 * time.Millisecond, Violations: 100}
}

func (l Limits) withDefaults() Limits {
	defaults := DefaultLimits()
	for _, limit := range []struct{ value, fallback *int }{
		{&l.Steps, &defaults.Steps}, {&l.Bytes, &defaults.Bytes}, {&l.Violations, &defaults.Violations},
	} {
		if *limit.value <= 0 {
			*limit.value = *limit.fallback
		}
	}
	if l.Time <= 0 {
		l.Time = defaults.Time
	}
	return l
}

// LimitError says which limit ended an evaluation.
type LimitError struct {
	// Module is the name that it was compiled under.
	Module string
	// Limit says which limit it was, and how high: "300000 steps".
	Limit string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the Rego of %s was stopped: it takes more than %s", e.Module, e.Limit)
}

// The clock is looked at after so many steps, and before every function that can take long. Between two looks the
// evaluation itself takes microseconds, or a few milliseconds at the worst: what is more was taken by others, while
// the process waited for its turn, and does not count. A busy machine does not make a policy wrong.
const (
	timeEvery = 16
	maxPause  = 10 * time.Millisecond
)

// budget counts what one evaluation takes. OPA asks it before every expression whether to stop, which makes it the
// counter of steps. It belongs to one goroutine.
type budget struct {
	limits   Limits
	untimed  bool
	looked   time.Time
	spent    time.Duration
	steps    int
	bytes    int
	exceeded string
}

func newBudget(limits Limits) *budget {
	return &budget{limits: limits, looked: time.Now()}
}

// unhurried is a budget without a limit of time.
func unhurried(limits Limits, steps int) *budget {
	limits.Steps = steps
	b := newBudget(limits)
	b.untimed = true
	return b
}

// Cancel is never called: nobody but the budget itself ends an evaluation.
func (b *budget) Cancel() { b.exceeded = "it was given" }

// Cancelled counts a step.
func (b *budget) Cancelled() bool {
	if b.exceeded != "" {
		return true
	}
	b.steps++
	switch {
	case b.steps > b.limits.Steps:
		b.exceeded = fmt.Sprintf("%d steps", b.limits.Steps)
	case b.steps%timeEvery == 0:
		b.look()
	}
	return b.exceeded != ""
}

// look adds the time since the last look.
func (b *budget) look() {
	if b.untimed {
		return
	}
	now := time.Now()
	b.spent += min(now.Sub(b.looked), maxPause)
	b.looked = now
	if b.spent > b.limits.Time {
		b.exceeded = b.limits.Time.String()
	}
}

// build counts bytes that a function is about to build, or has built. It reports whether they are still within bounds.
func (b *budget) build(bytes int) bool {
	b.look()
	if b.bytes += bytes; b.bytes > b.limits.Bytes {
		b.exceeded = fmt.Sprintf("%d bytes of strings and lists", b.limits.Bytes)
	}
	return b.exceeded == ""
}
