// Package auditresults keeps what the audit found about every object: how much of it, and the first of it in words.
//
// What enters: objects and the results of evaluating them, one object at a time and in any order, again whenever one is
// evaluated again. What leaves: the sums of each namespace and of each policy, the first results of each namespace, what
// is new since an object was evaluated before, and whose words are missing because others went. It is the same whatever
// the order in which objects were evaluated.
//
// Memory is bounded by the number of objects, a few dozen bytes each and the same for each source that found something,
// and by Limits for each namespace and for all of them. The package is pure: no client, no clock. A Ledger is not safe for concurrent use.
package auditresults
