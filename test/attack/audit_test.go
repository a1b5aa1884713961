package attack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
)

// The VMs that are to fill the audit's memory, each with annotations of 250 kB: the API server takes 256 kB. A soak
// makes as many as once took more than the 512 MiB that the chart gives the controller.
const (
	heavy     = 500
	heavySoak = 1700
)

// mostAudit is what the controller takes at the most, its binary included, whatever is stored: 60 % of its limit are
// 307 MiB.
const mostAudit = 192 << 20

// stored is how many VMs the specs make.
func stored() int {
	if soak.On() {
		return heavySoak
	}
	return heavy
}

var _ = Describe("The audit", Serial, Ordered, timed, func() {
	var controller *controlplane.Virtward
	var reporter client.Client
	var metricsPort int

	start := func(ctx context.Context) {
		GinkgoHelper()
		var err error
		controller, err = cluster.RunVirtward(ctx, controlplane.Workload{
			Namespace: controlplane.VirtwardNamespace, Deployment: controlplane.VirtwardController,
			Args: []string{"--audit-min-interval=100ms", "--audit-delay=200ms", controlplane.ShortLease, fmt.Sprintf("--metrics-address=:%d", metricsPort)},
		})
		Expect(err).NotTo(HaveOccurred())
	}
	// audited is how many objects the last audit evaluated; 0 before the first has ended.
	audited := func(ctx context.Context) (int, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort), nil)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		var body strings.Builder
		if err := response.Write(&body); err != nil {
			return 0, err
		}
		sum := 0
		for _, found := range regexp.MustCompile(`(?m)^virtward_audit_objects(?:\{[^}]*\})? ([0-9.e+]+)$`).FindAllStringSubmatch(body.String(), -1) {
			n, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				return 0, err
			}
			sum += int(n)
		}
		return sum, nil
	}
	report := func(ctx context.Context, namespace string) (*openreports.Report, error) {
		r := &openreports.Report{}
		return r, reporter.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reports.Name}, r)
	}

	BeforeAll(func(ctx SpecContext) {
		By("stopping the controller that keeps the certificates, for these take over")
		Expect(cluster.VirtwardControllerProcess().Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.VirtwardControllerProcess().Start(ctx)).To(Succeed()) })
		scheme, err := controlplane.Scheme()
		Expect(err).NotTo(HaveOccurred())
		Expect(openreports.Install(scheme)).To(Succeed())
		reporter, err = client.New(cluster.Config(), client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		files, err := filepath.Glob("../../charts/virtward/openreports/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			definition := &apiextensionsv1.CustomResourceDefinition{}
			Expect(yaml.UnmarshalStrict(content, definition)).To(Succeed())
			Expect(cluster.InstallCRDs(ctx, definition)).To(Succeed())
		}
		metricsPort, err = cluster.TakePort()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			if controller != nil {
				Expect(controller.Stop()).To(Succeed())
			}
		})
	}, NodeTimeout(3*time.Minute))

	It("does not disclose objects of other namespaces", func(ctx SpecContext) {
		By("a golden image of alice, whose labels mallory cannot read")
		golden := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: quiet, Name: "golden", Labels: map[string]string{
			"instancetype.kubevirt.io/default-instancetype":      "codename-bluebird",
			"instancetype.kubevirt.io/default-instancetype-kind": "codename-kind",
			"template.kubevirt.io/architecture":                  "codename-architecture",
		}}}
		cleanUp(golden)
		Expect(admin.Create(ctx, golden)).To(Succeed())
		vm := mine("curious")
		vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{InferFromVolume: "root"}
		vm.Spec.Template.Spec.Domain.Memory = nil
		vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "root", VolumeSource: kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "curious"}}}}
		namespace := quiet
		vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{{
			ObjectMeta: metav1.ObjectMeta{Name: "curious"},
			Spec:       cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Namespace: &namespace, Name: "golden"}},
		}}
		cleanUp(vm)
		unchecked(ctx, func() { Expect(mallory.Create(ctx, vm)).To(Succeed()) })
		alices := impossible("secret-name", quiet)
		cleanUp(alices)
		start(ctx)
		Eventually(audited).WithContext(ctx).Should(BeNumerically(">=", 1))
		Eventually(func(g Gomega, ctx context.Context) {
			r, err := report(ctx, attacked)
			g.Expect(err).NotTo(HaveOccurred())
			content, err := json.Marshal(r)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).NotTo(ContainSubstring("codename"))
			for i := range r.Results {
				for _, subject := range r.Results[i].Subjects {
					g.Expect(subject.Namespace).To(Equal(attacked))
				}
			}
		}).WithContext(ctx).Should(Succeed())
		Expect(controller.Stop()).To(Succeed())
	}, NodeTimeout(3*time.Minute))

	It("stays within its memory limit, whatever one user stores", func(ctx SpecContext) {
		By("storing it")
		bad := mine("bad")
		makeImpossible(bad)()
		unchecked(ctx, func() { Expect(mallory.Create(ctx, bad)).To(Succeed()) })
		each(stored(), func(i int) error {
			vm := build.VMOf(build.Typical(fmt.Sprintf("heavy-%04d", i)).Namespace(attacked)).Obj()
			vm.Annotations = map[string]string{"mallory.example/bulk": bulk}
			return mallory.Create(ctx, vm)
		})
		By("auditing it")
		start(ctx)
		Eventually(audited).WithContext(ctx).WithTimeout(3 * time.Minute).Should(BeNumerically(">=", stored()))
		Eventually(report).WithContext(ctx).WithArguments(attacked).Should(HaveField("Summary.Pass", stored()))
		most := peak(controller.PID())
		AddReportEntry("the controller's peak in MiB, its binary included", most>>20)
		Expect(most).To(BeNumerically("<", mostAudit), "%d MiB", most>>20)
	}, NodeTimeout(10*time.Minute))

	It("starts again after it is killed, and no Report has fewer results meanwhile", func(ctx SpecContext) {
		whole, err := report(ctx, attacked)
		Expect(err).NotTo(HaveOccurred())
		Expect(whole.Summary.Fail).To(BeNumerically(">", 0))
		for range 3 {
			controller.Kill()
			Expect(controller.Start(ctx)).To(Succeed())
			time.Sleep(4 * time.Second) // the lease of the one before ends, and a round begins
			now, err := report(ctx, attacked)
			Expect(err).NotTo(HaveOccurred())
			Expect(now.Summary).To(Equal(whole.Summary))
			Expect(now.Results).To(Equal(whole.Results))
		}
		Eventually(audited).WithContext(ctx).WithTimeout(3 * time.Minute).Should(BeNumerically(">=", stored()))
	}, NodeTimeout(5*time.Minute))

	It("of 50,000 virtual machines with policies that cost as much as they can does not delay or fail requests, and ends", func(ctx SpecContext) {
		if !soak.On() {
			Skip("only in soaks")
		}
		const many = 50_000
		By("storing them")
		if controller != nil {
			Expect(controller.Stop()).To(Succeed())
		}
		each(many, func(i int) error {
			vm := build.VMOf(build.VMI(fmt.Sprintf("many-%05d", i)).Namespace(attacked)).Obj()
			vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyHalted)
			return mallory.Create(ctx, vm)
		})
		DeferCleanup(func(ctx SpecContext) {
			Eventually(func(ctx context.Context) error { // one request ends after a minute
				return admin.DeleteAllOf(ctx, &kubevirtv1.VirtualMachine{}, client.InNamespace(attacked))
			}).WithContext(ctx).WithTimeout(9 * time.Minute).Should(Succeed())
		}, NodeTimeout(10*time.Minute))
		for i := range 20 {
			policy := object(fmt.Sprintf(`{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: attack-audit-%d}, spec: {enforcement: Audit, match: {kinds: [VirtualMachine]}, validations: [{expression: "lists.range(20000).all(i, '%%s %%d %%f'.format(['a', i, 1.5]) != '')", message: m}]}}`, i))
			cleanUp(policy)
			Expect(admin.Create(ctx, policy)).To(Succeed())
		}
		By("auditing them, beside creates")
		start(ctx)
		began, busy := time.Now(), cpuTime(controller.PID())
		p99 := served(ctx, innocentCreates())
		Eventually(audited).WithContext(ctx).WithTimeout(25 * time.Minute).Should(BeNumerically(">=", many))
		AddReportEntry("figures", fmt.Sprintf("p99 of a create: idle %s, beside the audit %s; the audit took %s, %s of CPU; the controller's peak %d MiB",
			idle.Round(time.Millisecond), p99.Round(time.Millisecond), time.Since(began).Round(time.Second), (cpuTime(controller.PID())-busy).Round(time.Second), peak(controller.PID())>>20))
		Expect(peak(controller.PID())).To(BeNumerically("<", controllerLimit))
		Expect(p99).To(BeNumerically("<=", max(3*idle, acceptable)))
	}, NodeTimeout(40*time.Minute))

	AfterAll(func(ctx SpecContext) {
		each(stored(), func(i int) error {
			vm := build.VMOf(build.VMI(fmt.Sprintf("heavy-%04d", i)).Namespace(attacked)).Obj()
			return client.IgnoreNotFound(admin.Delete(ctx, vm))
		})
		Expect(client.IgnoreNotFound(admin.Delete(ctx, mine("bad")))).To(Succeed())
	}, NodeTimeout(5*time.Minute))
})

// bulk is nearly as much as the annotations of an object may have.
var bulk = strings.Repeat("x", 250<<10)

// each calls a function a number of times, some calls in parallel. No call may fail.
func each(count int, do func(i int) error) {
	GinkgoHelper()
	numbers := make(chan int)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for range 8 {
		workers.Go(func() {
			for i := range numbers {
				began := time.Now()
				err := do(i)
				if err != nil && machine.stopped(began) {
					err = client.IgnoreAlreadyExists(do(i))
				}
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	Expect(failed).NotTo(HaveOccurred())
}
