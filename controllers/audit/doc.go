// Package audit evaluates everything that exists: the policies and the checks that evaluate what is sent evaluate what is
// there.
//
// What enters: pages of virtual machines, their instances and pools, from the API server; what they refer to; the
// facts, the settings and the policies active; and the names of objects that changed. What leaves: the results in a
// ledger, which are published as reports, as metrics and in the statuses of policies, and an event on an object that
// newly violates a policy. Nothing waits for the audit, and it changes no object.
//
// One round evaluates everything, a page at a time, and ends what is gone; between rounds, single objects are evaluated
// again. An object that cannot be read, or a policy that cannot be evaluated, is a result: neither ends a round.
//
// The Auditor is a manager.Runnable with an agenda, and not a reconciler as the other controllers are, because its unit
// of work is not a key. A change of a policy, of the facts or of an instancetype concerns every object: a queue would hold
// a key for each of 50,000 VMs, and would read them one by one instead of in pages. A round and a changed object that it
// covers must not be evaluated twice, rounds have a shortest distance, and reports follow a round as a whole. The agenda
// keeps what such a queue cannot: at most a thousand keys, and whether everything is due.
package audit
