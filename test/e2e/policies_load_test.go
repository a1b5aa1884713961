package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/webhooks"
)

var _ = Describe("Very many VirtualMachinePolicies", Serial, func() {
	BeforeEach(func(ctx SpecContext) { preparePoliced(ctx) })

	It("load at once, and all of them are enforced", func(ctx SpecContext) {
		const many = 500
		created := make([]*unstructured.Unstructured, many)
		for i := range created {
			created[i] = policyWith(fmt.Sprintf("many-%03d", i), fmt.Sprintf(`{enforcement: Deny, validations: [{expression: "vm.spec.domain.cpu.cores != %d", message: not this number, fieldPath: spec.domain.cpu.cores},
			  {expression: "vm.spec.domain.cpu.cores <= 2", messageExpression: "'policy %d says no'", fieldPath: spec.domain.cpu.cores}]}`, i+100, i))
			created[i].SetLabels(map[string]string{"e2e": "many"})
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(admin.DeleteAllOf(ctx, created[0], client.MatchingLabels{"e2e": "many"})).To(Succeed())
			Eventually(func(ctx context.Context) []string { return answer(ctx, machine(cpus(4)), "alice") }).WithContext(ctx).Should(BeEmpty())
		}, NodeTimeout(3*time.Minute))
		started := time.Now()
		writers, wctx := errgroup.WithContext(ctx)
		writers.SetLimit(8)
		for _, policy := range created {
			writers.Go(func() error { return admin.Create(wctx, policy) })
		}
		Expect(writers.Wait()).To(Succeed())
		stored := time.Now()
		Eventually(func(g Gomega, ctx context.Context) {
			causes := answer(ctx, machine(cpus(4)), "alice")
			g.Expect(causes).To(HaveLen(50))
			g.Expect(causes[49]).To(HaveSuffix("(and 450 more findings, which kubectl virtward explain shows)"))
		}).WithContext(ctx).Should(Succeed())
		AddReportEntry("stored, and active after that", stored.Sub(started).String()+", "+time.Since(stored).String())
		Expect(answer(ctx, machine(cpus(2)), "alice")).To(BeEmpty())
		Expect(answer(ctx, machine(cpus(599)), "alice")[0]).To(ContainSubstring("policy"), "the last of them")

		By("being read again when the server starts")
		Expect(virtward.Restart(ctx)).To(Succeed())
		awaitChecks(ctx)
		Expect(answer(ctx, machine(cpus(4)), "alice")).To(HaveLen(50))
	}, NodeTimeout(3*time.Minute))
})

var _ = Describe("A VirtualMachinePolicy that changes under load", Serial, func() {
	// The parameter changes between two values. The evaluated VMs violate both values, none, or one of them.
	It("is the one before or the one after, and never neither", func(ctx SpecContext) {
		preparePoliced(ctx)
		const spec = `{enforcement: Deny, params: {values: {max: %s}, schema: {properties: {max: {type: string}}}}, validations: [
		  {expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity(params.max)) <= 0", messageExpression: "'at most ' + params.max", fieldPath: spec.domain.memory.guest}]}`
		policy := enforce(ctx, "flips", fmt.Sprintf(spec, "4Gi"))
		eventuallyAnswers(ctx, machine(memory("16Gi")), ContainSubstring("at most 4Gi [virtward/policy/flips]"))
		saying := func(limit, value string) []string {
			return []string{fmt.Sprintf(`Invalid value: %q: at most %s [virtward/policy/flips]`, value, limit)}
		}
		const flips = 50
		var mu sync.Mutex
		seen := map[string]int{}
		finished := make(chan struct{})
		callers, cctx := errgroup.WithContext(ctx)
		for range 4 {
			callers.Go(func() error {
				user, _ := userOf("alice")
				for n := 0; ; n++ {
					select {
					case <-finished:
						return nil
					default:
					}
					value := []string{"16Gi", "2Gi", "6Gi"}[n%3]
					said := rejectedWith(user.Create(cctx, machine(memory(value)), client.DryRunAll))
					before, after := saying("4Gi", value), saying("8Gi", value)
					right := map[string]bool{
						"16Gi": slices.Equal(said, before) || slices.Equal(said, after),
						"2Gi":  said == nil,
						"6Gi":  said == nil || slices.Equal(said, before),
					}[value]
					if !right {
						return fmt.Errorf("a VM of %s was answered %q", value, said)
					}
					mu.Lock()
					seen[value+fmt.Sprint(said)]++
					mu.Unlock()
				}
			})
		}
		for i := range flips {
			limit := []string{"8Gi", "4Gi"}[i%2]
			changed := policy.DeepCopy()
			Expect(unstructured.SetNestedField(changed.Object, limit, "spec", "params", "values", "max")).To(Succeed())
			Expect(admin.Patch(ctx, changed, client.MergeFrom(policy))).To(Succeed())
			policy = changed
			time.Sleep(50 * time.Millisecond)
		}
		close(finished)
		Expect(callers.Wait()).To(Succeed())
		Expect(seen).To(HaveLen(5), "16Gi and 6Gi meet both values: %v", seen)
		AddReportEntry("verdicts", seen)
	}, NodeTimeout(3*time.Minute))
})

// rejectedWith returns the messages of a rejection, without the offer of an exception. Any other error is returned as its text.
func rejectedWith(err error) []string {
	if err == nil {
		return nil
	}
	var rejection apierrors.APIStatus
	if !errors.As(err, &rejection) || rejection.Status().Details == nil || len(rejection.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var all []string
	for _, cause := range rejection.Status().Details.Causes {
		all = append(all, strings.TrimSuffix(cause.Message, " "+webhooks.ExceptionRemedy))
	}
	return all
}
