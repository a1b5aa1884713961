// Package options has what the commands of kubectl-virtward share: flags, the files and the cluster that they name, and
// usage errors.
//
// Its input is flags and the arguments of a command. Its output is manifests, facts and a client of the cluster. It
// knows no command, and prints only the progress.
package options
