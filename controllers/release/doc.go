// Package release removes the finalizers of Virtward from all objects, before a release is uninstalled: without its controllers,
// they would keep the objects and their namespaces.
//
// Input: a client of the cluster, the Deployments of the controllers, and the kinds of objects with their finalizers. Output:
// the Deployments have no replicas, and no object has a finalizer, or an error that says which one does. It deletes nothing.
package release
