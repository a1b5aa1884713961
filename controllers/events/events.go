package events

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Event is what a controller reports about an object.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is in UpperCamelCase, Message in words.
	Reason, Message string
}

// String returns the event in a line.
func (e Event) String() string { return e.Type + " " + e.Reason + ": " + e.Message }

// Known is a reason that a controller has.
type Known struct {
	Type, Reason string
	// When says when the event occurs, for the documentation.
	When string
}

// Normal is a reason of events without a fault.
func Normal(reason, when string) Known { return Known{corev1.EventTypeNormal, reason, when} }

// Warning is a reason of events about a fault.
func Warning(reason, when string) Known { return Known{corev1.EventTypeWarning, reason, when} }

// Table has the reasons of the events of one controller. Each reason has one type.
type Table []Known

// Event returns the event with a reason. A reason that the table does not have is a warning: it is a fault of the controller
// that a user must still see.
func (t Table) Event(reason, message string) Event {
	e := Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message}
	if i := slices.IndexFunc(t, func(k Known) bool { return k.Reason == reason }); i >= 0 {
		e.Type = t[i].Type
	}
	return e
}
