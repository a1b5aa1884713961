package attack

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

// A shared machine can stop for seconds. Meanwhile all timeouts expire, also the one of the API server for webhooks, and
// users get errors that no attacker caused.
const (
	heartbeat = 20 * time.Millisecond
	// stall is by how much a heartbeat is late if the machine stopped. An attack that takes all cores does not delay it
	// so long: each process gets its share of them.
	stall = 500 * time.Millisecond
)

// stalls has the end of each time in which the machine stopped.
type stalls struct {
	mu   sync.Mutex
	ends []time.Time
}

// machine has the stalls since the suite began.
var machine stalls

// watch notes stalls until the context ends.
func (s *stalls) watch(ctx context.Context) {
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		time.Sleep(heartbeat)
		if late := time.Since(last) - heartbeat; late > stall {
			s.mu.Lock()
			s.ends = append(s.ends, time.Now())
			s.mu.Unlock()
			fmt.Fprintf(GinkgoWriter, "the machine stopped for %s\n", late.Round(time.Millisecond))
		}
	}
}

// stopped reports whether the machine has stopped since a time. It waits for the heartbeat, which is late then.
func (s *stalls) stopped(t time.Time) bool {
	time.Sleep(2 * heartbeat)
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends) > 0 && s.ends[len(s.ends)-1].After(t)
}

// timed is for specs in which users must be served in time. A spec that fails once is repeated, because another tenant of
// the machine can cause it. An attack that succeeds fails both attempts.
const timed = FlakeAttempts(2)

// specs are the reports of the suite.
var specs []types.SpecReport

var _ = ReportAfterSuite("failures", func(r Report) { specs = r.SpecReports })

// logFailures repeats why attempts of specs failed: it is the end of the output.
func logFailures(t *testing.T) {
	t.Helper()
	for i := range specs {
		failures := specs[i].AdditionalFailures
		if specs[i].Failed() {
			failures = append(failures, types.AdditionalFailure{State: specs[i].State, Failure: specs[i].Failure})
		}
		for _, f := range failures {
			reason := strings.Join(strings.Fields(f.Failure.Message), " ")
			t.Logf("%s: %s: %.600s", specs[i].FullText(), f.Failure.Location, reason)
		}
	}
}
