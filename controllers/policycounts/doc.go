// Package policycounts reads how often policies fail from the replicas of the webhook, at an interval.
//
// What enters: the Reports of the replicas (policycounts.Report) over HTTPS, and that of the audit in this process. What
// leaves: Counts, from which policystatus writes statuses and suspends policies. The package writes nothing in the cluster.
//
// A replica proves with its serving certificate that it is one: the CA bundle of the webhook configuration verifies it, as
// the API server does. Its Report is bounded and validated, and only active policies of the same generation count.
package policycounts
