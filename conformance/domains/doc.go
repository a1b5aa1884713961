// Package domains compares the domains of package domain with those that KubeVirt's virt-launcher made.
//
// Input: cases, one JSON object in each line: an instance, KubeVirt's configuration, the node and the pod, and the domain document.
// Output: a ratio for each area, and a text for each difference. Two documents are equal if their canonical forms are. The
// package never changes a case.
package domains
