// Package plugin has the commands about KubeVirt's Plugins: lint shows what is wrong with them, test runs their suites, and diff
// shows what they change in the domains of virtual machines.
//
// Input: files with Plugins, suites and virtual machines, or a cluster. Output: problems, outcomes and changes. The commands change
// nothing.
package plugin
