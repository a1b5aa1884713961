package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/virtward/virtward/admissionpolicies"
)

// otherHypervisor: one resource decides for all VMs, so a guard asks to be sure.
func otherHypervisor(ctx context.Context, s *show) error {
	s.prose(`The KubeVirt resource names the hypervisor of all VMs. Changing it under a running deployment is rejected
		by a guard, a ValidatingAdmissionPolicy that the API server itself runs, until an annotation confirms it.`)
	const file = "examples/kubevirt/mshv.yaml"
	if err := s.reads(s.admin, file); err != nil {
		return err
	}
	if err := s.isRejected(ctx, s.admin, "kubectl apply -f "+file,
		"hypervisor-change: spec.configuration.hypervisor:", "from kvm to mshv", admissionpolicies.AnnotationConfirmHypervisor+": mshv"); err != nil {
		return err
	}
	before, err := s.stored(ctx, "vmi/small")
	if err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, confirm("mshv")); err != nil {
		return err
	}
	if err := s.reconfigure(ctx, file); err != nil {
		return err
	}
	s.prose("Alice makes the same VMI again. It was on kvm; now:")
	if err := s.doesAll(ctx, s.alice, "kubectl delete -f "+vmiFile, "kubectl apply -f "+vmiFile); err != nil {
		return err
	}
	after, err := s.stored(ctx, "vmi/small")
	if err != nil {
		return err
	}
	lines, err := s.changes("vmi/small on kvm", withoutIdentity(before), "vmi/small on mshv", withoutIdentity(after))
	if err != nil {
		return err
	}
	if _, err := s.greps(ctx, s.alice, "kubectl virtward explain -f "+vmiFile+" --from-cluster", regexp.MustCompile("mshv"), false); err != nil {
		return err
	}
	said := &explanation{}
	if err := s.decode(ctx, s.alice, "kubectl virtward explain -f "+vmiFile+" --from-cluster -o json", said); err != nil {
		return err
	}
	undisturbed, err := s.stored(ctx, "vmi/fedora")
	if err != nil {
		return err
	}
	err = errors.Join(
		oneLine(lines),
		expect(before, "host-model", "domain", "cpu", "model"),
		expect(undisturbed, "host-model", "domain", "cpu", "model"),
		said.filled("spec.domain.cpu.model", "qemu64-v1", "mshv/amd64"),
		s.agrees(said, after))
	if err != nil {
		return err
	}
	s.checked("one field differs, and it comes from the layer of mshv on amd64. What runs already was left alone.")
	return nil
}

// oneLine fails unless a diff replaces exactly one line.
func oneLine(lines []string) error {
	count := map[byte]int{}
	for _, l := range lines {
		count[l[0]]++
	}
	if count['-'] != 1 || count['+'] != 1 {
		return fmt.Errorf("more than one field differs:\n%s", strings.Join(lines, "\n"))
	}
	return nil
}

func confirm(hypervisor string) string {
	return "kubectl annotate kubevirt/kubevirt --namespace kubevirt --overwrite " + admissionpolicies.AnnotationConfirmHypervisor + "=" + hypervisor
}

// reconfigure applies a KubeVirt resource, and waits until the webhook has heard of it.
func (s *show) reconfigure(ctx context.Context, file string, warnings ...string) error {
	began := time.Now() // the webhook may have heard of it before kubectl is done
	output, err := s.does(ctx, s.admin, "kubectl apply -f "+file)
	if err != nil {
		return err
	}
	if err := says(output, warnings...); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) (string, error) {
		asked := time.Now()
		age, err := s.metric(ctx, "virtward_facts_age_seconds")
		if err == nil && age > asked.Sub(began).Seconds() {
			return "the webhook has not heard of the new configuration", nil
		}
		return "", err
	})
}

// mistakes: what is wrong is rejected, and what has no effect is warned of.
func mistakes(ctx context.Context, s *show) error {
	s.prose("A hypervisor that nobody knows is rejected, and the message lists the known ones.")
	if err := s.isRejected(ctx, s.admin, "kubectl apply -f examples/kubevirt/unknown-hypervisor.yaml",
		`hypervisor-known: spec.configuration.hypervisor[0].name: unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`); err != nil {
		return err
	}
	s.prose(`The list counts only with the feature gate ConfigurableHypervisor; without it VMs run on kvm. To close
		the gate is a change like any other, to be confirmed. What is left of the list is warned of.`)
	const file = "examples/kubevirt/gate-closed.yaml"
	if err := s.doesAll(ctx, s.admin, confirm("kvm")); err != nil {
		return err
	}
	if err := s.reconfigure(ctx, file, "Warning:", "hypervisor-gate: spec.configuration.hypervisor: the list has no effect", "VMs run on kvm"); err != nil {
		return err
	}
	s.prose("Back to a configuration without mistakes:")
	return s.reconfigure(ctx, "examples/kubevirt/defaults.yaml")
}
