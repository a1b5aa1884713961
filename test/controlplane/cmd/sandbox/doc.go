// Command sandbox keeps a real control plane with Virtward on this machine until it is interrupted.
//
// What enters: a few flags. What leaves: a running API server with KubeVirt's and CDI's definitions, the
// simulators of KubeVirt, our chart installed by Helm and the virtward binary; the KUBECONFIG and hints on
// standard output. It needs bin/ as `make build` fills it, and leaves nothing behind.
package main
