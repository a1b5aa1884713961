// Package statuses reads and writes the statuses of policies, which several controllers share: each writes its own part
// by server-side apply, with its own field manager.
//
// What enters: an active policy, and a plan of one part of its status. What leaves: one write, if the stored status
// differs. It is no error if the policy was deleted, created again under the same name, or has another generation: then
// nothing is written.
package statuses
