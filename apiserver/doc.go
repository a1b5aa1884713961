// Package apiserver serves the aggregated API subresources.template.kubevirt.io: process renders a VM template, create
// creates the VirtualMachine as well, approve approves the template as it is, and revoke ends the approval. It runs behind
// kube-apiserver, on the libraries of Kubernetes' own API servers.
//
// Users are authenticated by kube-apiserver and authorized by RBAC. VirtualMachines are created with the rights of this
// server: so everything that the user must be allowed to do is authorized before.
package apiserver
