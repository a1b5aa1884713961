// The program gen writes the ids of the security-relevant rules into the guard of the RuleSettings, and the special networks of
// package addresses into the guard of VirtualImages, so that the API server knows them while Virtward is down. It is run by go
// generate.
package main
