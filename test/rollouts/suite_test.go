// Package rollouts has the end-to-end tests of VirtualMachineRollouts: on a real API server, with simulated controllers of
// KubeVirt.
package rollouts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/rollout"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// count counts the writes to virtual machines and migrations: not those of the status of the rollout.
func count(c *kills.Connection) int { return countOf(c.Writes()) }

// accepted is count without what the API server rejected: KubeVirt can change a virtual machine at the same time.
func accepted(c *kills.Connection) int { return countOf(c.Accepted()) }

func countOf(writes []string) int {
	count := 0
	for _, write := range writes {
		if !strings.Contains(write, "virtualmachinerollouts") {
			count++
		}
	}
	return count
}

// shifted is a clock that a test sets ahead.
type shifted struct {
	clock.RealClock

	mu    sync.Mutex
	ahead time.Duration
}

// Now implements clock.PassiveClock.
func (s *shifted) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

// Since implements clock.PassiveClock.
func (s *shifted) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func (s *shifted) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// shared is the control plane of all tests, with a simulated KubeVirt.
var shared = planes.Shared{Options: planes.WithKinds(), Prepare: simulate}

func TestMain(m *testing.M) { os.Exit(planes.Only(m, shared.Main)) }

// simulate starts a simulated KubeVirt, and returns its end.
func simulate(ctx context.Context, plane *controlplane.ControlPlane) (end func() error, err error) {
	kubevirt, err := simulators.InstallKubeVirt(ctx, plane, kubevirtv1.KubeVirtConfiguration{}, nil)
	if err != nil {
		return nil, err
	}
	kubevirt.API.KeepNoRecord()
	return func() error { return kubevirt.Stop(context.Background()) }, nil
}

// fixture is what a case has for itself on the cluster: its clock, its policies and its events.
type fixture struct {
	*controlplane.ControlPlane

	clock *shifted
	// policies are those of the controllers that are created.
	policies *policies.Set
	// events are those of the rollouts.
	mu     sync.Mutex
	events []string
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return &fixture{ControlPlane: shared.Start(t), clock: &shifted{}}
}

// scenario is a case in a namespace of its own.
type scenario struct {
	name string
	run  func(*fixture, *testing.T)
}

// inParallel runs cases in parallel, each with a fixture of its own.
func inParallel(t *testing.T, cases []scenario) {
	t.Helper()
	shared.Start(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(newFixture(t), t)
		})
	}
}

// methods sets how KubeVirt moves running VMs.
func (f *fixture) methods(t testing.TB, methods ...kubevirtv1.WorkloadUpdateMethod) {
	t.Helper()
	kubevirt := &kubevirtv1.KubeVirt{}
	must(t, f.Client().Get(t.Context(), simulators.Name, kubevirt))
	kubevirt.Spec.WorkloadUpdateStrategy.WorkloadUpdateMethods = methods
	must(t, f.Client().Update(t.Context(), kubevirt))
}

// controller is a new controller, with a connection of its own and the facts of this moment.
func (f *fixture) controller(t testing.TB, c *kills.Connection) *rollout.Reconciler {
	t.Helper()
	direct, config := c.Connect(t, f.Config(), f.Client().Scheme())
	reader, err := pages.NewReader(config)
	must(t, err)
	objects, err := platform.NewObjects(config)
	must(t, err)
	typed, err := kubernetes.NewForConfig(config)
	must(t, err)
	dynamics, err := dynamic.NewForConfig(f.Config())
	must(t, err)
	facts, err := platform.ReadFacts(t.Context(), dynamics, platform.Settings{})
	must(t, err)
	active := f.policies
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	must(t, err)
	return rollout.New(rollout.Options{
		Client: direct, Pages: reader, Objects: objects, Clock: f.clock, Interval: 20 * time.Millisecond,
		Evaluator:  evaluator.New(effective.NewPipeline(registry), objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }, GetPolicies: func() *policies.Set { return active }}),
		Authorizer: rollout.Reviews{Client: direct}, Restarter: rollout.Subresources{Client: typed.CoreV1().RESTClient()},
		Ready: func() error { return nil },
		Tell: func(r *v1alpha1.VirtualMachineRollout, e events.Event) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events = append(f.events, r.Name+" "+e.Reason+": "+e.Message)
		},
	})
}

// namespace makes one with running virtual machines, and waits until they are ready.
func (f *fixture) namespace(t testing.TB, name string, machines int, change ...func(*kubevirtv1.VirtualMachine)) {
	t.Helper()
	must(t, f.EnsureNamespace(t.Context(), name))
	for i := range machines {
		f.machine(t, name, fmt.Sprintf("vm%03d", i), change...)
	}
	f.ready(t, name, machines)
}

func (f *fixture) machine(t testing.TB, namespace, name string, change ...func(*kubevirtv1.VirtualMachine)) {
	t.Helper()
	vm := build.VMOf(build.VMI(name).Namespace(namespace).Topology(1, 1, 1)).RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
	vm.Labels = map[string]string{"app": "db"}
	vm.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "db"}
	for _, c := range change {
		c(vm)
	}
	must(t, f.Client().Create(t.Context(), vm))
}

// ready waits until as many instances are ready.
func (f *fixture) ready(t testing.TB, namespace string, machines int) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		list := &kubevirtv1.VirtualMachineInstanceList{}
		must(t, f.Client().List(t.Context(), list, client.InNamespace(namespace)))
		ready := 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		if ready == machines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are ready", ready, machines)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func isReady(vmi *kubevirtv1.VirtualMachineInstance) bool {
	if vmi.DeletionTimestamp != nil {
		return false
	}
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirtv1.VirtualMachineInstanceReady {
			return c.Status == "True"
		}
	}
	return false
}

// Patches, by what they need.
const (
	needsRestart   = `{"template": {"spec": {"terminationGracePeriodSeconds": %d}}}`
	needsMigration = `{"template": {"spec": {"domain": {"cpu": {"sockets": %d}}}}}`
	needsNodes     = `{"template": {"spec": {"nodeSelector": {"zone": "%d"}}}}`
)

func patch(text string, value int) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, text, value)}
}

// rollout makes a rollout of an admin over all virtual machines with the label app=db, which may do everything.
func (f *fixture) rollout(t testing.TB, namespace, name string, patch *runtime.RawExtension, change ...func(*v1alpha1.VirtualMachineRolloutSpec)) *v1alpha1.VirtualMachineRollout {
	t.Helper()
	requester, err := v1alpha1.Requester{Username: "admin", Groups: []string{"system:masters"}}.String()
	must(t, err)
	r := &v1alpha1.VirtualMachineRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{v1alpha1.AnnotationRequester: requester}},
		Spec: v1alpha1.VirtualMachineRolloutSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Patch: patch,
			Allow: []v1alpha1.Permission{v1alpha1.AllowLive, v1alpha1.AllowMigrate, v1alpha1.AllowRestart},
		},
	}
	for _, c := range change {
		c(&r.Spec)
	}
	must(t, f.Client().Create(t.Context(), r))
	return r
}

func atOnce(n int32) func(*v1alpha1.VirtualMachineRolloutSpec) {
	return func(spec *v1alpha1.VirtualMachineRolloutSpec) {
		spec.Strategy.MaxUnavailable = new(intstr.FromInt32(n))
	}
}

// edit changes the spec of a rollout.
func (f *fixture) edit(t testing.TB, r *v1alpha1.VirtualMachineRollout, change func(*v1alpha1.VirtualMachineRolloutSpec)) {
	t.Helper()
	must(t, f.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r))
	change(&r.Spec)
	must(t, f.Client().Update(t.Context(), r))
}

// step reconciles a rollout once, and reads it.
func (f *fixture) step(t testing.TB, c *rollout.Reconciler, r *v1alpha1.VirtualMachineRollout) error {
	t.Helper()
	_, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
	*r = v1alpha1.VirtualMachineRollout{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(r), r); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err
}

// until reconciles a rollout until it has a phase.
func (f *fixture) until(t testing.TB, c *rollout.Reconciler, r *v1alpha1.VirtualMachineRollout, phase v1alpha1.Phase) {
	t.Helper()
	f.drive(t, c, r, func() bool { return r.Status.Phase == phase && r.Status.ObservedGeneration == r.Generation })
}

func (f *fixture) drive(t testing.TB, c *rollout.Reconciler, r *v1alpha1.VirtualMachineRollout, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := f.step(t, c, r)
		if done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, %v", r.Name, r.Status, err)
		}
		<-time.After(40 * time.Millisecond)
	}
}

// condition returns the reason and the message of a condition that is true; empty if it is not.
func condition(r *v1alpha1.VirtualMachineRollout, kind string) (reason, message string) {
	c := meta.FindStatusCondition(r.Status.Conditions, kind)
	if c == nil || c.Status != metav1.ConditionTrue {
		return "", ""
	}
	return c.Reason, c.Message
}

// of returns the state and the reason of a virtual machine.
func of(r *v1alpha1.VirtualMachineRollout, name string) (v1alpha1.State, string) {
	for _, s := range r.Status.VirtualMachines {
		if s.Name == name {
			return s.State, s.Reason
		}
	}
	return "", "not listed"
}

// witness watches the instances of a namespace.
type witness struct {
	// list reads the instances of this moment.
	list func() *kubevirtv1.VirtualMachineInstanceList
	t    testing.TB

	mu sync.Mutex
	// versions are the versions of the instances that it has seen last, by their UIDs.
	versions map[types.UID]string
	// seen are the UIDs of the instances of each virtual machine, and available those that are ready.
	seen      map[string]map[string]bool
	available map[string]bool
	least     int
}

// watch watches the instances of a namespace until the test ends.
func (f *fixture) watch(t testing.TB, namespace string) *witness {
	t.Helper()
	watching, err := client.NewWithWatch(f.Config(), client.Options{Scheme: f.Client().Scheme()})
	must(t, err)
	w := &witness{t: t, versions: map[types.UID]string{}, seen: map[string]map[string]bool{}, available: map[string]bool{}}
	w.list = func() *kubevirtv1.VirtualMachineInstanceList {
		list := &kubevirtv1.VirtualMachineInstanceList{}
		must(t, watching.List(t.Context(), list, client.InNamespace(namespace)))
		return list
	}
	list := w.list()
	for i := range list.Items {
		w.see(&list.Items[i], false)
	}
	w.least = len(w.available)
	changes, err := watching.Watch(t.Context(), &kubevirtv1.VirtualMachineInstanceList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	must(t, err)
	t.Cleanup(changes.Stop)
	go func() {
		for event := range changes.ResultChan() {
			if vmi, ok := event.Object.(*kubevirtv1.VirtualMachineInstance); ok {
				w.see(vmi, event.Type == "DELETED")
			}
		}
	}()
	return w
}

func (w *witness) see(vmi *kubevirtv1.VirtualMachineInstance, deleted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen[vmi.Name] == nil {
		w.seen[vmi.Name] = map[string]bool{}
	}
	w.seen[vmi.Name][string(vmi.UID)] = true
	if w.versions[vmi.UID] = vmi.ResourceVersion; deleted {
		delete(w.versions, vmi.UID)
	}
	if deleted || !isReady(vmi) {
		delete(w.available, vmi.Name)
	} else {
		w.available[vmi.Name] = true
	}
	w.least = min(w.least, len(w.available))
}

// catchUp waits until the watch has told all that has happened.
func (w *witness) catchUp() {
	w.t.Helper()
	await.Until(w.t, func() error {
		versions := map[types.UID]string{}
		list := w.list()
		for i := range list.Items {
			versions[list.Items[i].UID] = list.Items[i].ResourceVersion
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !maps.Equal(versions, w.versions) {
			return fmt.Errorf("the instances are %v, and the watch has told of %v", versions, w.versions)
		}
		return nil
	})
}

// worst is the largest number of unavailable virtual machines of a total at any time.
func (w *witness) worst(total int) int {
	w.t.Helper()
	w.catchUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	return total - w.least
}

// restarts counts the instances after the first of each virtual machine.
func (w *witness) restarts() map[string]int {
	w.t.Helper()
	w.catchUp()
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[string]int{}
	for name, uids := range w.seen {
		counts[name] = len(uids) - 1
	}
	return counts
}
