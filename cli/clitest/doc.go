// Package clitest helps to test the commands of kubectl-virtward as users call them.
//
// Its input is a command line and standard input. Its output is what the program wrote, and its exit code. Only tests
// import it.
package clitest
