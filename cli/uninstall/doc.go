// Package uninstall is the command uninstall: it removes Virtward from a cluster, in an order in which nothing is blocked, and says
// what is left.
//
// Its input is a client with the rights of an admin, and Helm, if Helm installed the release. The function PlanOf is pure: from what
// the cluster has, it returns the ordered steps and what they leave. The Runner does one step, reads the cluster again, and ends when
// no step is left: so it keeps no state, and a run that was interrupted is continued by the next one. It deletes no object that users
// wrote, unless --delete-definitions is given.
package uninstall
