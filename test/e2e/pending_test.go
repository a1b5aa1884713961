package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/limits/parallel"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// pendingOf reads what is pending of a VM; nil if it has no annotation.
func pendingOf(ctx context.Context, g Gomega, vm *kubevirtv1.VirtualMachine) *v1alpha1.Pending {
	GinkgoHelper()
	g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vm)).To(Succeed())
	pending, err := v1alpha1.PendingOf(vm.Annotations)
	g.Expect(err).NotTo(HaveOccurred())
	return pending
}

// takesOf are the pending fields of a VM, each with when it takes effect.
func takesOf(ctx context.Context, g Gomega, vm *kubevirtv1.VirtualMachine) map[string]string {
	GinkgoHelper()
	takes := map[string]string{}
	if pending := pendingOf(ctx, g, vm); pending != nil {
		for _, c := range pending.Changes {
			for _, field := range c.Fields {
				takes[strings.TrimPrefix(field, "spec.template.spec.")] = c.Takes
			}
		}
	}
	return takes
}

// pendingEvents are the reasons of the events of pending changes of a VM, each with its count.
func pendingEvents(ctx context.Context, vm *kubevirtv1.VirtualMachine) map[string]int32 {
	GinkgoHelper()
	counts := map[string]int32{}
	for _, event := range eventsOn(ctx, vm) {
		if strings.HasPrefix(event.Reason, "Pending") {
			counts[event.Reason] += max(1, event.Count)
		}
	}
	return counts
}

// metricsAt are the lines of the metrics on a port.
func metricsAt(ctx context.Context, g Gomega, port int) []string {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return strings.Split(string(body), "\n")
}

// writesBy counts the requests by which the process of rollouts wrote a VM, from the audit log.
func writesBy(vm *kubevirtv1.VirtualMachine) (writes int) {
	GinkgoHelper()
	log, err := os.ReadFile(cluster.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(log)) {
		var event struct {
			Verb, Stage string
			User        struct{ Username string }
			ObjectRef   struct{ Resource, Name, Subresource string }
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.Stage != "ResponseComplete" || !strings.HasSuffix(event.User.Username, ":virtward-rollouts") {
			continue
		}
		if event.ObjectRef.Resource == "virtualmachines" && event.ObjectRef.Name == vm.Name && event.Verb != "get" && event.Verb != "list" && event.Verb != "watch" {
			writes++
		}
	}
	return writes
}

// runRollouts runs the process of rollouts, with its metrics on a port, until the end of the spec.
func runRollouts(ctx context.Context) (process *controlplane.Virtward, port int) {
	GinkgoHelper()
	port, err := cluster.TakePort()
	Expect(err).NotTo(HaveOccurred())
	process, err = cluster.RunVirtward(ctx, controlplane.Workload{
		Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardRollouts,
		Args: []string{controlplane.ShortLease, fmt.Sprintf("--metrics-address=:%d", port)},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(process.Kill)
	return process, port
}

var _ = Describe("Pending changes", Serial, func() {
	It("are in an annotation of the VM, also after the process was killed", func(ctx SpecContext) {
		process, port := runRollouts(ctx)
		soon := func(check func(g Gomega)) {
			GinkgoHelper()
			Eventually(check).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Succeed())
		}
		vm := build.VMOf(build.Typical("pending").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.Domain.Firmware = &kubevirtv1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		})).RunStrategy(kubevirtv1.RunStrategyManual).Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		started(ctx, vm)
		settled := func() { // nothing is written any more
			GinkgoHelper()
			const quiet = 4 * time.Second
			writes, version, since := writesBy(vm), "", time.Now()
			soon(func(g Gomega) { // KubeVirt can write the status late
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vm)).To(Succeed())
				if vm.ResourceVersion != version {
					version, since = vm.ResourceVersion, time.Now()
				}
				g.Expect(time.Since(since)).To(BeNumerically(">", quiet))
			})
			Expect(writesBy(vm)).To(Equal(writes))
		}

		By("changing a field that needs a restart")
		Expect(change(ctx, alice, vm, func() { vm.Spec.Template.Spec.Hostname = "elsewhere" })).To(Succeed())
		generation := vm.Generation
		soon(func(g Gomega) { g.Expect(takesOf(ctx, g, vm)).To(Equal(map[string]string{"hostname": "Restart"})) })
		Expect(vm.Generation).To(Equal(generation), "an annotation is not a change of the spec")
		Expect(vm.Spec.Template.Spec.Hostname).To(Equal("elsewhere"))
		first := pendingOf(ctx, Default, vm)
		Expect(first.Generation).To(Equal(generation))
		Expect(first.RestartRequired).To(Equal("TemplateChanged"))
		Expect(first.Changes[0].Since.Time).To(BeTemporally("~", time.Now(), 30*time.Second))
		soon(func(g Gomega) { g.Expect(pendingEvents(ctx, vm)).To(Equal(map[string]int32{"PendingRestart": 1})) })
		settled()
		Expect(writesBy(vm)).To(Equal(1))
		soon(func(g Gomega) {
			lines := metricsAt(ctx, g, port)
			g.Expect(lines).To(ContainElement(`virtward_vm_pending_changes{kind="Restart"} 1`))
			g.Expect(lines).To(ContainElement(`virtward_vm_restart_required 1`))
		})

		By("editing the annotation, as a user can")
		for _, patch := range []string{`{"metadata":{"annotations":{"rollout.virtward.io/pending":"{\"changes\":[]}"}}}`, `{"metadata":{"annotations":{"rollout.virtward.io/pending":null}}}`} {
			Expect(alice.Patch(ctx, vm, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
			soon(func(g Gomega) { g.Expect(pendingOf(ctx, g, vm)).To(Equal(first)) })
		}
		Expect(pendingEvents(ctx, vm)).To(Equal(map[string]int32{"PendingRestart": 1}))

		By("killing the process, changing another field with another reason, and starting the process again")
		process.Kill()
		Expect(change(ctx, alice, vm, func() { vm.Spec.Template.Spec.NodeSelector = map[string]string{"zone": "a"} })).To(Succeed())
		Expect(process.Start(ctx)).To(Succeed())
		soon(func(g Gomega) {
			g.Expect(takesOf(ctx, g, vm)).To(Equal(map[string]string{"hostname": "Restart", "nodeSelector[zone]": "Restart"}))
		})
		Expect(pendingOf(ctx, Default, vm).Changes).To(ContainElement(HaveField("Since", first.Changes[0].Since)), "the time of the first change is kept")
		soon(func(g Gomega) { g.Expect(pendingEvents(ctx, vm)).To(Equal(map[string]int32{"PendingRestart": 2})) })
		settled()
		process.Kill()
		Expect(process.Start(ctx)).To(Succeed())
		soon(func(g Gomega) { g.Expect(metricsAt(ctx, g, port)).To(ContainElement(`virtward_vm_restart_required 1`)) })
		settled()
		Expect(pendingEvents(ctx, vm)).To(Equal(map[string]int32{"PendingRestart": 2}), "one for each reason")

		By("reverting the changes")
		Expect(change(ctx, alice, vm, func() { vm.Spec.Template.Spec.Hostname, vm.Spec.Template.Spec.NodeSelector = "", nil })).To(Succeed())
		soon(func(g Gomega) {
			g.Expect(pendingOf(ctx, g, vm)).To(BeNil())
		})
		settled()

		By("an instance that waits for a migration that never comes")
		waiting := client.RawPatch(types.MergePatchType, []byte(`{"status":{"currentCPUTopology":{"sockets":1},"conditions":[{"type":"HotVCPUChange","status":"True"}]}}`))
		Expect(change(ctx, admin, vm, func() { annotated(simulators.NotMigratable, "a host device")(vm) })).To(Succeed())
		vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: vm.ObjectMeta}
		Expect(controllerAccount(ctx).Patch(ctx, vmi, waiting)).To(Succeed())
		soon(func(g Gomega) {
			g.Expect(takesOf(ctx, g, vm)).To(Equal(map[string]string{"domain.cpu.sockets": "Restart"}))
		})
		soon(func(g Gomega) {
			g.Expect(metricsAt(ctx, g, port)).To(ContainElement(`virtward_vm_migration_never_comes{reason="NotMigratable"} 1`))
		})
		soon(func(g Gomega) {
			published := &corev1.ConfigMap{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: v1alpha1.CountsName}, published)).To(Succeed())
			counts, err := v1alpha1.CountsOf(published.Data)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect([]any{counts.Complete, counts.Pending, counts.Takes}).To(Equal([]any{true, 1, map[string]int{"Restart": 1}}))
			g.Expect(counts.Running).To(BeNumerically(">=", 1))
		})

		By("stopping the VM")
		Expect(controllerAccount(ctx).Delete(ctx, vmi)).To(Succeed())
		Expect(admin.Status().Patch(ctx, vm, client.RawPatch(types.MergePatchType, []byte(`{"status":{"created":false,"ready":false}}`)))).To(Succeed())
		soon(func(g Gomega) {
			g.Expect(pendingOf(ctx, g, vm)).To(BeNil())
		})
	}, NodeTimeout(3*time.Minute))
})

var _ = Describe("Pending changes of VMs that KubeVirt runs", Serial, func() {
	soon := func(ctx context.Context, check func(g Gomega)) {
		GinkgoHelper()
		Eventually(check).WithContext(ctx).WithPolling(100 * time.Millisecond).Should(Succeed())
	}

	It("follow the instance, the KubeVirt resource and instancetypes", func(ctx SpecContext) {
		_, port := runRollouts(ctx)
		configureRollouts(ctx, kubevirtv1.VMRolloutStrategyLiveUpdate)
		vm := runningVM("pending-live")
		cleanUp(vm)
		Expect(admin.Create(ctx, vm)).To(Succeed())
		awaitRunning(ctx, vm)

		By("plugging sockets that no migration delivers")
		Expect(change(ctx, admin, vm, func() { withSockets(4)(vm) })).To(Succeed())
		soon(ctx, func(g Gomega) {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vmi)).To(Succeed())
			g.Expect(vmi.Spec.Domain.CPU.Sockets).To(BeEquivalentTo(4), "KubeVirt has written it to the instance")
			pending := pendingOf(ctx, g, vm)
			g.Expect(pending).NotTo(BeNil())
			g.Expect(pending.Changes).To(HaveLen(1))
			g.Expect(pending.Changes[0].Fields).To(Equal([]string{sockets}))
			g.Expect(pending.Changes[0].Reason).To(Equal("The guest gets the change with the next live migration. KubeVirt does not start one."))
			g.Expect(metricsAt(ctx, g, port)).To(ContainElements(`virtward_vm_migration_never_comes{reason="NoLiveMigrate"} 1`, `virtward_vm_pending_changes{kind="LiveOnMigration"} 1`))
		})
		soon(ctx, func(g Gomega) {
			g.Expect(pendingEvents(ctx, vm)).To(HaveKeyWithValue("PendingMigration", BeNumerically(">=", 1)))
		})

		By("letting KubeVirt migrate")
		configureRollouts(ctx, kubevirtv1.VMRolloutStrategyLiveUpdate, "LiveMigrate")
		soon(ctx, func(g Gomega) {
			g.Expect(pendingOf(ctx, g, vm)).To(BeNil())
			g.Expect(metricsAt(ctx, g, port)).To(ContainElement(`virtward_vm_migration_never_comes{reason="NoLiveMigrate"} 0`))
		})

		By("naming an instancetype that does not exist, and creating it")
		instancetype := func(name string, cpus uint32) *instancetypev1beta1.VirtualMachineInstancetype {
			return &instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: name}, Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU: instancetypev1beta1.CPUInstancetype{Guest: cpus}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("2Gi")},
			}}
		}
		small, large := instancetype("pending-small", 2), instancetype("pending-large", 4)
		Expect(admin.Create(ctx, small)).To(Succeed())
		cleanUp(small)
		kind := runningVM("pending-kind")
		kind.Spec.Template.Spec.Domain.CPU, kind.Spec.Template.Spec.Domain.Memory = nil, nil
		kind.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: small.Name}
		cleanUp(kind)
		Expect(admin.Create(ctx, kind)).To(Succeed())
		awaitRunning(ctx, kind)
		Expect(change(ctx, admin, kind, func() {
			kind.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: large.Name}
		})).To(Succeed())
		soon(ctx, func(g Gomega) {
			g.Expect(takesOf(ctx, g, kind)).To(Equal(map[string]string{"spec.instancetype": "Blocked"}), "nothing else differs")
			g.Expect(pendingOf(ctx, g, kind).Changes).To(ContainElement(HaveField("Reason", ContainSubstring("pending-large"))))
			g.Expect(metricsAt(ctx, g, port)).To(ContainElement(`virtward_vm_pending_changes{kind="Blocked"} 1`))
		})
		Expect(change(ctx, admin, kind, func() { kind.Spec.Template.Spec.Hostname = "elsewhere" })).To(Succeed())
		soon(ctx, func(g Gomega) {
			g.Expect(takesOf(ctx, g, kind)).To(Equal(map[string]string{"spec.instancetype": "Blocked", "hostname": "Blocked"}))
		})
		Expect(admin.Create(ctx, large)).To(Succeed())
		cleanUp(large)
		soon(ctx, func(g Gomega) { g.Expect(takesOf(ctx, g, kind)).To(HaveKeyWithValue("hostname", "Restart")) })
	}, NodeTimeout(3*time.Minute))

	It("are bounded in memory", func(ctx SpecContext) {
		leaveToSoak()
		const count = 500
		const label = "pending-many"
		controller := controllerAccount(ctx)
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, &kubevirtv1.VirtualMachine{}, client.InNamespace("default"), client.MatchingLabels{label: "1"})).To(Succeed())
			Expect(admin.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace("default"), client.MatchingLabels{label: "1"})).To(Succeed())
		}, NodeTimeout(3*time.Minute))
		begun := time.Now()
		Expect(parallel.Each(ctx, count, func(i int) error { return startMany(ctx, controller, fmt.Sprintf("many-%03d", i), label) })).To(Succeed())
		created := time.Since(begun)
		process, port := runRollouts(ctx)
		begun = time.Now()
		Eventually(func(g Gomega) {
			g.Expect(metricsAt(ctx, g, port)).To(ContainElement(fmt.Sprintf(`virtward_vm_restart_required %d`, count)))
		}).WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(200 * time.Millisecond).Should(Succeed())
		compared := time.Since(begun)
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind.GroupVersion().WithKind("VirtualMachineList"))
		soon(ctx, func(g Gomega) { // the metric is of the comparison, before the write
			g.Expect(admin.List(ctx, list, client.InNamespace("default"), client.MatchingLabels{label: "1"})).To(Succeed())
			g.Expect(list.Items).To(HaveLen(count))
			for i := range list.Items {
				g.Expect(list.Items[i].Annotations).To(HaveKey(v1alpha1.AnnotationPending))
			}
		})
		memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.PID()))
		if err != nil {
			Skip("there is no /proc")
		}
		_, rest, _ := strings.Cut(string(memory), "RssAnon:")
		var kilobytes int
		_, err = fmt.Sscan(rest, &kilobytes)
		Expect(err).NotTo(HaveOccurred())
		GinkgoWriter.Printf("%d VMs were created in %s, and compared in %s; RssAnon is %d MB\n", count, created.Round(time.Second), compared.Round(100*time.Millisecond), kilobytes>>10)
		Expect(kilobytes >> 10).To(BeNumerically("<", 120))
	}, NodeTimeout(5*time.Minute))
})

// startMany creates a VM that runs, with a host name that is pending.
func startMany(ctx context.Context, controller client.Client, name, label string) error {
	vm := runningVM(name)
	vm.Labels = map[string]string{label: "1"}
	*vm.Spec.RunStrategy = kubevirtv1.RunStrategyManual
	if err := admin.Create(ctx, vm); err != nil {
		return err
	}
	start, err := json.Marshal(map[string]any{"spec": vm.Spec})
	if err != nil {
		return err
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: "revision-start-vm-" + string(vm.UID) + "-1", Labels: vm.Labels}, Data: runtime.RawExtension{Raw: start},
	}
	if err := admin.Create(ctx, revision); err != nil {
		return err
	}
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: vm.Namespace, Name: vm.Name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
	}, Spec: *vm.Spec.Template.Spec.DeepCopy()}
	if err := controller.Create(ctx, vmi); err != nil {
		return err
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running","virtualMachineRevisionName":"`+revision.Name+`","conditions":[{"type":"LiveMigratable","status":"True"}]}}`))
	if err := controller.Patch(ctx, vmi, status); err != nil {
		return err
	}
	return admin.Patch(ctx, vm, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"hostname":"later"}}}}`)))
}

// publish writes the counts of running VMs, as the process of rollouts does; nil removes them.
func publish(ctx context.Context, counts *v1alpha1.RunningCounts) {
	GinkgoHelper()
	data := map[string]any{"data": nil}
	if counts != nil {
		data["data"] = map[string]string{v1alpha1.CountsKey: counts.String()}
	}
	patch, err := json.Marshal(data)
	Expect(err).NotTo(HaveOccurred())
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: v1alpha1.CountsName}}
	Expect(admin.Patch(ctx, published, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

var _ = Describe("The KubeVirt resource", Serial, func() {
	It("is changed with a warning of what becomes of running VMs", func(ctx SpecContext) {
		list := &kubevirtv1.KubeVirtList{}
		Expect(admin.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		editor, heard := listen(cluster.Config())
		// warnings are those of a dry run, so that the cluster keeps its strategy.
		warnings := func(fields string) []string {
			GinkgoHelper()
			heard.texts = nil
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"configuration":`+fields+`}}`))
			Expect(editor.Patch(ctx, list.Items[0].DeepCopy(), patch, client.DryRunAll)).To(Succeed(), "it never denies")
			var about []string
			for _, text := range heard.texts {
				if strings.HasPrefix(text, "spec.configuration.vmRolloutStrategy") || strings.HasPrefix(text, "spec.configuration.liveUpdate") {
					about = append(about, text)
				}
			}
			return about
		}
		const strategy = "spec.configuration.vmRolloutStrategy: "
		guest := resource.MustParse("64Gi")
		counts := &v1alpha1.RunningCounts{Time: metav1.Now(), Complete: true, Running: 42, Pending: 7, Takes: map[string]int{"LiveOnMigration": 3, "Restart": 4}, MaxSockets: 16, MaxGuest: &guest}

		publish(ctx, counts)
		DeferCleanup(func(ctx SpecContext) { publish(ctx, nil) })
		Expect(warnings(`{"vmRolloutStrategy":"Stage"}`)).To(Equal([]string{
			strategy + "42 virtual machines run, 7 with pending changes (LiveOnMigration 3, Restart 4).",
			strategy + "With Stage, changes of sockets, guest memory, node selectors, affinity, tolerations and claims wait for a restart. What KubeVirt has written to the instances of 3 virtual machines still arrives with a migration.",
			strategy + "KubeVirt can require restarts of virtual machines whose changes are live already.",
		}))
		Expect(warnings(`{"vmRolloutStrategy":"LiveUpdate"}`)).To(BeEmpty(), "it is the default")
		Expect(warnings(`{"liveUpdateConfiguration":{"maxHotplugRatio":0,"maxCpuSockets":8,"maxGuest":"32Gi"}}`)).To(Equal([]string{
			"spec.configuration.liveUpdateConfiguration.maxHotplugRatio: 0 has no effect. KubeVirt uses its default of 4. 1 means that nothing can be added to running virtual machines.",
			"spec.configuration.liveUpdateConfiguration.maxCpuSockets: 8 is below the 16 sockets of a virtual machine that runs. From its next start, no sockets can be added to it.",
			"spec.configuration.liveUpdateConfiguration.maxGuest: 32Gi is below the 64Gi of a virtual machine that runs. From its next start, no memory can be added to it.",
		}))
		Expect(warnings(`{"cpuModel":"host-model"}`)).To(BeEmpty())

		By("reading counts that are old, and none")
		counts.Time = metav1.NewTime(time.Now().Add(-40 * time.Minute))
		publish(ctx, counts)
		Expect(warnings(`{"vmRolloutStrategy":"Stage"}`)).To(ContainElement(strategy + "42 virtual machines run, 7 with pending changes (LiveOnMigration 3, Restart 4). These counts are 40m0s old: the process virtward-rollouts does not run."))
		publish(ctx, nil)
		Expect(warnings(`{"vmRolloutStrategy":"Stage"}`)).To(ContainElement(strategy + "it changes while virtual machines may run. How many have pending changes is not known: the process virtward-rollouts has not published them."))

		By("running a version of KubeVirt before the gate was available")
		Expect(admin.Status().Patch(ctx, list.Items[0].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedKubeVirtVersion":"v1.3.1"}}`)))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.Status().Patch(ctx, list.Items[0].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedKubeVirtVersion":null}}`)))).To(Succeed())
		})
		Expect(warnings(`{"vmRolloutStrategy":"LiveUpdate"}`)).To(ConsistOf(strategy + "KubeVirt v1.3.1 ignores it unless the feature gate VMLiveUpdateFeatures is on. Add the gate to spec.configuration.developerConfiguration.featureGates."))
		Expect(warnings(`{"vmRolloutStrategy":"LiveUpdate","developerConfiguration":{"featureGates":["VMLiveUpdateFeatures"]}}`)).To(BeEmpty())

		By("stopping the webhook")
		Expect(virtward.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(virtward.Start(ctx)).To(Succeed()); awaitChecks(ctx) })
		Expect(warnings(`{"vmRolloutStrategy":"Stage"}`)).To(BeEmpty())
	}, NodeTimeout(3*time.Minute))
})
