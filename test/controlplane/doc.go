// Package controlplane starts a real Kubernetes control plane on loopback, for the tests, the demo and
// `make sandbox`: etcd, kube-apiserver and kube-controller-manager, built from their Go modules into
// bin/sandbox by the module in test/sandbox.
//
// What enters: Options. What leaves: a ControlPlane with an admin's kubeconfig, users and service accounts
// under real RBAC, KubeVirt's and CDI's definitions, our chart installed by Helm, and the virtward binary
// running as the chart's Deployment says, under the chart's service account. There is no kubelet, no
// scheduler and no kube-proxy: pods never run, and a Service reaches a process on this machine only after
// PointServiceAtLocalhost.
//
// Everything lives in one temporary folder and ends with Stop. When the parent process dies without calling
// it, the kernel kills the components (on Linux), and the next Start removes the folder.
package controlplane
