// Package statuses reads and writes the statuses of policies and of their exceptions. Several controllers share the status of a
// policy: each writes its own part by server-side apply, with its own field manager.
//
// What enters: an active object, and a plan of one part of its status. What leaves: one write, if the stored status
// differs. It is no error if the object was deleted, created again under the same name, or has another generation: then
// nothing is written.
package statuses
