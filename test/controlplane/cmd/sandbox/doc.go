// Command sandbox keeps a real control plane with Virtward on this machine until it is interrupted.
//
// Input: flags. Output: a running API server with KubeVirt's and CDI's definitions, the simulators of KubeVirt and CDI,
// instancetypes, preferences, golden images and nodes, Virtward's chart installed by Helm and Virtward's processes; the lines for
// a shell and hints on standard output. It needs bin/ from `make build`, and deletes everything at its end.
//
// `sandbox kill NAME` and `sandbox start NAME` end and start a process of the sandbox to which KUBECONFIG belongs.
package main
