// Package cli is the command line of Virtward: kubectl-virtward, which users also call as kubectl virtward.
//
// Its input is the arguments of the program. It assembles the root command: each group of commands is a package of its
// own below it, and options has what they share. Its output is an exit code: 0 for success; 1 if virtual machines are
// rejected, answers differ or something failed; 2 for a wrong command line. Only disable, enable, policy apply and
// policy install and template process --create change a cluster.
package cli
