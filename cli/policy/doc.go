// Package policy is the command policy: its subcommands write, lint, test, apply and install policies.
//
// Its input is files, the library of policies, or a cluster. Its output is reports, new files, or policies in the
// cluster: only apply and install change it.
package policy
