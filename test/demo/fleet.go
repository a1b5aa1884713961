package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/virtward/virtward/test/simulators"
)

const (
	fleetFile   = "examples/rollouts/fleet.yaml"
	rolloutFile = "examples/rollouts/rollout.yaml"

	fleetUIDs = "kubectl get vmi -l app=web -o jsonpath={.items[*].metadata.uid}"
)

// fleetRollout takes a change through ten VMs, one of which fails.
func fleetRollout(ctx context.Context, s *show) error {
	for _, part := range []func(context.Context) error{s.runsFleet, s.needsPermissions, s.pausesAtFailure, s.resumes} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runsFleet starts ten VMs. The migrations of one of them fail.
func (s *show) runsFleet(ctx context.Context) error {
	s.prose("Ten VMs have the instancetype u1.medium. They are to get m1.large, which has four times the memory.")
	if err := s.quietly(ctx, s.alice, "kubectl config set-context --current --namespace "+fleet); err != nil {
		return err
	}
	if err := s.quietly(ctx, s.admin, "kubectl apply -f examples/instancetype-u1-medium.yaml -f examples/instancetype-m1-large.yaml"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+fleetFile); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, "kubectl get vm -l app=web -o jsonpath={.items[*].status.printableStatus}", strings.TrimSpace(strings.Repeat("Running ", 10))); err != nil {
		return err
	}
	s.prose("The node of web-4 has no space for the migration: the simulator lets it fail.")
	return s.doesAll(ctx, s.admin, "kubectl annotate vm web-4 -n "+fleet+" "+simulators.MigrationFails+"=no-space")
}

// needsPermissions shows that a rollout needs the permissions for all that it may do.
func (s *show) needsPermissions(ctx context.Context) error {
	if err := s.reads(s.alice, rolloutFile); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, "kubectl create rolebinding alice-rolls-out --namespace "+fleet+" --clusterrole virtward-rollouts-edit --user alice"); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, "kubectl auth can-i create virtualmachinerollouts", "yes"); err != nil {
		return err
	}
	s.prose("A rollout acts for its author. KubeVirt's role for editors does not include migrations, so that it is denied:")
	if err := s.isRejected(ctx, s.alice, "kubectl apply -f "+rolloutFile, "virtualmachineinstancemigrations"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.admin, "kubectl create rolebinding alice-migrates --namespace "+fleet+" --clusterrole kubevirt.io:migrate --user alice"); err != nil {
		return err
	}
	return s.awaitOutput(ctx, s.alice, "kubectl auth can-i create virtualmachineinstancemigrations", "yes")
}

// pausesAtFailure runs the rollout until it pauses.
func (s *show) pausesAtFailure(ctx context.Context) error {
	var err error
	if s.started, err = s.call(ctx, s.alice, fleetUIDs); err != nil {
		return failed(s.alice, fleetUIDs, s.started, err)
	}
	if err := s.doesAll(ctx, s.alice, "kubectl apply -f "+rolloutFile); err != nil {
		return err
	}
	s.prose("First, web-0 is changed as the canary. After three seconds, the others follow, one at a time:")
	if err := s.key("").showsProgress(ctx, 1); err != nil {
		return err
	}
	s.tour.prose("The others follow, until web-4 fails for 20 seconds:")
	if err := s.showsProgress(ctx, 4); err != nil {
		return err
	}
	s.prose("KubeVirt repeats the migration of web-4, until the rollout gives up after 20 seconds:")
	if err := s.awaitPhase(ctx, "Paused"); err != nil {
		return err
	}
	if err := s.awaitOutput(ctx, s.alice, `kubectl get vmrollout larger -o jsonpath={.status.conditions[?(@.type=="Paused")].reason}`, "PausedByFailures"); err != nil {
		return err
	}
	output, err := s.key("^larger").does(ctx, s.alice, "kubectl get vmrollout larger")
	if err != nil {
		return err
	}
	if err := says(output, "Paused"); err != nil {
		return err
	}
	if output, err = s.does(ctx, s.alice, `kubectl get vmrollout larger -o jsonpath={.status.virtualMachines[?(@.state=="Failed")]['name','reason']}`); err != nil {
		return err
	}
	if err := says(output, "web-4 Migrating longer than 20s"); err != nil {
		return err
	}
	const rest = "kubectl get vm web-5 web-6 web-7 web-8 web-9 -o jsonpath={.items[*].spec.instancetype.name}"
	if output, err = s.call(ctx, s.alice, rest); err != nil {
		return failed(s.alice, rest, output, err)
	}
	if output != strings.TrimSpace(strings.Repeat("u1.medium ", 5)) {
		return fmt.Errorf("the VMs after web-4 have the instancetypes %s after the failure", output)
	}
	s.checked("the rollout pauses by itself, and web-5 to web-9 are not changed.")
	return nil
}

// showsProgress waits until the rollout has changed some VMs, and shows it.
func (s *show) showsProgress(ctx context.Context, changed int) error {
	const done = "kubectl get vmrollout larger -o jsonpath={.status.counts.done}"
	if err := await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, s.alice, done)
		if n, _ := strconv.Atoi(output); n >= changed { // it is empty before the first one
			return "", nil
		}
		return fmt.Sprintf("%d VMs are changed: %s", changed, output), err
	}); err != nil {
		return err
	}
	return s.doesAll(ctx, s.alice, "kubectl get vmrollout larger")
}

// awaitPhase waits until the rollout has a phase. Several VMs migrate one after the other: on a busy machine, that takes
// longer than one wait.
func (s *show) awaitPhase(ctx context.Context, phase string) error {
	var err error
	for range 3 {
		if err = s.awaitOutput(ctx, s.alice, `kubectl get vmrollout larger -o jsonpath={.status.phase}:{.status.conditions[?(@.type=="Progressing")].message}`, phase+":"); err == nil {
			break
		}
	}
	return err
}

// resumes repairs the VM and resumes the rollout.
func (s *show) resumes(ctx context.Context) error {
	s.prose("The admin repairs the node, and Alice resumes the rollout:")
	if err := s.doesAll(ctx, s.admin, "kubectl annotate vm web-4 -n "+fleet+" "+simulators.MigrationFails+"-"); err != nil {
		return err
	}
	if err := s.doesAll(ctx, s.alice, `kubectl patch vmrollout larger --type merge -p {"spec":{"resume":1}}`); err != nil {
		return err
	}
	if err := s.awaitPhase(ctx, "Complete"); err != nil {
		return err
	}
	s.tour.prose("Alice resumes the rollout:")
	if err := s.key("^larger").doesAll(ctx, s.alice, "kubectl get vmrollout larger"); err != nil {
		return err
	}
	guests, err := s.does(ctx, s.alice, "kubectl get vmi -l app=web -o custom-columns=NAME:.metadata.name,GUEST:.status.memory.guestCurrent")
	if err != nil {
		return err
	}
	if strings.Count(guests, "16Gi") != 10 {
		return fmt.Errorf("not all ten guests have 16Gi:\n%s", guests)
	}
	runs, err := s.call(ctx, s.alice, fleetUIDs)
	if err != nil {
		return failed(s.alice, fleetUIDs, runs, err)
	}
	if len(strings.Fields(runs)) != 10 || runs != s.started {
		return fmt.Errorf("the instances are not those from before the rollout: %s, before: %s", runs, s.started)
	}
	s.checked("all ten guests have 16Gi, without a restart.")
	for _, line := range []string{ // the audit of a later chapter is about one other VM
		"kubectl delete -f " + rolloutFile + " -f " + fleetFile,
		"kubectl config set-context --current --namespace " + namespace,
	} {
		if err := s.quietly(ctx, s.alice, line); err != nil {
			return err
		}
	}
	return nil
}
