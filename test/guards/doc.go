// Package guards runs the cases of admissionpolicies on a real API server. It sends every request for the KubeVirt
// resource, with the case's definition, and every request for RuleSettings, by users with RBAC permissions. It compares
// the complete texts of answers and warnings.
//
// It also tests the native forms of policies: it sends the cases of all suites with exportable policies to an API server,
// and compares its denials with those of the webhook.
//
// The package evaluates nothing itself: it tests the API server with Virtward's guards.
package guards
