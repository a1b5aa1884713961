package fleet

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones

	"github.com/robfig/cron/v3"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// window is a recurring time.
type window struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

// ParseSchedule reads a schedule in cron's format. Times zones within a schedule are rejected, since the field timeZone has
// them, and so are descriptors such as @every.
func ParseSchedule(text string) (cron.Schedule, error) {
	if strings.ContainsAny(text, "=@") {
		return nil, fmt.Errorf("must have five fields: minute, hour, day of the month, month, day of the week")
	}
	return cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
}

// windowsOf reads the windows of a rollout.
func windowsOf(spec []v1alpha1.Window) ([]window, error) {
	windows := make([]window, len(spec))
	for i, s := range spec {
		schedule, err := ParseSchedule(s.Schedule)
		if err != nil {
			return nil, fmt.Errorf("spec.windows[%d].schedule: %w", i, err)
		}
		zone, err := time.LoadLocation(s.TimeZone)
		if err != nil {
			return nil, fmt.Errorf("spec.windows[%d].timeZone: %w", i, err)
		}
		if s.Duration.Duration <= 0 {
			return nil, fmt.Errorf("spec.windows[%d].duration: must be longer than 0", i)
		}
		windows[i] = window{schedule: schedule, duration: s.Duration.Duration, zone: zone}
	}
	return windows, nil
}

// open reports whether one of the windows is open, and if not, when the next one opens: never for the zero time.
func open(windows []window, now time.Time) (isOpen bool, opens time.Time) {
	if len(windows) == 0 {
		return true, time.Time{}
	}
	for i := range windows {
		if windows[i].isOpen(now) {
			return true, time.Time{}
		}
		next := windows[i].schedule.Next(now.In(windows[i].zone))
		if !next.IsZero() && (opens.IsZero() || next.Before(opens)) {
			opens = next
		}
	}
	return false, opens
}

// isOpen reports whether the window is open: it opened at most its duration ago.
func (w *window) isOpen(now time.Time) bool {
	opened := w.schedule.Next(now.In(w.zone).Add(-w.duration))
	return !opened.IsZero() && !opened.After(now)
}
