// Package programs runs a command line as a program: kubectl-virtward, and plugins beside it.
//
// Its input is the arguments of the program and its root command. Its output is what the command prints, with escape sequences made
// visible, an error as one line, and an exit code. It has no commands.
package programs
