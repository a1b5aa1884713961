// Package placement computes on which nodes a pod can run, and why not on the others.
//
// Input: a pod, such as the one that package launcher renders, who demands what of its node, and what is known of the cluster:
// nodes, pods, claims, volumes, quotas. Output: for each node every reason that keeps the pod away, named as the plugin of
// kube-scheduler that has this reason, with the field of the virtual machine behind it and the nearest change that would help;
// and the reasons for which the API server would not even create the pod. The package reads no cluster and places nothing. Its
// answers are compared with those of a real kube-scheduler in test/scheduler.
package placement
