package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/soak"
)

// A user with many requests at once, in one namespace or in many. The API server calls a webhook over HTTP/1.1, with a
// connection for each request.

// tries is how often a protected VM is deleted beside each attack.
func tries() int64 {
	if soak.On() {
		return 500
	}
	return 20
}

// crowdCreates are the creates of an innocent user beside an attack that the API server itself can hardly serve.
func crowdCreates() int64 {
	if soak.On() {
		return innocentCreates()
	}
	return 60
}

// failOpen is the metric of the API server for calls of a webhook that failed and were admitted.
const failOpen = "apiserver_admission_webhook_fail_open_count"

// worstOf are requests that cost the most for their size, in a namespace.
func worstOf(namespace string) []sent {
	GinkgoHelper()
	path := "/apis/kubevirt.io/v1/namespaces/" + namespace + "/virtualmachines?dryRun=All"
	inNamespace := func(vm *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachine {
		vm.Namespace = namespace
		return vm
	}
	brackets := func(n int) map[string]string { return map[string]string{"text": strings.Repeat("{", n)} }
	references := inNamespace(build.VM("references").Obj())
	references.Annotations = brackets(5_000)
	for i := range 30 {
		name := fmt.Sprintf("unknown-%d", i)
		spec := &references.Spec.Template.Spec
		spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: name, VolumeSource: kubevirtv1.VolumeSource{
			PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
		}})
		spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: name})
		spec.Networks = append(spec.Networks, kubevirtv1.Network{Name: name, NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: name}}})
		spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, kubevirtv1.Interface{Name: name, InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}}})
	}
	inferred := inNamespace(build.VM("inferred").Obj())
	inferred.Spec.Template.Spec.Domain.Memory = nil
	inferred.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: "unknown"}
	inferred.Spec.Preference = &kubevirtv1.PreferenceMatcher{Kind: "VirtualMachinePreference", Name: "unknown"}
	values := inNamespace(build.VM("values").Obj())
	values.Spec.DataVolumeTemplates = make([]kubevirtv1.DataVolumeTemplateSpec, 500)
	requests := make([]sent, 0, 3)
	for _, vm := range []*kubevirtv1.VirtualMachine{references, inferred, values} {
		requests = append(requests, request(path, vm))
	}
	return requests
}

// crush sends requests of a user, many at once, without a pause, until end is called. end returns how often each status was
// answered. What is sent is bounded by what is answered.
func crush(user string, atOnce int, requests []sent) (end func() string) {
	GinkgoHelper()
	attacker := rawClient(user)
	var mu sync.Mutex
	answers := map[int]int{}
	var next atomic.Int64
	stop := keep(atOnce, 0, func(ctx context.Context) {
		one, status := requests[int(next.Add(1))%len(requests)], 0
		attacker.Post().MaxRetries(0).RequestURI(one.path).SetHeader("Content-Type", "application/json").Body(one.body).Do(ctx).StatusCode(&status)
		if ctx.Err() == nil {
			mu.Lock()
			answers[status]++
			mu.Unlock()
		}
	})
	return func() string {
		stop()
		Expect(answers).NotTo(Or(BeEmpty(), HaveKey(0)), "the attack did not reach the API server")
		return fmt.Sprintf("answers by status %v", answers)
	}
}

// counted matches the metrics of policies that were skipped, or could not be evaluated.
var counted = regexp.MustCompile(`(?m)^virtward_policy_(?:skipped|errors)_total\{[^}]*policy="attack-[^}]*\} ([0-9.e+]+)$`)

// exceeding returns how often policies of the attacks were skipped or exceeded their limits.
func exceeding(ctx context.Context) (sum float64) {
	GinkgoHelper()
	for _, argument := range virtward.Args() {
		port, found := strings.CutPrefix(argument, "--metrics-address=")
		if !found {
			continue
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1"+port+"/metrics", nil)
		Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		for _, one := range counted.FindAllSubmatch(body, -1) {
			n, err := strconv.ParseFloat(string(one[1]), 64)
			Expect(err).NotTo(HaveOccurred())
			sum += n
		}
	}
	return sum
}

var _ = Describe("Many requests at once", Serial, Ordered, timed, func() {
	const trudy = "trudy"
	var kept *kubevirtv1.VirtualMachine

	BeforeAll(func(ctx SpecContext) {
		By("letting trudy create virtual machines in all namespaces")
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: trudy}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines"}, Verbs: []string{"create"}}}}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: trudy}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: trudy}}}
		Expect(admin.Create(ctx, role)).To(Succeed())
		Expect(admin.Create(ctx, binding)).To(Succeed())
		cleanUp(role)
		cleanUp(binding)

		By("protecting a virtual machine from deletion")
		policy := object(`{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: attack-keep}, spec: {enforcement: Deny, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [{expression: "oldObject.metadata.?labels.orValue({})[?'keep'].orValue('') != 'true'", message: it is kept}]}}`)
		cleanUp(policy)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		kept = build.VM("kept").Obj()
		kept.Labels = map[string]string{"keep": "true"}
		cleanUp(kept)
		DeferCleanup(func(ctx SpecContext) {
			Expect(change(ctx, admin, kept, func() { kept.Labels = nil })).To(Succeed())
		})
		Expect(alice.Create(ctx, kept)).To(Succeed())
		Eventually(func(ctx context.Context) error { return alice.Delete(ctx, kept, client.DryRunAll) }).WithContext(ctx).Should(MatchError(ContainSubstring("it is kept")))
	}, NodeTimeout(3*time.Minute))

	// protected deletes the VM again and again, until end is called, which returns how often it was denied by the policy, and
	// how often because there was no time. No deletion succeeds.
	protected := func() (end func() (denied, unevaluated int64)) {
		var denied, unevaluated, lost atomic.Int64
		var unexpected atomic.Value
		deleter := rawClient("alice")
		path := "/apis/kubevirt.io/v1/namespaces/" + quiet + "/virtualmachines/" + kept.Name + "?dryRun=All"
		stop := keep(2, 0, func(ctx context.Context) {
			began := time.Now()
			err := deleter.Delete().MaxRetries(0).RequestURI(path).Do(ctx).Error()
			switch {
			case ctx.Err() != nil:
			case err == nil && !machine.stopped(began):
				lost.Add(1)
			case err == nil:
			case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "it is kept"):
				denied.Add(1)
			case apierrors.IsTooManyRequests(err):
				unevaluated.Add(1)
			default:
				unexpected.Store(err.Error())
			}
		})
		return func() (int64, int64) {
			GinkgoHelper()
			Eventually(denied.Load).WithTimeout(nodeTimeout).Should(BeNumerically(">=", tries()))
			stop()
			Expect(lost.Load()).To(BeZero(), "deletions of a protected virtual machine")
			Expect(unexpected.Load()).To(BeNil())
			return denied.Load(), unevaluated.Load()
		}
	}

	for _, c := range []struct {
		namespaces, atOnce int
		soak               bool
		// unfair is how the API server limits requests without its priorities.
		unfair string
	}{
		{namespaces: 1, atOnce: 130},
		{namespaces: 1, atOnce: 200, soak: true},
		{namespaces: 3, atOnce: 200, soak: true},
		{namespaces: 50, atOnce: 200, soak: true},
		// The API server rejects all requests above 200 in progress then, those of innocent users among them.
		{namespaces: 1, atOnce: 180, soak: true, unfair: ", without the API server's priority and fairness,"},
	} {
		It(fmt.Sprintf("%d of %d namespaces%s do not delay or fail those of others, and do not remove the protection of deletions", c.atOnce, c.namespaces, c.unfair), func(ctx SpecContext) {
			if c.soak != soak.On() {
				Skip("a soak has more requests")
			}
			if c.unfair != "" {
				Expect(cluster.RestartAPIServer(ctx, "--enable-priority-and-fairness=false")).To(Succeed())
				DeferCleanup(func(ctx SpecContext) {
					Expect(cluster.RestartAPIServer(ctx, "--enable-priority-and-fairness=true")).To(Succeed())
				}, NodeTimeout(time.Minute))
				awaitWebhooks(ctx)
			}
			var requests []sent
			for i := range c.namespaces {
				namespace := attacked
				if i > 0 {
					namespace = fmt.Sprintf("%s-%d", attacked, i)
					Expect(cluster.EnsureNamespace(ctx, namespace)).To(Succeed())
				}
				requests = append(requests, worstOf(namespace)...)
			}
			before, err := cluster.Metric(ctx, failOpen, map[string]string{"name": "deletions.validate.virtward.io"})
			Expect(err).NotTo(HaveOccurred())
			besideCreates(ctx, crowdWorkers, crowdCreates(), func() func() string {
				attack, deletions := crush(trudy, c.atOnce, requests), protected()
				requests = worstOf(attacked) // the same load, in the namespace that is exempt then
				return func() string {
					denied, unevaluated := deletions()
					return fmt.Sprintf("%s; deletions of a protected VM: %d denied by the policy, %d for want of time", attack(), denied, unevaluated)
				}
			})
			Expect(cluster.Metric(ctx, failOpen, map[string]string{"name": "deletions.validate.virtward.io"})).To(Equal(before), "calls for deletions failed")
		}, NodeTimeout(2*nodeTimeout))
	}

	It("beside policies without the right to deny that cost as much as they can do not delay or fail those of others", func(ctx SpecContext) {
		const many = "lists.range(20000)"
		for name, expression := range map[string]string{
			"format":   many + `.all(i, '%s %d %f'.format(['a', i, 1.5]) != '')`,
			"sort":     many + `.map(i, string(20000 - i)).sort().size() > 0`,
			"urls":     many + `.all(i, !isURL('https://example.com/' + string(i) + '/%zz'))`,
			"images":   many + `.all(i, virtward.isImage('registry.example.com/a:' + string(i)))`,
			"patterns": many + `.all(i, !string(i).matches('^(a|b|' + string(i) + ')*x$'))`,
		} {
			policy := object(fmt.Sprintf("{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: attack-%s}, spec: {enforcement: Audit, match: {kinds: [VirtualMachine], operations: [CREATE, UPDATE, DELETE]}, validations: [{expression: %q, message: m}]}}", name, expression))
			cleanUp(policy)
			Expect(admin.Create(ctx, policy)).To(Succeed())
		}
		vm := build.VM("costly").Obj()
		Eventually(func(ctx context.Context) float64 {
			Expect(alice.Create(ctx, vm.DeepCopy(), client.DryRunAll)).To(Succeed())
			return exceeding(ctx)
		}).WithContext(ctx).Should(BeNumerically(">", 0), "the policies are not active")
		before, err := cluster.Metric(ctx, failOpen, map[string]string{"name": "deletions.validate.virtward.io"})
		Expect(err).NotTo(HaveOccurred())
		began, busy := time.Now(), cpuTime(virtward.PID())
		deletions := protected()
		p99 := served(ctx, crowdCreates())
		denied, unevaluated := deletions()
		AddReportEntry("figures", fmt.Sprintf("p99 of a create: idle %s, attacked %s; deletions of a protected VM: %d denied by the policy, %d for want of time; the webhook: %.1f cores",
			idle, p99, denied, unevaluated, (cpuTime(virtward.PID())-busy).Seconds()/time.Since(began).Seconds()))
		Expect(cluster.Metric(ctx, failOpen, map[string]string{"name": "deletions.validate.virtward.io"})).To(Equal(before), "calls for deletions failed")
	}, NodeTimeout(nodeTimeout))

	It("of a client that knows the path of the webhook do not delay or fail those of users", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		vm, err := json.Marshal(build.VM("forged").Obj())
		Expect(err).NotTo(HaveOccurred())
		body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachine"},"namespace":%q,"operation":"CREATE","userInfo":{"username":"alice"},"object":%s}}`, quiet, vm)
		head, _, _ := strings.Cut(body, `"object"`)
		probes := probed(d.health)
		var answered atomic.Int64
		ends := []func(){
			// As many as there are connections, which send the head of a review, and no object.
			keep(300, time.Second, func(ctx context.Context) {
				c, err := d.dial(ctx)
				if err != nil {
					return
				}
				_, _ = fmt.Fprintf(c, "POST /validate/%s?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n%s", d.token, head)
				held(ctx, c)
			}),
			// Some that send whole reviews in the name of another namespace.
			keep(20, 0, func(ctx context.Context) {
				caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: d.config.Clone()}}
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+d.address+"/validate/"+d.token, strings.NewReader(body))
				if err != nil {
					return
				}
				if response, err := caller.Do(request); err == nil {
					_ = response.Body.Close()
					answered.Add(1)
				}
			}),
		}
		p99 := served(ctx, crowdCreates())
		for _, end := range ends {
			end()
		}
		AddReportEntry("figures", fmt.Sprintf("p99 of a create: idle %s, attacked %s; %d forged reviews answered; slowest probe %s", idle, p99, answered.Load(), probes()))
		Expect(answered.Load()).To(BeNumerically(">", 0))
	}, NodeTimeout(nodeTimeout))

	It("for probes and metrics, whose answers are not read, do not delay a kubelet", func(ctx SpecContext) {
		d := findEndpoint(ctx)
		probes := probed(d.health)
		end := keep(12, 100*time.Millisecond, func(ctx context.Context) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(d.health, "http://"))
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(3 * time.Second))
			_, _ = c.Write([]byte(strings.Repeat("GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", 2_000)))
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			_ = c.Close()
		})
		served(ctx, crowdCreates())
		end()
		AddReportEntry("figures", fmt.Sprintf("slowest probe %s", probes()))
	}, NodeTimeout(nodeTimeout))
})
