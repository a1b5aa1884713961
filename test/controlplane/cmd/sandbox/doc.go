// Command sandbox keeps a real control plane with Virtward on this machine until it is interrupted.
//
// Input: flags. Output: a running API server with KubeVirt's and CDI's definitions, the simulators of KubeVirt, Virtward's
// chart installed by Helm and the virtward binary; the KUBECONFIG and hints on standard output. It needs bin/ from
// `make build`, and deletes everything at its end.
package main
