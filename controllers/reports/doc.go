// Package reports writes what the audit found as OpenReports: one Report for each namespace, named virtward.
//
// What enters: the view of a namespace in the ledger, and what is known of the policies. What leaves: the Report, made
// by a pure function, and written only if it differs from the one that is there. A Report of that name which does not
// carry our label belongs to somebody else, and is left alone. Where the cluster has no OpenReports, nothing is
// written; whoever calls asks again.
package reports
