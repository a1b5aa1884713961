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

const mshvFile = "examples/kubevirt/mshv.yaml"

// otherHypervisor changes the hypervisor of all VMs, which a guard requires to be confirmed.
func otherHypervisor() []step {
	return []step{
		{
			prose: `The KubeVirt resource names the hypervisor of all VMs. A guard rejects a change of it until an annotation
				confirms the change. Guards are ValidatingAdmissionPolicies, which the API server itself runs.`,
			as: admin, reads: mshvFile, tour: top, rejects: "kubectl apply -f " + mshvFile,
			says: []string{"hypervisor-change: spec.configuration.hypervisor:", "from kvm to mshv", admissionpolicies.AnnotationConfirmHypervisor + ": mshv"},
		},
		{as: admin, runs: []string{confirm("mshv")}},
		{
			do:      (*show).movesToMSHV,
			checked: "one field differs, and it comes from the layer of mshv on amd64. Running VMIs do not change.",
		},
	}
}

// movesToMSHV changes the hypervisor, and compares the VMI with the one before.
func (s *show) movesToMSHV(ctx context.Context) error {
	before, err := s.stored(ctx, "vmi/small")
	if err != nil {
		return err
	}
	if err := s.reconfigure(ctx, mshvFile); err != nil {
		return err
	}
	s.prose("Alice creates the same VMI again. It ran on kvm before. This is the difference:")
	if err := s.doesAll(ctx, alice, "kubectl delete -f "+vmiFile, "kubectl apply -f "+vmiFile); err != nil {
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
	const explain = "kubectl virtward explain -f " + vmiFile + " --from-cluster"
	if _, err := s.greps(ctx, alice, explain, regexp.MustCompile("mshv"), false); err != nil {
		return err
	}
	said := &explanation{}
	if err := s.decode(ctx, explain+" -o json", said); err != nil {
		return err
	}
	undisturbed, err := s.stored(ctx, "vmi/fedora")
	if err != nil {
		return err
	}
	return errors.Join(
		oneLine(lines),
		expect(before, "host-model", "domain", "cpu", "model"),
		expect(undisturbed, "host-model", "domain", "cpu", "model"),
		said.filled("spec.domain.cpu.model", "qemu64-v1", "mshv/amd64"),
		s.agrees(said, after))
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

// reconfigure applies a KubeVirt resource, and waits until the webhook has read it.
func (s *show) reconfigure(ctx context.Context, file string, warnings ...string) error {
	began := time.Now() // the webhook may read it before kubectl ends
	output, err := s.does(ctx, admin, "kubectl apply -f "+file)
	if err != nil {
		return err
	}
	if err := says(output, warnings...); err != nil {
		return err
	}
	return await(ctx, func(ctx context.Context) (string, error) {
		now := time.Now()
		age, err := s.metric(ctx, "virtward_facts_age_seconds")
		if err == nil && age > now.Sub(began).Seconds() {
			return "the webhook has not read the new configuration", nil
		}
		return "", err
	})
}

// mistakes shows that errors are rejected, and that configuration without effect causes a warning.
func mistakes() []step {
	return []step{
		{
			prose: "An unknown hypervisor is rejected, and the message lists the known ones.",
			as:    admin, tour: top, rejects: "kubectl apply -f examples/kubevirt/unknown-hypervisor.yaml",
			says: []string{`hypervisor-known: spec.configuration.hypervisor[0].name: unknown hypervisor "xen": the known ones are hyperv-direct, kvm, mshv`},
		},
		{
			prose: `The list has an effect only with the feature gate ConfigurableHypervisor. Without it, VMs run on kvm. So the
				admin must confirm to disable the gate, too, and gets a warning about the list.`,
			as: admin, runs: []string{confirm("kvm")},
			do: func(s *show, ctx context.Context) error {
				return s.reconfigure(ctx, "examples/kubevirt/gate-closed.yaml", "Warning:", "hypervisor-gate: spec.configuration.hypervisor: the list has no effect", "VMs run on kvm")
			},
		},
		{
			prose: "The admin applies the valid configuration again:",
			do:    func(s *show, ctx context.Context) error { return s.reconfigure(ctx, "examples/kubevirt/defaults.yaml") },
		},
	}
}
