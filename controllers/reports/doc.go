// Package reports writes the results of the audit as OpenReports: one Report for each namespace, named virtward.
//
// What enters: the view of a namespace in the ledger, and facts about the policies. What leaves: the Report, built by a
// pure function, and written only if it differs from the existing one. A Report of that name without Virtward's label
// belongs to another component, and is not changed. If the cluster does not have OpenReports, nothing is written; the
// caller tries again.
package reports
