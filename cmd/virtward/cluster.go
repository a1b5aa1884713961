package main

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
)

// clusterState watches the cluster for the webhooks and the controllers.
type clusterState struct {
	client     dynamic.Interface
	registry   *hypervisors.Registry
	facts      *platform.Watcher
	objects    *platform.Objects
	settings   *configcache.Settings
	defaults   *configcache.Defaults
	policies   *configcache.Policies
	namespaces *configcache.Namespaces
	// exceptions are those of policies; nil if there can be none.
	exceptions *configcache.Exceptions
	// nodeArchitectures are those of the nodes; nil if this process does not know them.
	nodeArchitectures func() []string
	// nodes are the empty nodes; nil if this process does not know them.
	nodes func() *placement.Snapshot
	// nodesReady returns nil when the nodes are known; it is nil if this process does not know them.
	nodesReady func() error
	// changed is called with the part that changed. Set it before the manager starts.
	changed func(part)
}

// part is a part of the state that changes as a whole. Its value is what the log of the audit calls it.
type part string

// The parts.
const (
	partFacts      part = "facts"
	partSettings   part = "settings"
	partDefaults   part = "defaults"
	partPolicies   part = "policies"
	partExceptions part = "exceptions"
)

// clusterState prepares the watches. Add them to a manager to start them.
func (p *process) clusterState(config *rest.Config, assumed platform.Settings, log logr.Logger) (*clusterState, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	labels, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	s := &clusterState{client: client, registry: registry, changed: func(part) {}}
	if s.facts, err = platform.NewWatcher(client, assumed, clock.RealClock{}, func(facts *platform.Facts, err error) {
		logFacts(log.WithName("facts"))(facts, err)
		s.changed(partFacts)
	}); err != nil {
		return nil, err
	}
	if s.objects, err = platform.NewWatchedObjects(config); err != nil {
		return nil, err
	}
	if s.settings, err = configcache.NewSettings(client, registry.Rules(), s.notify(partSettings, logChange(log.WithName("settings"), apikinds.RuleSettings, "settings", "rules"))); err != nil {
		return nil, err
	}
	if s.defaults, err = configcache.NewDefaults(client, s.notify(partDefaults, logChange(log.WithName("defaults"), apikinds.VirtualMachineDefaults, "defaults", "site"))); err != nil {
		return nil, err
	}
	policies := configcache.PoliciesOptions{Namespace: p.namespace, ParamsNamespaces: p.paramsNamespaces, References: p.policyReferences, Count: p.countsPolicies}
	if len(policies.ParamsNamespaces) == 0 {
		policies.ParamsNamespaces = []string{p.namespace}
	}
	if policies.Environment, err = cel.NewEnvironment(); err != nil {
		return nil, err
	}
	if s.policies, err = configcache.NewPolicies(client, policies, s.notify(partPolicies, logPolicies(log.WithName("policies")))); err != nil {
		return nil, err
	}
	if p.exceptionDays > 0 {
		if s.exceptions, err = configcache.NewExceptions(client, p.exceptionDuration(), func() { s.changed(partExceptions) }); err != nil {
			return nil, err
		}
	}
	s.namespaces, err = configcache.NewNamespaces(labels)
	return s, err
}

// evaluator returns an evaluator with the active configuration of the cluster.
func (s *clusterState) evaluator() *evaluator.Evaluator {
	return evaluator.New(effective.NewPipeline(s.registry), s.objects, &evaluator.Live{
		GetFacts: s.facts.Facts, GetSettings: s.settings.Current, GetSite: s.defaults.Current, GetPolicies: s.policies.Current,
		GetExceptions:        s.exceptions.Current,
		GetNodeArchitectures: s.nodeArchitectures, GetNodes: s.nodes,
		GetNamespaceLabels: s.namespaces.NamespaceLabels, GetNamespace: s.namespaces.Namespace,
	})
}

// notify returns a listener that logs a change and calls changed.
func (s *clusterState) notify(what part, log func(configcache.Change)) func(configcache.Change) {
	return func(change configcache.Change) {
		log(change)
		s.changed(what)
	}
}

// everywhere runs in every replica, not only in the leader.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (run everywhere) Start(ctx context.Context) error { return run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// addTo adds all watches to the manager.
func (s *clusterState) addTo(mgr manager.Manager) error {
	runs := []func(context.Context) error{s.facts.Run, s.objects.Run, s.settings.Run, s.defaults.Run, s.policies.Run, s.namespaces.Run}
	if s.exceptions != nil {
		runs = append(runs, s.exceptions.Run)
	}
	for _, run := range runs {
		if err := mgr.Add(everywhere(run)); err != nil {
			return err
		}
	}
	return nil
}

// ready returns the conditions of readiness, by name.
func (s *clusterState) ready() map[string]func() error {
	conditions := map[string]func() error{
		"facts":      s.facts.Ready,
		"references": s.objects.Ready,
		"settings":   s.settings.Ready,
		"defaults":   s.defaults.Ready,
		"policies":   s.policies.Ready,
		"namespaces": s.namespaces.Ready,
	}
	if s.exceptions != nil {
		conditions["exceptions"] = s.exceptions.Ready
	}
	if s.nodesReady != nil {
		conditions["nodes"] = s.nodesReady
	}
	return conditions
}

// allReady joins conditions: it returns the first error.
func allReady(conditions map[string]func() error) func() error {
	return func() error {
		for _, ready := range conditions {
			if err := ready(); err != nil {
				return err
			}
		}
		return nil
	}
}

// logFacts returns a listener that logs the facts when they change.
func logFacts(log logr.Logger) func(*platform.Facts, error) {
	return func(facts *platform.Facts, err error) {
		if err != nil {
			log.Error(err, "the configuration of KubeVirt cannot be used; the previous facts stay active", "source", facts.Source)
			return
		}
		log.Info("facts active", "source", facts.Source, "hypervisor", facts.Hypervisor.ConfiguredName,
			"architecture", facts.DefaultArchitecture, "liveUpdate", facts.LiveUpdate,
			"warnings", facts.Warnings, "notes", facts.Notes)
	}
}

// logChange returns a listener that logs changes of the objects of a kind, as "NOUN of the WHOLE active".
func logChange(log logr.Logger, kind, noun, whole string) func(configcache.Change) {
	return func(change configcache.Change) {
		if change.Err != nil {
			log.Error(change.Err, "some "+kind+" cannot be used; the previous "+noun+" stay active")
			return
		}
		log.Info(noun+" of the "+whole+" active", "from", change.Objects, "notes", change.Notes)
	}
}

// logPolicies returns a listener that logs how many policies are active, and which of them cannot be evaluated.
func logPolicies(log logr.Logger) func(configcache.Change) {
	const most = 20 // there may be a thousand
	return func(change configcache.Change) {
		if change.Err != nil {
			log.Error(change.Err, "the policies cannot be read; the previous ones stay active", "policies", len(change.Objects))
			return
		}
		log.Info("policies active", "policies", len(change.Objects), "broken", len(change.Notes), "notes", change.Notes[:min(most, len(change.Notes))])
	}
}
