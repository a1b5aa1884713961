package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
)

// protectionFile is the policy of the library that protects VMs from deletion.
const protectionFile = "policies/library/delete-protection/policy.yaml"

// exceptions shows an exception from a policy, and a VM that is protected from deletion.
func exceptions(ctx context.Context, s *show) error {
	for _, part := range []func(context.Context) error{s.needsExempt, s.isExempt, s.isProtected} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
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

// needsExempt shows that an exception needs a permission for its policy.
func (s *show) needsExempt(ctx context.Context) error {
	s.prose(`The policy of the last chapter denies a VM with 16Gi. An exception admits it, with a reason and an end. Bob can
		write exceptions in the lab, but he cannot exempt VMs from this policy:`)
	if err := s.doesAll(ctx, s.admin,
		"kubectl create clusterrole exception-writer --resource virtualmachinepolicyexceptions.policy.virtward.io --verb get,list,create,patch,delete",
		"kubectl create rolebinding bob-writes --namespace lab --clusterrole exception-writer --user bob",
	); err != nil {
		return err
	}
	file, err := s.exception()
	if err != nil {
		return err
	}
	if err := s.reads(s.bob, file); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.bob, "kubectl auth can-i create virtualmachinepolicyexceptions.policy.virtward.io -n lab", "yes"); err != nil {
		return err
	}
	return s.isRejected(ctx, s.bob, "kubectl apply -f "+file, "you need the verb exempt", "memory-limit")
}

// isExempt grants the permission, and creates the exception and the VM.
func (s *show) isExempt(ctx context.Context) error {
	s.prose("The admin lets Bob exempt VMs from this policy, and no other one:")
	if err := s.doesAll(ctx, s.admin,
		"kubectl create clusterrole memory-exempter --resource virtualmachinepolicies.policy.virtward.io --resource-name memory-limit --verb exempt",
		"kubectl create clusterrolebinding bob-exempts --clusterrole memory-exempter --user bob",
	); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.bob, "kubectl auth can-i exempt virtualmachinepolicies.policy.virtward.io/memory-limit", "yes"); err != nil {
		return err
	}
	file, err := s.exception()
	if err != nil {
		return err
	}
	if err := s.guardIsActive(ctx); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.bob, "kubectl apply -f "+file); err != nil {
		return err
	}
	const create = "kubectl create -f " + analyticsFile + " --namespace lab"
	if err := s.awaitOutput(ctx, s.alice, create+" --dry-run=server", "created"); err != nil {
		return err
	}
	s.prose("A moment later, Alice creates the VM. All others are still denied.")
	if err := s.key("").doesAll(ctx, s.alice, create); err != nil {
		return err
	}
	const list = "kubectl get vmpolex -n lab"
	if err := s.awaitOutput(ctx, s.bob, list, "Active"); err != nil {
		return err
	}
	return s.doesAll(ctx, s.bob, list)
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

// isProtected shows a policy for deletions.
func (s *show) isProtected(ctx context.Context) error {
	s.prose("A policy can be about deletions too. This one of the library protects VMs with a label:")
	if err := s.doesAll(ctx, s.admin, "kubectl apply -f "+protectionFile); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl label vm/analytics -n lab kubevirt.io/vm-delete-protection=True"); err != nil {
		return err
	}
	const remove, denial = "kubectl delete vm/analytics -n lab", "[virtward/policy/delete-protection]"
	if err := await(ctx, func(ctx context.Context) (string, error) {
		output, _ := s.call(ctx, s.alice, remove+" --dry-run=server") // it fails when the policy is active
		if strings.Contains(output, denial) {
			return "", nil
		}
		return "the deletion is not denied: " + output, nil
	}); err != nil {
		return err
	}
	if err := s.key("").isRejected(ctx, s.alice, remove, "this label protects the virtual machine from deletion", denial); err != nil {
		return err
	}
	s.prose("Without the label, the VM can be deleted. Garbage collection and the deletion of a namespace are never denied.")
	if err := s.doesAll(ctx, s.alice, "kubectl label vm/analytics -n lab kubevirt.io/vm-delete-protection-", remove); err != nil {
		return err
	}
	return s.quietly(ctx, s.admin, "kubectl delete -f "+protectionFile)
}
