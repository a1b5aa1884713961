// Package cli is the command line of Virtward, kubectl-virtward, by itself or as kubectl virtward.
//
// What enters: manifests, or a cluster that it reads. What leaves: how the virtual machines among them will
// run and what is wrong with them, from the same pipeline that the webhooks use; and the rules that say so. It
// changes nothing in a cluster but by commands that say so: disable and enable switch Virtward off and on at the API
// server.
//
// It exits with 0 when all is well, with 1 when virtual machines are rejected, answers disagree, or
// something could not be read, and with 2 when it was called wrongly.
package cli
