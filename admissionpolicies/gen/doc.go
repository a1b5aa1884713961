// The program gen writes the ids of the security-relevant rules into the guard of the RuleSettings, so that the
// API server knows them while Virtward is down, and the table of KubeVirt's kinds into the guard of approved-only namespaces
// and into the page about it. It is run by go generate.
package main
