package main

import "context"

// try is a suggested command. It changes nothing, so the demo runs it first.
type try struct {
	comment, as, line string
	rejected          bool // it must fail
}

var tries = []try{
	{comment: "list the VMs and VMIs", as: alice, line: "kubectl get vms,vmis"},
	{comment: "show how a VM of the cluster runs", as: alice, line: "kubectl virtward explain vm/fedora"},
	{comment: "show a file on another hypervisor and architecture, without a cluster", as: alice, line: "kubectl virtward explain -f examples/vmi.yaml --hypervisor mshv --arch arm64"},
	{comment: "describe a rule, and how to change its severity", as: alice, line: "kubectl virtward rules arm64-disk-bus"},
	{comment: "show the VMI that would be created", as: admin, line: "kubectl create -f examples/vmi.yaml --namespace default --dry-run=server -o yaml"},
	{comment: "rejected, because it is not confirmed", as: admin, line: "kubectl apply -f examples/kubevirt/hyperv-direct.yaml", rejected: true},
}

// switchOff and switchOn are the documented commands that switch Virtward off and on.
const (
	switchOff = "kubectl virtward disable --reason trying"
	switchOn  = "kubectl virtward enable"
)

// farewell shows further commands. It runs each of them first.
func farewell() []step {
	var rehearsal []step
	for _, t := range tries {
		one := step{as: t.as, hidden: true, runs: []string{t.line}}
		if t.rejected {
			one.runs, one.rejects = nil, t.line
		}
		rehearsal = append(rehearsal, one)
	}
	return append(rehearsal, step{
		as: admin, hidden: true, runs: []string{switchOff + " --dry-run"},
		says: []string{"mutate.virtward.io", "validate.virtward.io", "virtward-rule-settings", "virtward-policies", "virtward-kubevirt-hypervisor", "virtward-kubevirt-hypervisor-effect"},
		do:   (*show).suggestions,
	})
}

// suggestions lists the commands.
func (s *show) suggestions(context.Context) error {
	all := s.everywhere()
	all.prose("From this folder, in another shell:")
	all.line("")
	all.line("  export PATH=$PWD/bin:$PATH")
	all.line("  export KUBECONFIG=" + s.kubeconfigs[alice])
	for i, t := range tries {
		switch {
		case i < 2: // the tour has these only
			all.suggest(t)
		case t.as == alice:
			s.suggest(t)
		}
	}
	s.prose("As the admin:")
	s.line("")
	s.line("  export KUBECONFIG=" + s.kubeconfigs[admin])
	for _, t := range tries {
		if t.as == admin {
			s.suggest(t)
		}
	}
	s.prose("To switch Virtward off, without a change to running VMs:")
	s.line("")
	s.line("  " + switchOff)
	s.prose("To switch it on again:")
	s.line("")
	s.line("  " + switchOn)
	all.prose("The admin's KUBECONFIG is " + s.kubeconfigs[admin] + ". Logs are in " + s.cluster.Dir() + "/*.log.")
	return nil
}

func (s *show) suggest(t try) {
	s.line("")
	s.line("  # " + t.comment)
	s.line("  " + t.line)
}
