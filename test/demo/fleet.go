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

	getRollout = "kubectl get vmrollout larger"
	getGuests  = "kubectl get vmi -l app=web -o custom-columns=NAME:.metadata.name,GUEST:.status.memory.guestCurrent"
	fleetUIDs  = "kubectl get vmi -l app=web -o jsonpath={.items[*].metadata.uid}"
)

// fleetRollout applies a change to ten VMs, one of which fails.
func fleetRollout() []step {
	const (
		apply      = "kubectl apply -f " + rolloutFile
		migrations = "virtualmachineinstancemigrations"
	)
	return []step{
		{
			prose: "Ten VMs have the instancetype u1.medium. They are to get m1.large, which has four times the memory.",
			as:    alice, hidden: true, runs: []string{use(fleet)},
		},
		{as: admin, hidden: true, runs: []string{"kubectl apply -f examples/instancetype-u1-medium.yaml -f " + largeFile}},
		{as: alice, runs: []string{"kubectl apply -f " + fleetFile}},
		{
			as: alice, await: "kubectl get vm -l app=web -o jsonpath={.items[*].status.printableStatus}", until: repeated("Running", 10),
		},
		{
			prose: "The node of web-4 has no space for the migration: the simulator lets it fail.",
			as:    admin, runs: []string{"kubectl annotate vm web-4 -n " + fleet + " " + simulators.MigrationFails + "=no-space"},
		},
		{as: alice, reads: rolloutFile},
		{as: admin, runs: []string{"kubectl create rolebinding alice-rolls-out --namespace " + fleet + " --clusterrole virtward-rollouts-edit --user alice"}},
		{as: alice, await: "kubectl auth can-i create virtualmachinerollouts", until: "yes"},
		{
			prose: "A rollout acts for its author. KubeVirt's role for editors does not include migrations, so that it is denied:",
			as:    alice, rejects: apply, says: []string{migrations},
		},
		{as: admin, runs: []string{"kubectl create rolebinding alice-migrates --namespace " + fleet + " --clusterrole kubevirt.io:migrate --user alice"}},
		{as: alice, await: "kubectl auth can-i create " + migrations, until: "yes", do: (*show).noteInstances},
		{as: alice, runs: []string{apply}},
		{
			prose: "First, web-0 is changed as the canary. After three seconds, the others follow, one at a time:",
			do:    func(s *show, ctx context.Context) error { return s.awaitChanged(ctx, 1) },
		},
		{as: alice, tour: top, runs: []string{getRollout}},
		{
			inTour: "The others follow, until web-4 fails for 20 seconds:",
			do:     func(s *show, ctx context.Context) error { return s.awaitChanged(ctx, 4) },
		},
		{as: alice, runs: []string{getRollout}},
		{
			prose: "KubeVirt repeats the migration of web-4, until the rollout gives up after 20 seconds:",
			do:    func(s *show, ctx context.Context) error { return s.awaitPhase(ctx, "Paused") },
		},
		{
			as: alice, await: getRollout + ` -o jsonpath={.status.conditions[?(@.type=="Paused")].reason}`, until: "PausedByFailures",
			tour: "^larger", runs: []string{getRollout}, says: []string{"Paused"},
		},
		{
			as: alice, runs: []string{getRollout + ` -o jsonpath={.status.virtualMachines[?(@.state=="Failed")]['name','reason']}`},
			says: []string{"web-4 Migrating longer than 20s"},
		},
		{
			as: alice, hidden: true, runs: []string{"kubectl get vm web-5 web-6 web-7 web-8 web-9 -o jsonpath={.items[*].spec.instancetype.name}"},
			says:    []string{repeated("u1.medium", 5)},
			checked: "the rollout pauses by itself, and web-5 to web-9 are not changed.",
		},
		{
			prose: "The admin repairs the node, and Alice resumes the rollout:",
			as:    admin, runs: []string{"kubectl annotate vm web-4 -n " + fleet + " " + simulators.MigrationFails + "-"},
		},
		{
			as: alice, runs: []string{`kubectl patch vmrollout larger --type merge -p {"spec":{"resume":1}}`},
			do: func(s *show, ctx context.Context) error { return s.awaitPhase(ctx, "Complete") },
		},
		{inTour: "Alice resumes the rollout:", as: alice, tour: "^larger", runs: []string{getRollout}},
		{
			as: alice, await: getGuests, until: strings.Join(everyGuest("16Gi"), " "), runs: []string{getGuests},
			do: (*show).keptInstances, checked: "all ten guests have 16Gi, without a restart.",
		},
		{ // the audit of a later chapter is about one other VM
			as: alice, hidden: true, runs: []string{"kubectl delete -f " + rolloutFile + " -f " + fleetFile, use(namespace)},
		},
	}
}

// repeated is what a jsonpath prints for VMs that all have a value.
func repeated(value string, times int) string {
	return strings.TrimSpace(strings.Repeat(value+" ", times))
}

// everyGuest has the rows of the ten VMs with a value.
func everyGuest(value string) (rows []string) {
	for i := range 10 {
		rows = append(rows, fmt.Sprintf("web-%d %s", i, value))
	}
	return rows
}

// noteInstances notes the UIDs of the instances before the rollout.
func (s *show) noteInstances(ctx context.Context) error {
	var err error
	if s.started, err = s.call(ctx, alice, fleetUIDs); err != nil {
		return failed(alice, fleetUIDs, s.started, err)
	}
	return nil
}

// keptInstances fails if the instances are not those from before the rollout.
func (s *show) keptInstances(ctx context.Context) error {
	now, err := s.call(ctx, alice, fleetUIDs)
	if err != nil {
		return failed(alice, fleetUIDs, now, err)
	}
	if len(strings.Fields(now)) != 10 || now != s.started {
		return fmt.Errorf("the instances are not those from before the rollout: %s, before: %s", now, s.started)
	}
	return nil
}

// awaitChanged waits until the rollout has changed some VMs.
func (s *show) awaitChanged(ctx context.Context, changed int) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, alice, getRollout+" -o jsonpath={.status.counts.done}")
		if n, _ := strconv.Atoi(output); n >= changed { // it is empty before the first one
			return "", nil
		}
		return fmt.Sprintf("%d VMs are changed: %s", changed, output), err
	})
}

// awaitPhase waits until the rollout has a phase. Several VMs migrate one after the other: on a busy machine, that takes
// longer than one wait.
func (s *show) awaitPhase(ctx context.Context, phase string) error {
	var err error
	for range 3 {
		if err = s.awaitOutput(ctx, alice, getRollout+` -o jsonpath={.status.phase}:{.status.conditions[?(@.type=="Progressing")].message}`, phase+":"); err == nil {
			break
		}
	}
	return err
}
