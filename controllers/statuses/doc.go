// Package statuses reads and writes the statuses of policies, which several controllers share: each writes its own part by
// server-side apply, under a name of its own.
//
// What enters: an active policy, and a plan of one part of its status. What leaves: one write, if the stored status
// differs. A policy that was deleted is no error. Neither is one that was made again under the same name, nor one with
// another generation: both are left alone.
package statuses
