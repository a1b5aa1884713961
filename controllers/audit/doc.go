// Package audit evaluates all existing objects with the same rules and policies that evaluate requests.
//
// What enters: pages of virtual machines, their instances and pools from the API server; the objects that they refer
// to; the facts, the active settings and policies; and the names of objects that changed. What leaves: the results in a
// ledger, which are published as reports, as metrics and in the statuses of policies, and an event for an object that
// newly violates a policy. Nothing waits for the audit, and it changes no object.
//
// A round evaluates all objects, page by page, and removes the results of deleted ones. Between rounds, single objects
// are evaluated again. An object that cannot be read, or a policy that cannot be evaluated, is a result; it does not
// end a round.
//
// The Auditor is a manager.Runnable with an agenda, and not a reconciler as the other controllers, because its unit of
// work is not a key. A change of a policy, of the facts or of an instancetype concerns every object: a queue would hold
// a key for each of 50,000 VMs, and would read them one by one instead of in pages. A round and a changed object in it
// must not be evaluated twice, rounds have a minimum distance, and reports follow a complete round. The agenda holds at
// most a thousand keys, and whether a round is due.
package audit
