// Package pods compares the pods of package launcher with recorded answers of KubeVirt's virt-controller.
//
// Input: cases, one JSON object in each line: an instance, the configuration of KubeVirt, what the cluster has, and the pod that
// virt-controller rendered. Output: how many pods are equal, and a text for each difference. Quantities are compared by value, and
// lists of variables, volumes and mounts as sets. The package never changes a case.
package pods
