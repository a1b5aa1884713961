// Package scheduler compares the answers of package placement with those of a real kube-scheduler.
//
// Input: generated pairs of a pod and a cluster of some nodes. Output: for each pair, whether both agree on whether the pod fits, on
// which nodes, and on the kinds of reasons of the others. TestSoakScheduler asks a kube-scheduler, and records a tenth of the answers
// with -update. TestRecorded compares these without a control plane.
package scheduler
