package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/virtward/virtward/test/build"
)

// checkedResult is a result of kubectl virtward status, and its text in one line.
type checkedResult struct {
	Check, Subject, State, Message, Remedy string
	Line                                   string
}

// checked decodes the output of kubectl virtward status -o json. The exit code must be that of its results.
func checked(said answered) (results []checkedResult, failed bool) {
	GinkgoHelper()
	var document struct {
		State   string          `json:"state"`
		Results []checkedResult `json:"results"`
	}
	Expect(json.Unmarshal([]byte(said.output), &document)).To(Succeed(), said.output+said.errors)
	for i := range document.Results {
		r := &document.Results[i]
		r.Line = fmt.Sprintf("%s %s %s: %s", r.Check, r.State, r.Subject, r.Message)
		failed = failed || r.State == "error"
		if r.State == "error" || r.State == "warning" {
			Expect(r.Remedy).NotTo(BeEmpty(), r.Line)
		}
	}
	code := 0
	if failed {
		code = 1
		Expect(said.errors).To(MatchRegexp(`^error: \d+ things? (is|are) wrong\n$`))
		Expect(document.State).To(Equal("error"))
	}
	Expect(said.code).To(Equal(code), said.errors)
	return document.Results, failed
}

var _ = Describe("kubectl virtward status", Serial, Ordered, func() {
	lines := func(ctx context.Context, user string) []string {
		GinkgoHelper()
		said := kubectlAsAdmin(ctx, "", "virtward", "status", "-o", "json")
		if user != "" {
			said = kubectl(ctx, user, "", "virtward", "status", "-o", "json")
		}
		results, _ := checked(said)
		var all []string
		for i := range results {
			all = append(all, results[i].Line)
		}
		return all
	}

	It("asks the webhook, and reads what is installed", func(ctx SpecContext) {
		Expect(lines(ctx, "")).To(ContainElements(
			"switch ok MutatingWebhookConfiguration mutate.virtward.io: on",
			"switch ok ValidatingWebhookConfiguration validate.virtward.io: on",
			MatchRegexp(`^guards ok ValidatingAdmissionPolicy: \d+ policies are on$`),
			"answers ok webhook: it answers the API server",
			MatchRegexp(`^processes \w+ virtward-webhook: \d of \d replicas are ready`),
			MatchRegexp(`^processes \w+ virtward-controller: \d of \d replicas are ready`),
			MatchRegexp(`^certificates ok CA of ValidatingWebhookConfiguration validate\.virtward\.io: ends at 20\d\d-`),
			MatchRegexp(`^certificates ok Secret virtward-webhook-cert: ends at 20\d\d-`),
			MatchRegexp(`^calls (ok|warning) `),
			MatchRegexp(`^definitions ok CustomResourceDefinitions: \d+ of the release `),
			MatchRegexp(`^network \w+ NetworkPolicy virtward-system/virtward-webhook: `),
			MatchRegexp(`^versions ok Kubernetes: v1\.`),
			MatchRegexp(`^versions \w+ KubeVirt: `),
		))
	})

	It("reports a webhook that does not answer, and the calls that failed", func(ctx SpecContext) {
		virtward.Kill()
		DeferCleanup(func(ctx SpecContext) {
			if virtward.PID() == 0 {
				Expect(virtward.Start(ctx)).To(Succeed())
			}
			awaitChecks(ctx)
		})
		Expect(lines(ctx, "")).To(ContainElements(
			MatchRegexp(`^answers error webhook: .*failed calling webhook "rulesettings\.validate\.virtward\.io"`),
		))
		Expect(alice.Create(ctx, build.VM("status").Obj())).To(MatchError(ContainSubstring(notCalled)))
		Expect(lines(ctx, "")).To(ContainElements(
			MatchRegexp(`^calls warning mutate\.virtward\.io: \d+ calls? failed open since the start of the API server`),
			MatchRegexp(`^calls warning virtualmachines\.validate\.virtward\.io: \d+ requests? (was|were) denied since the start of the API server`),
		))
		Expect(virtward.Start(ctx)).To(Succeed())
		awaitChecks(ctx)
		Expect(lines(ctx, "")).To(ContainElement("answers ok webhook: it answers the API server"))
	}, NodeTimeout(3*time.Minute))

	It("says what the user is not permitted to read, and fails for nothing else", func(ctx SpecContext) {
		said := kubectl(ctx, "alice", "", "virtward", "status", "-o", "json")
		results, failed := checked(said)
		Expect(failed).To(BeFalse())
		Expect(results).To(ContainElements(
			HaveField("Line", "switch unknown ValidatingWebhookConfiguration: not permitted: list validatingwebhookconfigurations.admissionregistration.k8s.io"),
			HaveField("Line", "answers unknown webhook: not permitted: create rulesettings.policy.virtward.io"),
			HaveField("Line", "processes unknown Deployments: not permitted: list deployments.apps in the namespace virtward-system"),
			HaveField("Line", "certificates unknown serving certificates: not permitted: list secrets in the namespace virtward-system"),
			HaveField("Line", "calls unknown API server: not permitted: get /metrics"),
			HaveField("Line", MatchRegexp(`^versions ok Kubernetes: v1\.`)),
		))
	})
})
