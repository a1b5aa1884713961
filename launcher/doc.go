// Package launcher computes the virt-launcher pod that KubeVirt makes of a virtual machine instance.
//
// Input: the complete instance, the facts of the cluster, what is known of claims, networks and the namespace, and the
// ResourceRenderer of the hypervisor. Output: the pod, the memory overhead by component, who demands each property of a node,
// remarks about odd figures of KubeVirt, and what was assumed. The package reads no cluster and creates no pod. It renders the pod
// of a first start, not those of migrations, attachments or exports. The behaviour is that of KubeVirt 1.9; the recorded answers in
// conformance/testdata/pod.jsonl hold it.
package launcher
