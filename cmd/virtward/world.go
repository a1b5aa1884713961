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

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/configcache"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// world is what the webhooks and the controllers know of the cluster.
type world struct {
	client     dynamic.Interface
	facts      *platform.Watcher
	objects    *platform.Objects
	settings   *configcache.Settings
	defaults   *configcache.Defaults
	policies   *configcache.Policies
	namespaces *configcache.Namespaces
	// changed is told what of it changed; set it before anything runs.
	changed func(what string)
}

func newWorld(config *rest.Config, assumed platform.Settings, rules validators.Table, policies configcache.PoliciesOptions, log logr.Logger) (*world, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	labels, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w := &world{client: client, changed: func(string) {}}
	if w.facts, err = platform.NewWatcher(client, assumed, clock.RealClock{}, func(facts *platform.Facts, err error) {
		logFacts(log.WithName("facts"))(facts, err)
		w.changed("facts")
	}); err != nil {
		return nil, err
	}
	if w.objects, err = platform.NewWatchedObjects(config); err != nil {
		return nil, err
	}
	if w.settings, err = configcache.NewSettings(client, rules, w.tells("settings", logChange(log.WithName("settings"), "RuleSettings", "settings", "rules"))); err != nil {
		return nil, err
	}
	if w.defaults, err = configcache.NewDefaults(client, w.tells("defaults", logChange(log.WithName("defaults"), "VirtualMachineDefaults", "defaults", "site"))); err != nil {
		return nil, err
	}
	if policies.Environment, err = cel.NewEnvironment(); err != nil {
		return nil, err
	}
	if w.policies, err = configcache.NewPolicies(client, policies, w.tells("policies", logPolicies(log.WithName("policies")))); err != nil {
		return nil, err
	}
	w.namespaces, err = configcache.NewNamespaces(labels)
	return w, err
}

// evaluator evaluates objects by what is active in the cluster.
func (w *world) evaluator(pipeline *effective.Pipeline) *evaluator.Evaluator {
	return evaluator.New(pipeline, w.objects, &evaluator.Live{
		GetFacts: w.facts.Facts, GetSettings: w.settings.Current, GetSite: w.defaults.Current, GetPolicies: w.policies.Current,
		GetNamespaceLabels: w.namespaces.NamespaceLabels, GetNamespace: w.namespaces.Namespace,
	})
}

// tells makes a listener that also says what changed.
func (w *world) tells(what string, log func(configcache.Change)) func(configcache.Change) {
	return func(change configcache.Change) {
		log(change)
		w.changed(what)
	}
}

// everywhere runs in every replica, whether it leads or not.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (run everywhere) Start(ctx context.Context) error { return run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// addTo makes the manager run everything.
func (w *world) addTo(mgr manager.Manager) error {
	for _, run := range []func(context.Context) error{w.facts.Run, w.objects.Run, w.settings.Run, w.defaults.Run, w.policies.Run, w.namespaces.Run} {
		if err := mgr.Add(everywhere(run)); err != nil {
			return err
		}
	}
	return nil
}

// ready are the conditions of being ready, by name.
func (w *world) ready() map[string]func() error {
	return map[string]func() error{
		"facts":      w.facts.Ready,
		"references": w.objects.Ready,
		"settings":   w.settings.Ready,
		"defaults":   w.defaults.Ready,
		"policies":   w.policies.Ready,
		"namespaces": w.namespaces.Ready,
	}
}

// allReady makes one condition of several.
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

// logFacts tells the admin what the webhooks believe of the cluster, whenever that changes.
func logFacts(log logr.Logger) func(*platform.Facts, error) {
	return func(facts *platform.Facts, err error) {
		if err != nil {
			log.Error(err, "the configuration cannot be used; the one before stays active", "source", facts.Source)
			return
		}
		log.Info("facts active", "source", facts.Source, "hypervisor", facts.Hypervisor.ConfiguredName,
			"architecture", facts.DefaultArchitecture, "liveUpdate", facts.LiveUpdate,
			"warnings", facts.Warnings, "notes", facts.Notes)
	}
}

// logChange tells the admin what the objects of a kind set now, whenever that changes: the noun of the whole.
func logChange(log logr.Logger, kind, noun, whole string) func(configcache.Change) {
	return func(change configcache.Change) {
		if change.Err != nil {
			log.Error(change.Err, "some "+kind+" cannot be used; the "+noun+" before stay active")
			return
		}
		log.Info(noun+" of the "+whole+" active", "from", change.Objects, "notes", change.Notes)
	}
}

// logPolicies tells the admin how many policies are active now, and which of them cannot be evaluated.
func logPolicies(log logr.Logger) func(configcache.Change) {
	const most = 20 // there may be a thousand
	return func(change configcache.Change) {
		if change.Err != nil {
			log.Error(change.Err, "the policies cannot be read; those before stay active", "policies", len(change.Objects))
			return
		}
		log.Info("policies active", "policies", len(change.Objects), "broken", len(change.Notes), "notes", change.Notes[:min(most, len(change.Notes))])
	}
}
