package main

import (
	"context"
	"fmt"
)

// try is a suggested command. It changes nothing, so the demo runs it first.
type try struct {
	comment, line string
	admin         bool
	rejected      bool // it must fail
}

var tries = []try{
	{comment: "list the VMs and VMIs", line: "kubectl get vms,vmis"},
	{comment: "show how a VM of the cluster runs", line: "kubectl virtward explain vm/fedora"},
	{comment: "show a file on another hypervisor and architecture, without a cluster", line: "kubectl virtward explain -f examples/vmi.yaml --hypervisor mshv --arch arm64"},
	{comment: "describe a rule, and how to change its severity", line: "kubectl virtward rules arm64-disk-bus"},
	{comment: "show the VMI that would be created", line: "kubectl create -f examples/vmi.yaml --namespace default --dry-run=server -o yaml", admin: true},
	{comment: "rejected, because it is not confirmed", line: "kubectl apply -f examples/kubevirt/hyperv-direct.yaml", rejected: true, admin: true},
}

// switchOff and switchOn are the documented commands that switch Virtward off and on.
const (
	switchOff = "kubectl virtward disable --reason trying"
	switchOn  = "kubectl virtward enable"
)

// farewell shows further commands. It runs each of them first.
func farewell(ctx context.Context, s *show) error {
	if err := s.rehearse(ctx); err != nil {
		return err
	}
	all := s.everywhere()
	all.prose("From this folder, in another shell:")
	all.line("")
	all.line("  export PATH=$PWD/bin:$PATH")
	all.line("  export KUBECONFIG=" + s.alice.kubeconfig)
	for i, t := range tries {
		switch {
		case i < 2: // the tour has these only
			all.suggest(t)
		case !t.admin:
			s.suggest(t)
		}
	}
	s.prose("As the admin:")
	s.line("")
	s.line("  export KUBECONFIG=" + s.admin.kubeconfig)
	for _, t := range tries {
		if t.admin {
			s.suggest(t)
		}
	}
	s.prose("To switch Virtward off, without a change to running VMs:")
	s.line("")
	s.line("  " + switchOff)
	s.prose("To switch it on again:")
	s.line("")
	s.line("  " + switchOn)
	all.prose("The admin's KUBECONFIG is " + s.admin.kubeconfig + ". Logs are in " + s.cluster.Dir() + "/*.log.")
	return nil
}

func (s *show) suggest(t try) {
	s.line("")
	s.line("  # " + t.comment)
	s.line("  " + t.line)
}

func (s *show) rehearse(ctx context.Context) error {
	for _, t := range tries {
		who, line := s.alice, t.line
		if t.admin {
			who = s.admin
		}
		output, err := s.call(ctx, who, line)
		if t.rejected && err == nil {
			return fmt.Errorf("%s$ %s: succeeded, and should have been rejected:\n%s", who.name, line, output)
		}
		if !t.rejected && err != nil {
			return failed(who, line, output, err)
		}
	}
	output, err := s.call(ctx, s.admin, switchOff+" --dry-run")
	if err != nil {
		return failed(s.admin, switchOff, output, err)
	}
	return says(output, "mutate.virtward.io", "validate.virtward.io", "virtward-rule-settings", "virtward-policies",
		"virtward-kubevirt-hypervisor", "virtward-kubevirt-hypervisor-effect")
}
