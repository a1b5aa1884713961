package events_test

import (
	"testing"

	"github.com/virtward/virtward/controllers/events"
)

func TestTable(t *testing.T) {
	table := events.Table{events.Normal("Imported", "an image is imported"), events.Warning("Retrying", "an attempt failed")}
	for reason, want := range map[string]string{
		"Imported": "Normal Imported: m",
		"Retrying": "Warning Retrying: m",
		"Unknown":  "Warning Unknown: m",
	} {
		if got := table.Event(reason, "m").String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
