// Package events has the Events of Kubernetes that the controllers create.
//
// Each controller has one Table of its reasons. What enters: a reason and a message. What leaves: an Event, whose type is that of
// the reason in the Table. The package writes nothing: the caller passes events to the recorder of its process.
// docs/events.md lists the tables of all controllers.
package events
