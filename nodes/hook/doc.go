// Package hook serves KubeVirt's node hooks: virt-handler calls it before and after a virtual machine starts on the node.
//
// Input: calls of NodeHookService over a Unix socket, with an instance in JSON. Output: the processes of the instance are tuned, or an
// error, after which virt-handler calls again. hook.proto has the messages, in the form of KubeVirt's documentation.
//
// The package has no client of the API server, and serves only root.
package hook
