// Package statuses reads and writes the statuses of policies, which several controllers share: each writes its own part by
// server-side apply, under a name of its own.
//
// What enters: the name of a policy, and a part of its status. What leaves: the status as it is stored. A policy that is
// gone is no error, and neither is one that was made anew under the same name: that one is left alone.
package statuses
