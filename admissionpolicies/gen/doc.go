// The program gen writes the ids of the security-relevant rules into the guard of the RuleSettings, so that the
// API server knows them while Virtward is down. It is run by go generate.
package main
