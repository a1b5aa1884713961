package attack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
)

// What the policies of the sequences permit: the VMs of every user have at most so many cores, and those of mallory at most so much memory.
const (
	coresCap  = `{enforcement: Deny, match: {kinds: [VirtualMachine, VirtualMachineInstance, VirtualMachinePool]}, validations: [{expression: "vm.spec.domain.cpu.cores <= 4u", message: four cores at most, fieldPath: spec.domain.cpu.cores}]}`
	aliceOnly = `{enforcement: Deny, match: {kinds: [VirtualMachine, VirtualMachinePool]}, validations: [{expression: "requester == 'alice' || quantity(vm.spec.domain.memory.guest).compareTo(quantity('4Gi')) <= 0", message: only alice gets more than 4Gi, fieldPath: spec.domain.memory.guest}]}`
)

// lasting is how long the sequences run.
func lasting() time.Duration {
	if !soak.On() {
		return 8 * time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("SOAK")); err == nil {
		return d
	}
	return time.Hour
}

// actor sends random requests of one user in one namespace.
type actor struct {
	client    client.Client
	namespace string
	// reckless actors also send what policies deny, and change what others are about to use.
	reckless bool
	names    string
	random   *rand.Rand
}

// pick returns one of the texts.
func (a *actor) pick(of ...string) string { return of[a.random.IntN(len(of))] }

func (a *actor) name() string { return fmt.Sprintf("%s-%d", a.names, a.random.IntN(6)) }

func (a *actor) cores() string {
	if a.reckless {
		return a.pick("1", "2", "4", "5", "16")
	}
	return a.pick("1", "2", "4")
}

func (a *actor) memory() string {
	if a.reckless {
		return a.pick("1Gi", "4Gi", "4097Mi", "8Gi", "9e9", "8388608Ki")
	}
	return a.pick("1Gi", "4Gi", "16Gi")
}

func (a *actor) domain() string {
	return fmt.Sprintf("{devices: {}, cpu: {cores: %s}, memory: {guest: %s}}", a.cores(), a.memory())
}

// of returns an object of the actor.
func (a *actor) of(kind, spec string) *unstructured.Unstructured {
	versions := map[string]string{
		"VirtualMachinePool": "pool.kubevirt.io/v1beta1", "VirtualMachineClone": "clone.kubevirt.io/v1beta1", "VirtualMachineInstancetype": "instancetype.kubevirt.io/v1beta1",
		"VirtualMachineSnapshot": "snapshot.kubevirt.io/v1beta1", "VirtualMachineSnapshotContent": "snapshot.kubevirt.io/v1beta1", "VirtualMachineRestore": "snapshot.kubevirt.io/v1beta1",
	}
	version, found := versions[kind]
	if !found {
		version = "kubevirt.io/v1"
	}
	return object(fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: %s}, spec: %s}", version, kind, a.name(), a.namespace, spec))
}

// labelled is the metadata and the spec of instances of a set or a pool.
func (a *actor) labelled() string {
	return "metadata: {labels: {set: x}}, spec: {domain: " + a.domain() + "}"
}

func (a *actor) patch(path string, value string) string {
	return fmt.Sprintf(`'{"op": "replace", "path": "/spec/template/spec/domain%s", "value": %s}'`, path, value)
}

// writes are the requests, as functions that send one.
func (a *actor) writes() []func(ctx context.Context) error {
	create := func(kind string, spec func() string) func(context.Context) error {
		return func(ctx context.Context) error { return a.client.Create(ctx, a.of(kind, spec())) }
	}
	merge := func(kind string, patch func() string) func(context.Context) error {
		return func(ctx context.Context) error {
			return a.client.Patch(ctx, a.of(kind, "{}"), client.RawPatch("application/merge-patch+json", []byte(patch())))
		}
	}
	end := func(kind string) func(context.Context) error {
		return func(ctx context.Context) error { return a.client.Delete(ctx, a.of(kind, "{}")) }
	}
	machine := func() string {
		return "{runStrategy: " + a.pick("Halted", "Manual") + ", template: {spec: {domain: " + a.domain() + "}}}"
	}
	writes := []func(context.Context) error{
		create("VirtualMachine", machine), create("VirtualMachine", machine),
		merge("VirtualMachine", func() string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":%s},"memory":{"guest":%q}}}}}}`, a.cores(), a.memory())
		}),
		merge("VirtualMachine", func() string { return `{"metadata":{"labels":{"touched":"` + a.pick("a", "b") + `"}}}` }),
		end("VirtualMachine"),
		create("VirtualMachineInstance", func() string { return "{domain: " + a.domain() + "}" }), end("VirtualMachineInstance"),
	}
	if !a.reckless {
		return writes
	}
	return append(writes,
		create("VirtualMachineInstanceReplicaSet", func() string {
			return "{replicas: 1, selector: {matchLabels: {set: x}}, template: {" + a.labelled() + "}}"
		}),
		merge("VirtualMachineInstanceReplicaSet", func() string {
			return fmt.Sprintf(`{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":%s}}}}}}`, a.cores())
		}),
		end("VirtualMachineInstanceReplicaSet"),
		create("VirtualMachinePool", func() string {
			return "{replicas: 1, selector: {matchLabels: {set: x}}, virtualMachineTemplate: {metadata: {labels: {set: x}}, spec: {runStrategy: Halted, template: {" + a.labelled() + "}}}}"
		}),
		end("VirtualMachinePool"),
		create("VirtualMachineInstancetype", func() string { return "{cpu: {guest: " + a.cores() + "}, memory: {guest: " + a.memory() + "}}" }), end("VirtualMachineInstancetype"),
		create("VirtualMachine", func() string {
			return "{runStrategy: Halted, instancetype: {kind: VirtualMachineInstancetype, name: " + a.name() + "}, template: {spec: {domain: {devices: {}}}}}"
		}),
		create("VirtualMachineClone", func() string {
			return "{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: " + a.name() + "}, target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: " + a.name() + "}, patches: [" +
				a.patch("/memory/guest", `"`+a.memory()+`"`) + ", " + a.patch("/cpu/cores", a.cores()) + "]}"
		}),
		end("VirtualMachineClone"),
		create("VirtualMachineSnapshot", func() string {
			return "{source: {apiGroup: kubevirt.io, kind: VirtualMachine, name: " + a.name() + "}}"
		}),
		end("VirtualMachineSnapshot"),
		merge("VirtualMachineSnapshotContent", func() string {
			return fmt.Sprintf(`{"spec":{"source":{"virtualMachine":{"spec":{"template":{"spec":{"domain":{"cpu":{"cores":%s},"memory":{"guest":%q}}}}}}}}}`, a.cores(), a.memory())
		}),
		create("VirtualMachineRestore", func() string {
			return "{target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: " + a.name() + "}, virtualMachineSnapshotName: " + a.name() + ", patches: [" + a.patch("/memory/guest", `"`+a.memory()+`"`) + "]}"
		}),
		end("VirtualMachineRestore"),
		func(ctx context.Context) error {
			return a.client.Create(ctx, object(fmt.Sprintf("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: {generateName: m-, namespace: %s}, spec: {vmiName: %s}}", a.namespace, a.name())))
		},
	)
}

// makers simulates KubeVirt's controllers that make VMs and instances of others' objects: it takes an object that exists, and
// creates what KubeVirt would create of it.
type makers struct {
	client client.Client
	random *rand.Rand
}

func (m *makers) any(ctx context.Context, version, kind string) *unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	if admin.List(ctx, list, client.InNamespace(attacked)) != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[m.random.IntN(len(list.Items))]
}

// make creates one object, with an owner reference to what it is made of.
func (m *makers) make(ctx context.Context) {
	switch m.random.IntN(5) {
	case 0:
		if set := m.any(ctx, "kubevirt.io/v1", "VirtualMachineInstanceReplicaSet"); set != nil {
			m.create(ctx, set, "VirtualMachineInstance", set.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"], nil)
		}
	case 1:
		if pool := m.any(ctx, "pool.kubevirt.io/v1beta1", "VirtualMachinePool"); pool != nil {
			m.create(ctx, pool, "VirtualMachine", pool.Object["spec"].(map[string]any)["virtualMachineTemplate"].(map[string]any)["spec"], nil)
		}
	case 2: // a snapshot gets its content
		snapshot := m.any(ctx, "snapshot.kubevirt.io/v1beta1", "VirtualMachineSnapshot")
		if snapshot == nil {
			return
		}
		name, _, _ := unstructured.NestedString(snapshot.Object, "spec", "source", "name")
		source := &unstructured.Unstructured{}
		source.SetAPIVersion("kubevirt.io/v1")
		source.SetKind("VirtualMachine")
		if admin.Get(ctx, client.ObjectKey{Namespace: attacked, Name: name}, source) != nil {
			return
		}
		content := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent, metadata: {}}")
		content.SetNamespace(attacked)
		content.SetName(snapshot.GetName())
		content.Object["spec"] = map[string]any{"virtualMachineSnapshotName": snapshot.GetName(), "source": map[string]any{"virtualMachine": map[string]any{
			"metadata": map[string]any{"name": name}, "spec": source.Object["spec"],
		}}}
		if m.client.Create(ctx, content) != nil {
			return
		}
		_ = unstructured.SetNestedField(snapshot.Object, content.GetName(), "status", "virtualMachineSnapshotContentName")
		_ = admin.Status().Update(ctx, snapshot)
	case 3:
		if restore := m.any(ctx, "snapshot.kubevirt.io/v1beta1", "VirtualMachineRestore"); restore != nil {
			name, _, _ := unstructured.NestedString(restore.Object, "spec", "virtualMachineSnapshotName")
			content := object("{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent}")
			if admin.Get(ctx, client.ObjectKey{Namespace: attacked, Name: name}, content) == nil {
				spec, _, _ := unstructured.NestedMap(content.Object, "spec", "source", "virtualMachine", "spec")
				m.create(ctx, restore, "VirtualMachine", spec, patches(restore))
			}
		}
	case 4:
		if clone := m.any(ctx, "clone.kubevirt.io/v1beta1", "VirtualMachineClone"); clone != nil {
			name, _, _ := unstructured.NestedString(clone.Object, "spec", "source", "name")
			source := object("{apiVersion: kubevirt.io/v1, kind: VirtualMachine}")
			if admin.Get(ctx, client.ObjectKey{Namespace: attacked, Name: name}, source) == nil {
				spec, _, _ := unstructured.NestedMap(source.Object, "spec")
				m.create(ctx, clone, "VirtualMachine", spec, patches(clone))
			}
		}
	}
}

func patches(of *unstructured.Unstructured) []string {
	all, _, _ := unstructured.NestedStringSlice(of.Object, "spec", "patches")
	return all
}

// patched applies operations of a JSON patch.
func patched(o *unstructured.Unstructured, operations []string) error {
	if len(operations) == 0 {
		return nil
	}
	patch, err := jsonpatch.DecodePatch([]byte("[" + strings.Join(operations, ",") + "]"))
	if err != nil {
		return err
	}
	text, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	if text, err = patch.Apply(text); err != nil {
		return err
	}
	return o.UnmarshalJSON(text)
}

// made counts the names of what is made.
var made atomic.Int64

func (m *makers) create(ctx context.Context, owner *unstructured.Unstructured, kind string, spec any, operations []string) {
	fields, isMap := spec.(map[string]any)
	if !isMap {
		return
	}
	o := object("{apiVersion: kubevirt.io/v1, kind: " + kind + ", metadata: {}}")
	o.SetNamespace(attacked)
	o.SetName(fmt.Sprintf("made-%d", made.Add(1)))
	if target, found, _ := unstructured.NestedString(owner.Object, "spec", "target", "name"); found {
		o.SetName(target)
	}
	o.Object["spec"] = fields
	if err := patched(o, operations); err != nil {
		return
	}
	controller := true
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &controller}})
	_ = m.client.Create(ctx, o)
}

// expected reports whether an answer follows from other requests of the same user.
func expected(err error) bool {
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err)
}

var _ = Describe("Two users who send random requests at the same time", Serial, func() {
	It("create nothing that policies deny for its author, and the one is not disturbed by the other", func(ctx SpecContext) {
		seed := uint64(time.Now().UnixNano())
		AddReportEntry("seed", fmt.Sprint(seed))
		probe := sized("probe", "8Gi")
		enforce(ctx, "sequences-memory", aliceOnly, probe)
		many := sized("probe", "1Gi")
		many.Spec.Template.Spec.Domain.CPU = &kubevirtv1.CPU{Cores: 5}
		enforce(ctx, "sequences-cores", coresCap, many)

		var sent, allowed, byMakers atomic.Int64
		var mu sync.Mutex
		var disturbed []string
		random := func(i uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, i)) } //nolint:gosec // a test repeats its numbers
		var ends []func()
		run := func(a *actor) {
			writes := a.writes()
			ends = append(ends, keep(1, time.Millisecond, func(ctx context.Context) {
				began := time.Now()
				err := writes[a.random.IntN(len(writes))](ctx)
				if ctx.Err() != nil {
					return
				}
				if sent.Add(1); err == nil {
					allowed.Add(1)
				}
				if !a.reckless && !expected(err) && !machine.stopped(began) {
					mu.Lock()
					disturbed = append(disturbed, err.Error())
					mu.Unlock()
				}
			}))
		}
		for i := range uint64(4) {
			run(&actor{client: mallory, namespace: attacked, reckless: true, names: "s", random: random(i)})
		}
		for i := range uint64(2) {
			run(&actor{client: alice, namespace: quiet, names: fmt.Sprintf("alice-%d", i), random: random(10 + i)})
		}
		m := &makers{client: accountOf(ctx, simulators.ControllerAccount), random: random(20)}
		ends = append(ends, keep(1, time.Millisecond, func(ctx context.Context) { m.make(ctx); byMakers.Add(1) }))
		select {
		case <-ctx.Done():
		case <-time.After(lasting()):
		}
		for _, end := range ends {
			end()
		}
		AddReportEntry("figures", fmt.Sprintf("%d requests, %d of them succeeded; %d attempts of KubeVirt's account", sent.Load(), allowed.Load(), byMakers.Load()))
		Expect(sent.Load()).To(BeNumerically(">", 50))
		Expect(allowed.Load()).To(BeNumerically(">", 10))
		Expect(disturbed).To(BeEmpty(), "requests of alice that failed")
		Expect(violations(ctx)).To(BeEmpty(), "seed %d", seed)
	}, NodeTimeout(lasting()+3*time.Minute))

	AfterEach(func(ctx SpecContext) {
		for _, namespace := range []string{attacked, quiet} {
			for _, kind := range []string{"VirtualMachinePool", "VirtualMachineInstanceReplicaSet", "VirtualMachineRestore", "VirtualMachineClone", "VirtualMachineSnapshot", "VirtualMachineSnapshotContent", "VirtualMachineInstanceMigration", "VirtualMachineInstancetype", "VirtualMachine", "VirtualMachineInstance"} {
				a := &actor{namespace: namespace, names: "x", random: rand.New(rand.NewPCG(1, 1))} //nolint:gosec // only a name
				Expect(admin.DeleteAllOf(ctx, a.of(kind, "{}"), client.InNamespace(namespace))).To(Succeed())
			}
		}
	}, NodeTimeout(time.Minute))
})

// violations lists what exists and exceeds what the policies permit.
func violations(ctx context.Context) []string {
	GinkgoHelper()
	var all []string
	for _, namespace := range []string{attacked, quiet} {
		for kind, path := range map[string][]string{
			"kubevirt.io/v1 VirtualMachine":               {"spec", "template", "spec", "domain"},
			"kubevirt.io/v1 VirtualMachineInstance":       {"spec", "domain"},
			"pool.kubevirt.io/v1beta1 VirtualMachinePool": {"spec", "virtualMachineTemplate", "spec", "template", "spec", "domain"},
		} {
			version, kind, _ := strings.Cut(kind, " ")
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(version)
			list.SetKind(kind + "List")
			Expect(admin.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			for i := range list.Items {
				o := &list.Items[i]
				domain, _, err := unstructured.NestedMap(o.Object, path...)
				Expect(err).NotTo(HaveOccurred())
				if err := exceeds(namespace, kind, domain); err != nil {
					all = append(all, fmt.Sprintf("%s %s/%s of %v: %v", kind, namespace, o.GetName(), o.GetOwnerReferences(), err))
				}
			}
		}
	}
	return all
}

func exceeds(namespace, kind string, domain map[string]any) error {
	if cores, found, _ := unstructured.NestedInt64(domain, "cpu", "cores"); found && cores > 4 {
		return fmt.Errorf("%d cores", cores)
	}
	guest, found, _ := unstructured.NestedString(domain, "memory", "guest")
	if !found || namespace == quiet || kind == "VirtualMachineInstance" {
		return nil
	}
	quantity, err := resource.ParseQuantity(guest)
	if err != nil {
		return err
	}
	if quantity.Cmp(resource.MustParse("4Gi")) > 0 {
		return errors.New(guest)
	}
	return nil
}
