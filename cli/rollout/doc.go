// Package rollout implements kubectl virtward rollout: what a change does to running virtual machines, and which changes
// are not applied to them yet.
//
// Its input is files with virtual machines, or names, and a cluster. Its output is a plan, a status or a difference for each
// virtual machine, as a table, YAML or JSON. It changes nothing: the cluster applies the files as a dry run.
package rollout
