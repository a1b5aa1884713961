// Package status has the command status. It checks the parts of Virtward in a cluster, and says how to repair them.
//
// Its input is a client with the rights of the user. Its output is one result for each subject of each check, with a state, a
// message and a remedy. What the rights do not permit to read has the state unknown. It changes nothing: it asks the webhook with
// a dry run.
package status
