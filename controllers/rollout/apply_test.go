package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clock "k8s.io/utils/clock/testing"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/rollouts/fleet"
	"github.com/virtward/virtward/test/kills"
)

// namespace is that of all objects.
const namespace = "shop"

// cluster is a fake cluster with a rollout, and the virtual machines a and b, which run. Its tests execute actions: those of whole
// reconciliations, with permissions and generations, are in test/rollouts.
type cluster struct {
	server  client.WithWatch
	rollout *v1alpha1.VirtualMachineRollout
	// lists serves virtual machines as they are stored.
	lists *httptest.Server

	mu sync.Mutex
	// restarted are the virtual machines whose restart was requested, and asked the permissions of the requester that were reviewed.
	restarted, asked []string
	// denied are the verbs that the requester may not use, and restarts is the answer to a restart.
	denied   []string
	restarts error
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	must(t, kubevirtv1.AddToScheme(scheme))
	c := &cluster{rollout: &v1alpha1.VirtualMachineRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "larger", UID: "rollout"},
		Spec:       v1alpha1.VirtualMachineRolloutSpec{Patch: &runtime.RawExtension{Raw: []byte(`{"template":{"spec":{"hostname":"web"}}}`)}},
	}}
	objects := []client.Object{c.rollout}
	for _, name := range []string{"a", "b"} {
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 3}
		machine, instance := meta, meta
		machine.UID, instance.UID = types.UID("vm-"+name), types.UID("vmi-"+name)
		objects = append(objects,
			&kubevirtv1.VirtualMachine{ObjectMeta: machine, Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{}}},
			&kubevirtv1.VirtualMachineInstance{ObjectMeta: instance},
		)
	}
	c.server = kills.Server(scheme, clock.NewFakePassiveClock(time.Unix(0, 0)), nil, objects...)
	must(t, c.server.Get(t.Context(), client.ObjectKeyFromObject(c.rollout), c.rollout))
	c.lists = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		vm := &kubevirtv1.VirtualMachine{}
		if err := c.server.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: path.Base(r.URL.Path)}, vm); err != nil {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(vm) // the reader fails
	}))
	t.Cleanup(c.lists.Close)
	return c
}

// Authorize implements Authorizer.
func (c *cluster) Authorize(_ context.Context, user authenticationv1.UserInfo, permission authorizationv1.ResourceAttributes) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, strings.TrimSuffix(user.Username+" "+permission.Verb+" "+permission.Resource+"/"+permission.Subresource, "/"))
	if slices.Contains(c.denied, permission.Verb) {
		return user.Username + " may not " + permission.Verb, nil
	}
	return "", nil
}

// Restart implements Restarter.
func (c *cluster) Restart(_ context.Context, _, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restarted = append(c.restarted, name)
	return c.restarts
}

// process is a new controller with a connection of its own.
func (c *cluster) process(t *testing.T, connection *kills.Connection) *Reconciler {
	t.Helper()
	reader, err := pages.NewReader(&rest.Config{Host: c.lists.URL, QPS: -1})
	must(t, err)
	return New(Options{Client: connection.Fake(c.server), Pages: reader, Authorizer: c, Restarter: c})
}

// vm is a virtual machine as it is stored.
func (c *cluster) vm(t *testing.T, name string) *kubevirtv1.VirtualMachine {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{}
	must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, vm))
	return vm
}

// observed reads what actions are executed with.
func (c *cluster) observed(t *testing.T) *observed {
	t.Helper()
	o := &observed{input: fleet.Input{Rollout: c.rollout}, requester: authenticationv1.UserInfo{Username: "alice"}}
	for _, name := range []string{"a", "b"} {
		data, err := json.Marshal(c.vm(t, name))
		must(t, err)
		record, _, err := readVM(&pages.Object{JSON: data})
		must(t, err)
		vmi := &kubevirtv1.VirtualMachineInstance{}
		must(t, c.server.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, vmi))
		o.vms = append(o.vms, record)
		o.input.Machines = append(o.input.Machines, fleet.Machine{Name: name, UID: record.uid, Marked: record.isMarked(c.rollout), Instance: fleet.Instance{UID: vmi.UID}})
	}
	return o
}

func (c *cluster) migrations(t *testing.T) []kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()
	list := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	must(t, c.server.List(t.Context(), list))
	return list.Items
}

// TestChange: the patch and the mark are one write, for the version that was planned.
func TestChange(t *testing.T) {
	c := newCluster(t)
	o := c.observed(t)
	must(t, c.process(t, &kills.Connection{Left: -1}).apply(t.Context(), o, []fleet.Action{{Verb: fleet.Change, Machine: "a", UID: "vm-a"}}))
	vm := c.vm(t, "a")
	mark, err := v1alpha1.MarkOf(vm.Annotations)
	must(t, err)
	want := v1alpha1.Mark{Rollout: "larger", UID: "rollout", Change: fleet.Digest(&c.rollout.Spec), Generation: 4}
	if vm.Spec.Template.Spec.Hostname != "web" || mark != want {
		t.Errorf("the hostname is %q, and the mark %+v", vm.Spec.Template.Spec.Hostname, mark)
	}
	if diff := cmp.Diff([]string{"alice patch virtualmachines"}, c.asked); diff != "" {
		t.Errorf("reviews (-want +got):\n%s", diff)
	}

	o.input.Machines[1].Outcome.Patched = true
	must(t, c.process(t, &kills.Connection{Left: -1}).apply(t.Context(), o, []fleet.Action{{Verb: fleet.Change, Machine: "b", UID: "vm-b"}}))
	vm = c.vm(t, "b")
	if mark, err = v1alpha1.MarkOf(vm.Annotations); err != nil || mark.Generation != 3 || vm.Spec.Template.Spec.Hostname != "" {
		t.Errorf("one that has the change: the hostname is %q, the mark %+v, %v", vm.Spec.Template.Spec.Hostname, mark, err)
	}
}

// TestActions: what prevents an action, and what is remembered of it.
func TestActions(t *testing.T) {
	change := fleet.Action{Verb: fleet.Change, Machine: "a", UID: "vm-a"}
	restart := fleet.Action{Verb: fleet.Restart, Machine: "a", UID: "vm-a"}
	migrate := fleet.Action{Verb: fleet.Migrate, Machine: "a", UID: "vm-a", Migration: "larger-a"}
	for name, c := range map[string]struct {
		actions []fleet.Action
		// read changes what was observed, and before the cluster after the observation. rejects is the answer to patches.
		read    func(*observed)
		before  func(*testing.T, *cluster)
		rejects error
		// err is a part of the error; empty for none. failure is what is kept of it for the status, and denied the finding.
		err, failure, denied string
		restarted            []string
		migrations           int
	}{
		"the requester may not change it": {
			actions: []fleet.Action{change}, before: func(_ *testing.T, c *cluster) { c.denied = []string{"patch"} }, err: "alice may not patch", failure: "alice may not patch",
		},
		"the requester may not restart it": {
			actions: []fleet.Action{restart}, before: func(_ *testing.T, c *cluster) { c.denied = []string{"update"} }, err: "alice may not update", failure: "alice may not update",
		},
		"the requester may not migrate it": {
			actions: []fleet.Action{migrate}, before: func(_ *testing.T, c *cluster) { c.denied = []string{"create"} }, err: "alice may not create", failure: "alice may not create",
		},
		"it changed after it was read": {
			actions: []fleet.Action{change}, before: func(t *testing.T, c *cluster) {
				vm := c.vm(t, "a")
				vm.Labels = map[string]string{"team": "blue"}
				must(t, c.server.Update(t.Context(), vm))
			}, err: errChanged.Error(),
		},
		"the change is rejected": {
			actions: []fleet.Action{change}, rejects: apierrors.NewInvalid(schema.GroupKind{Kind: "VirtualMachine"}, "a", nil), err: "is invalid", failure: "is invalid", denied: "is invalid",
		},
		"no answer to the change": {actions: []fleet.Action{change}, rejects: errors.New("i/o timeout"), err: "i/o timeout", failure: "i/o timeout"},
		"an action after one that failed is not executed": {
			actions: []fleet.Action{change, restart}, rejects: errors.New("i/o timeout"), err: "i/o timeout", failure: "i/o timeout",
		},
		"a restart": {actions: []fleet.Action{restart}, restarted: []string{"a"}},
		"a restart that is requested already": {
			actions: []fleet.Action{restart}, before: func(_ *testing.T, c *cluster) { c.restarts = apierrors.NewConflict(schema.GroupResource{}, "a", nil) }, restarted: []string{"a"},
		},
		"a restart of a virtual machine that was created again": {
			actions: []fleet.Action{{Verb: fleet.Restart, Machine: "a", UID: "vm-before"}}, err: errChanged.Error(),
		},
		"a restart of an instance that was created again": {
			actions: []fleet.Action{restart}, read: func(o *observed) { o.input.Machines[0].Instance.UID = "vmi-before" }, err: errChanged.Error(),
		},
		"a restart that the virtual machine shows": {
			actions: []fleet.Action{restart}, before: func(t *testing.T, c *cluster) {
				vm, instance := c.vm(t, "a"), types.UID("vmi-a")
				vm.Status.StateChangeRequests = []kubevirtv1.VirtualMachineStateChangeRequest{{Action: kubevirtv1.StopRequest, UID: &instance}}
				must(t, c.server.Update(t.Context(), vm))
			}, err: errChanged.Error(),
		},
		"a restart of a virtual machine that is gone": {
			actions: []fleet.Action{restart}, before: func(t *testing.T, c *cluster) { must(t, c.server.Delete(t.Context(), c.vm(t, "a"))) }, err: errChanged.Error(),
		},
		"a migration":              {actions: []fleet.Action{migrate}, migrations: 1},
		"a migration that exists":  {actions: []fleet.Action{migrate, migrate}, migrations: 1},
		"a migration that is gone": {actions: []fleet.Action{{Verb: fleet.RemoveMigration, Machine: "a", Migration: "none"}}},
		"the rollout changed before its deletion": {
			actions: []fleet.Action{{Verb: fleet.DeleteRollout}}, before: func(t *testing.T, c *cluster) {
				changed := c.rollout.DeepCopy()
				changed.Spec.Paused = true
				must(t, c.server.Update(t.Context(), changed))
			}, err: "the ResourceVersion in the precondition",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newCluster(t)
			if c.rejects != nil {
				e.server = interceptor.NewClient(e.server, interceptor.Funcs{Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return c.rejects
				}})
			}
			o := e.observed(t)
			if c.read != nil {
				c.read(o)
			}
			if c.before != nil {
				c.before(t, e)
			}
			r := e.process(t, &kills.Connection{Left: -1})
			planned := &outcomes{known: map[string]known{"a": {}}}
			r.planned[e.rollout.UID] = planned
			err := r.apply(t.Context(), o, c.actions)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("the error is %v", err)
			}
			if got := planned.failures["a"]; !strings.Contains(got, c.failure) || (got == "") != (c.failure == "") {
				t.Errorf("the failure is %q", got)
			}
			if found := planned.known["a"].outcome.Denied; (len(found) > 0) != (c.denied != "") || len(found) > 0 && !strings.Contains(found[0].Message, c.denied) {
				t.Errorf("the findings are %+v", found)
			}
			if diff := cmp.Diff(c.restarted, e.restarted); diff != "" {
				t.Errorf("restarts (-want +got):\n%s", diff)
			}
			if got := e.migrations(t); len(got) != c.migrations {
				t.Errorf("migrations: %+v", got)
			}
		})
	}
}

// left are the actions that a plan would have now: each virtual machine is changed, and then a is migrated, and b is restarted. An
// old migration is removed.
func (c *cluster) left(t *testing.T, o *observed) (actions []fleet.Action) {
	t.Helper()
	migrated, old := false, false
	for _, m := range c.migrations(t) {
		migrated, old = migrated || m.Name == "larger-a", old || m.Name == "old"
	}
	for i := range o.input.Machines {
		m := &o.input.Machines[i]
		if !m.Marked {
			actions = append(actions, fleet.Action{Verb: fleet.Change, Machine: m.Name, UID: m.UID})
		}
	}
	if !migrated {
		actions = append(actions, fleet.Action{Verb: fleet.Migrate, Machine: "a", UID: "vm-a", Migration: "larger-a"})
	}
	if len(c.restarted) == 0 {
		actions = append(actions, fleet.Action{Verb: fleet.Restart, Machine: "b", UID: "vm-b"})
	}
	if old {
		actions = append(actions, fleet.Action{Verb: fleet.RemoveMigration, Machine: "a", Migration: "old"})
	}
	return actions
}

// TestKilled ends the process at each write, before and after the server executes it. The next process does the rest, and nothing
// twice.
func TestKilled(t *testing.T) {
	const writes = 4 // two changes, a migration, and the removal of one
	for left := range writes {
		for _, lost := range []bool{false, true} {
			c := newCluster(t)
			must(t, c.server.Create(t.Context(), &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"}}))
			ended := &kills.Connection{Left: left, Lost: lost}
			o := c.observed(t)
			if err := c.process(t, ended).apply(t.Context(), o, c.left(t, o)); err == nil || !ended.Dead() {
				t.Fatalf("after %d writes: the process has not ended: %v", left, err)
			}
			last := &kills.Connection{Left: -1}
			o = c.observed(t)
			must(t, c.process(t, last).apply(t.Context(), o, c.left(t, o)))
			o = c.observed(t)
			if rest := c.left(t, o); len(rest) > 0 {
				t.Errorf("after %d writes (%t): %+v is left", left, lost, rest)
			}
			if accepted := len(ended.Accepted()) + len(last.Accepted()); accepted != writes {
				t.Errorf("after %d writes (%t): %d writes in all: %s, %s", left, lost, accepted, ended.Accepted(), last.Accepted())
			}
			migrations := c.migrations(t)
			if len(migrations) != 1 || migrations[0].Labels[v1alpha1.LabelRollout] != "rollout" || !metav1.IsControlledBy(&migrations[0], c.rollout) || migrations[0].Spec.VMIName != "a" {
				t.Errorf("after %d writes (%t): the migrations are %+v", left, lost, migrations)
			}
			for _, name := range []string{"a", "b"} {
				if vm := c.vm(t, name); vm.Spec.Template.Spec.Hostname != "web" {
					t.Errorf("after %d writes (%t): %s has the hostname %q", left, lost, name, vm.Spec.Template.Spec.Hostname)
				}
			}
			if !slices.Equal(c.restarted, []string{"b"}) {
				t.Errorf("after %d writes (%t): restarts of %s", left, lost, c.restarted)
			}
		}
	}
}

// TestPermissionFor: an action needs the permission with which its requester would do it.
func TestPermissionFor(t *testing.T) {
	for verb, want := range map[fleet.Verb]string{
		fleet.Change: "patch kubevirt.io virtualmachines/ a", fleet.Restart: "update subresources.kubevirt.io virtualmachines/restart a",
		fleet.Migrate: "create kubevirt.io virtualmachineinstancemigrations/ ",
	} {
		p := permissionFor(verb, namespace, "a")
		if got := p.Verb + " " + p.Group + " " + p.Resource + "/" + p.Subresource + " " + p.Name; got != want || p.Namespace != namespace || p.Version != apikinds.VirtualMachines.Version {
			t.Errorf("%s: %q in %s", verb, got, p.Namespace)
		}
	}
}
