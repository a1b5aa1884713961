// Package auditresults holds the results of the audit: their numbers, and the first ones as text.
//
// What enters: objects and their results, one object at a time and in any order, again whenever one is evaluated again.
// What leaves: the sums of each namespace and of each policy, the first results of each namespace, the fresh
// violations, and which objects must be evaluated again because others were removed. It does not depend on the order of
// evaluation.
//
// Memory is bounded by the number of objects, with a few dozen bytes for each object and for each source with results,
// and by Limits for each namespace and for all of them. The package is pure: it has no client and no clock. A Ledger is
// not safe for concurrent use.
package auditresults
