package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
)

// protectionFile is the policy of the library that protects VMs from deletion.
const protectionFile = "policies/library/delete-protection/policy.yaml"

// exceptions shows an exception from a policy, and a VM that is protected from deletion.
func exceptions() []step {
	return []step{{do: (*show).exempts}, {do: (*show).protects}}
}

// exception writes a file with an exception that ends in 30 days.
func (s *show) exception() (string, error) {
	file := filepath.Join(s.cluster.Dir(), "exception.yaml")
	return file, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: policy.virtward.io/v1alpha1
kind: VirtualMachinePolicyException
metadata:
  name: year-end
  namespace: lab
spec:
  policies: [memory-limit]
  virtualMachines: [analytics]
  reason: the reports of the year's end need 16Gi
  expires: %q
`, time.Now().AddDate(0, 0, 30).UTC().Format(time.RFC3339)), 0o600)
}

// exempts shows that an exception needs a permission for its policy, and what it admits.
func (s *show) exempts(ctx context.Context) error {
	file, err := s.exception()
	if err != nil {
		return err
	}
	const (
		create = "kubectl create -f " + analyticsFile + " --namespace lab"
		list   = "kubectl get vmpolex -n lab"
	)
	return s.follow(ctx, []step{
		{
			prose: `The policy of the last chapter denies a VM with 16Gi. An exception admits it, with a reason and an end. Bob can
				write exceptions in the lab, but he cannot exempt VMs from this policy:`,
			as: admin, runs: []string{
				"kubectl create clusterrole exception-writer --resource virtualmachinepolicyexceptions.policy.virtward.io --verb get,list,create,patch,delete",
				"kubectl create rolebinding bob-writes --namespace lab --clusterrole exception-writer --user bob",
			},
		},
		{
			as: bob, await: "kubectl auth can-i create virtualmachinepolicyexceptions.policy.virtward.io -n lab", until: "yes",
			reads: file, rejects: "kubectl apply -f " + file, says: []string{"you need the verb exempt", "memory-limit"},
		},
		{
			prose: "The admin lets Bob exempt VMs from this policy, and no other one:",
			as:    admin, runs: []string{
				"kubectl create clusterrole memory-exempter --resource virtualmachinepolicies.policy.virtward.io --resource-name memory-limit --verb exempt",
				"kubectl create clusterrolebinding bob-exempts --clusterrole memory-exempter --user bob",
			},
		},
		{
			as: bob, await: "kubectl auth can-i exempt virtualmachinepolicies.policy.virtward.io/memory-limit", until: "yes",
			do: (*show).guardIsActive,
		},
		{as: bob, runs: []string{"kubectl apply -f " + file}},
		{as: alice, await: create + " --dry-run=server", until: "created"},
		{
			prose: "A moment later, Alice creates the VM. All others are still denied.",
			as:    alice, tour: top, runs: []string{create},
		},
		{as: bob, await: list, until: "Active", runs: []string{list}},
	})
}

// guardIsActive waits until the guard of exceptions is active on all API servers. An exception that is older is not active.
func (s *show) guardIsActive(ctx context.Context) error {
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	key := client.ObjectKey{Name: admissionpolicies.PolicyExceptions}
	return await(ctx, func(ctx context.Context) (string, error) {
		if err := errors.Join(s.cluster.Client().Get(ctx, key, policy), s.cluster.Client().Get(ctx, key, binding)); err != nil {
			return "", err
		}
		since := admissionpolicies.ActiveSince(apikinds.PolicyExceptions.GroupVersionResource().GroupResource(), policy, binding)
		if since.IsZero() || time.Since(since) < 2*time.Second { // creations have whole seconds
			return "the guard of exceptions is not active yet", nil
		}
		return "", nil
	})
}

// protects shows a policy for deletions.
func (s *show) protects(ctx context.Context) error {
	const (
		remove, denial = "kubectl delete vm/analytics -n lab", "[virtward/policy/delete-protection]"
		label          = "kubectl label vm/analytics -n lab kubevirt.io/vm-delete-protection"
	)
	return s.follow(ctx, []step{
		{
			prose: "A policy can be about deletions too. This one of the library protects VMs with a label:",
			as:    admin, runs: []string{"kubectl apply -f " + protectionFile},
		},
		{
			as: alice, runs: []string{label + "=True"},
			do: func(s *show, ctx context.Context) error {
				return await(ctx, func(ctx context.Context) (string, error) {
					output, _ := s.call(ctx, alice, remove+" --dry-run=server") // it fails when the policy is active
					if has(output, denial) {
						return "", nil
					}
					return "the deletion is not denied: " + output, nil
				})
			},
		},
		{as: alice, tour: top, rejects: remove, says: []string{"this label protects the virtual machine from deletion", denial}},
		{
			prose: "Without the label, the VM can be deleted. Garbage collection and the deletion of a namespace are never denied.",
			as:    alice, runs: []string{label + "-", remove},
		},
		{as: admin, hidden: true, runs: []string{"kubectl delete -f " + protectionFile}},
	})
}
