package certificates

import (
	"testing"
	"time"

	"github.com/virtward/virtward/certificates"
)

// A controller whose clock jumps makes no certificate that API servers reject, and replaces none that is valid for longer.
func TestClockJumps(t *testing.T) {
	const host, day = "virtward-webhook.virtward-system.svc", 24 * time.Hour
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	made := func(at time.Time) map[string][]byte {
		t.Helper()
		data, err := newIssuer(host).apply(nil, certificates.Plan{NewAuthority: true, NewPair: true, NewToken: true}, at, false)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	writes := func(data map[string][]byte, at time.Time) bool {
		return certificates.Next(certificates.State{Data: data, Now: at, DNSName: host}).Writes()
	}
	for name, ahead := range map[string]time.Duration{"right": 0, "a day fast": day, "a year fast": 365 * day, "700 days fast": 700 * day, "a day slow": -day, "200 days slow": -200 * day} {
		if writes(made(now.Add(ahead)), now) {
			t.Errorf("%s: what the controller creates is not valid now", name)
		}
	}
	present := made(now)
	for name, jump := range map[string]time.Duration{"a day ahead": day, "200 days ahead": 200 * day, "a day back": -day, "700 days back": -700 * day} {
		if writes(present, now.Add(jump)) {
			t.Errorf("a jump of %s replaces valid certificates", name)
		}
	}
	if !writes(present, now.Add(300*day)) {
		t.Error("a certificate is not replaced before it expires")
	}
}
