// Package controlplane starts a real Kubernetes control plane on loopback, for the tests, the demo and
// `make sandbox`: etcd, kube-apiserver and kube-controller-manager, built from their Go modules into
// bin/sandbox by the module in test/sandbox.
//
// Input: Options. Output: a ControlPlane with an admin's kubeconfig, RBAC users and service accounts, KubeVirt's and CDI's
// definitions, Virtward's chart installed by Helm, and the virtward binary, which runs with the arguments of the chart's
// Deployment and under its service account. There is no kubelet, no scheduler and no kube-proxy: pods never run, and a
// Service reaches a process on this machine only after PointServiceAtLocalhost. A process that loses its
// Lease starts again. With Options.Supervise, all processes that end do, and the status of Deployments and the EndpointSlices follow
// the processes.
//
// All files are in one temporary folder, and Stop ends everything. If the parent process ends without Stop, the kernel
// kills the components (on Linux), and the next Start removes the folder.
package controlplane
