// Package rollouts compares the plans of package rollouts with recorded answers of KubeVirt's controllers.
//
// Input: cases, one JSON object in each line: a VM with a change, its running instance, and what virt-controller did.
// Output: three ratios, and a text for each difference. The package never changes a case. It leaves out the changes that
// KubeVirt's webhooks deny.
package rollouts
