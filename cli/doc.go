// Package cli is the command line of Virtward: kubectl-virtward, which users also call as kubectl virtward.
//
// Its input is the arguments of the program. It assembles the root command: each group of commands is a package of its
// own below it. Package programs runs it, package options has what the commands share, and package printers prints their
// output. Its output is an exit code: 0 for success; 1 if virtual machines are rejected, answers differ or something failed;
// 2 for a wrong command line. The help of the root command names the commands that change a cluster.
package cli
