// Package await is for tests of asynchronous code: it runs functions in the background, and waits for conditions.
package await

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what another process does. It is long: it costs time only if a test fails, and a busy
// machine needs it.
const Patience = time.Minute

// Until waits until a check has no error. After a timeout, it fails the test with the last error.
func Until(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
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
