// Package guards holds the ValidatingAdmissionPolicies of Virtward that the API server itself runs, each
// with its binding and with the cases that it allows, warns of and denies.
//
// What enters: nothing at run time; the YAML beside this file is embedded. What leaves: the policies and
// bindings as objects, which the Helm chart carries as a copy (go generate writes it, a test compares it),
// and the table of cases, which test/guards runs on a real API server. The package never talks to a cluster,
// and no server of ours is asked when a guard judges: they hold while Virtward is down.
package guards
