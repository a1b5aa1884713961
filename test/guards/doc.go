// Package guards runs the cases of admissionpolicies on a real API server: every request for the KubeVirt resource, on
// the definition of it that the case names, and every request for RuleSettings, by users who have their rights
// from RBAC; with the answers and the warnings compared to the letter.
//
// It also runs the native forms of policies: the cases of all suites whose policies can be exported are sent to an API
// server that has them, and what it denies is compared with what the webhook denies.
//
// It never evaluates anything itself: what is tested is the API server with our policies in it.
package guards
