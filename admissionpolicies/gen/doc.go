// The program gen writes what the API server must know while Virtward is down: the ids of the security-relevant rules into the
// guard of the RuleSettings, the special networks of package addresses into the guard of VirtualImages, and the table of KubeVirt's
// kinds into the guard of approved-only namespaces and into the page about it, and the table of
// processes into the guard of their accounts and into the page about these. It is run by go generate.
package main
