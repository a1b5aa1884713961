// Package await is for tests of asynchronous code: it runs functions in the background, and waits for conditions.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what another process does. It is long: it costs time only if a test fails, and a busy
// machine needs it: what takes half a minute by itself can take two beside other suites.
const Patience = 3 * time.Minute

// Interval is the longest time between two checks.
const Interval = 100 * time.Millisecond

// Until waits until a check has no error. After a timeout, it fails the test with the last error.
func Until(t testing.TB, check func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > Patience {
			t.Fatal(err)
		}
		<-time.After(pause(time.Since(began)))
	}
}

// pause is how long to wait before the next check, after checks for a time: an eighth of it, so that what comes soon is noticed
// soon, and what takes long does not cost the API server a hundred requests a second for each test that waits.
func pause(since time.Duration) time.Duration {
	return min(max(since/8, 10*time.Millisecond), Interval)
}

// Run runs something until the test ends; its error is then the test's.
func Run(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
