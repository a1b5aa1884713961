// Package admissionpolicies holds the ValidatingAdmissionPolicies of Virtward that the API server itself runs, each
// with its binding and with the cases that it allows, warns of and denies.
//
// What enters: nothing at run time; the YAML beside this file is embedded. What leaves: the policies and
// bindings as objects, which the Helm chart carries as a copy, and the tables of cases, which test/guards runs
// on a real API server. go generate writes the copy, and the list of security-relevant rules in the guard of
// the RuleSettings; tests compare both. The package has no client. The API server evaluates the guards itself, also
// while Virtward is down.
package admissionpolicies
