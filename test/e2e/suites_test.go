package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policytest"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/soak"
	"github.com/virtward/virtward/validators"
)

// leastCompared is the part of all cases that this spec compares at least.
const leastCompared = 0.85

var _ = Describe("The suites of policies", Serial, Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		prepareSenders(ctx)
		letLeaveOut(ctx, simulators.MutatorName, simulators.ValidatorName, webhook, checks)
		// It would make instances of the virtual machines that there are before updates.
		Expect(kubevirt.Controller.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			var err error
			kubevirt.Controller, err = simulators.StartVirtController(ctx, cluster, nil)
			Expect(err).NotTo(HaveOccurred())
		})
	})

	// Otherwise than in a soak, only one of so many stages is compared.
	DescribeTable("agree with the API server", func(ctx SpecContext, least, every int, paths ...string) {
		trials, skipped := trialsOf(ctx, paths...)
		total := len(trials) + len(skipped)
		Expect(total).To(BeNumerically(">=", least), "cases")
		started := time.Now()
		stages, compared := stagesFor(trials), 0
		scene := newScene()
		DeferCleanup(func(ctx SpecContext) { scene.clear(ctx) }, NodeTimeout(3*time.Minute))
		var differ []string
		for i, s := range stages {
			if i%every != 0 && !soak.On() {
				continue
			}
			compared += len(s.trials)
			scene.set(ctx, s)
			differ = append(differ, compare(ctx, scene, s.trials)...)
		}
		AddReportEntry("compared", fmt.Sprintf("%d of %d cases, on %d stages if all are, in %s", compared, total, len(stages), time.Since(started).Round(time.Millisecond)))
		for _, why := range skipped {
			AddReportEntry("not compared", why)
		}
		Expect(differ).To(BeEmpty(), "%d of %d cases differ:\n%s", len(differ), len(trials), strings.Join(differ, "\n"))
		Expect(compared).To(BeNumerically(">=", least/every/2), "cases")
		Expect(float64(len(trials))).To(BeNumerically(">=", leastCompared*float64(total)), "compared of %d; not:\n%s", total, strings.Join(skipped, "\n"))
	},
		Entry("of the library, the examples and converted policies", NodeTimeout(5*time.Minute), 440, 3, "policies/library", "examples/policy", "examples/converted"),
		Entry("of all that a suite can say", NodeTimeout(5*time.Minute), 50, 1, "test/e2e/testdata/suites"),
	)
})

// trial is a case of a suite that can be sent to the API server.
type trial struct {
	name      string
	situation *policytest.Situation
	// checks includes the findings of the built-in rules.
	checks bool
	// want is the result of the case without a cluster.
	want said
	// attempts counts how often it was sent.
	attempts int
}

// said has the findings of an answer: field, message and rule of each.
type said struct {
	rejected, warned []string
	// other is an answer that is not Virtward's, such as that of the schema.
	other string
}

func (s *said) equal(other *said) bool {
	return slices.Equal(s.rejected, other.rejected) && slices.Equal(s.warned, other.warned) && s.other == other.other
}

// trialsOf evaluates the cases of suites without a cluster. All must pass. It returns why some cannot be compared.
func trialsOf(ctx context.Context, paths ...string) (trials []*trial, skipped []string) {
	GinkgoHelper()
	found, problems := policytest.Load(os.DirFS("../.."), paths...)
	Expect(problems).To(BeEmpty())
	runner, err := policytest.NewRunner()
	Expect(err).NotTo(HaveOccurred())
	report := runner.Run(ctx, found, policytest.Options{})
	for i, suite := range found {
		for k := range suite.Tests {
			for n := range suite.Tests[k].Cases {
				outcome := &report.Suites[i].Tests[k].Cases[n]
				name := fmt.Sprintf("%s:%d: %s: %s", suite.File, outcome.Line, suite.Tests[k].Name, outcome.Name)
				if outcome.Status == policytest.Skipped {
					skipped = append(skipped, name+": the suite skips it")
					continue
				}
				Expect(outcome.Status).To(Equal(policytest.Passed), "%s: %v", name, outcome.Reasons)
				situation, err := suite.Situation(k, n)
				Expect(err).NotTo(HaveOccurred(), name)
				if why := incomparable(situation, outcome.Findings); why != "" {
					skipped = append(skipped, name+": "+why)
					continue
				}
				trials = append(trials, &trial{name: name, situation: situation, checks: suite.Tests[k].Cases[n].Checks, want: saidOffline(outcome.Findings)})
			}
		}
	}
	return trials, skipped
}

// incomparable returns why a situation cannot be created on a cluster, or "" if it can.
func incomparable(s *policytest.Situation, findings policytest.Findings) string {
	if s.Operation == string(admissionv1.Delete) {
		return "this spec sends no deletions: others do"
	}
	for _, object := range append(slices.Clone(s.Objects), s.Object, s.Old) {
		switch {
		case object == nil:
		case object.Object["status"] != nil && object.GetKind() != "VirtualMachineInstance" && object.GetKind() != "DataVolume":
			return "the API server ignores the status of a " + object.GetKind() + " in a write of the object"
		case object.GetDeletionTimestamp() != nil:
			return "an object that is being deleted cannot be created"
		}
	}
	for _, matcher := range []string{"instancetype", "preference"} {
		from, _, _ := unstructured.NestedString(s.Object.Object, "spec", matcher, "inferFromVolume")
		if from != "" && slices.ContainsFunc(findings, func(f validators.Finding) bool { return strings.HasPrefix(f.Error.Field, "spec."+matcher) }) {
			return "the simulator of KubeVirt's mutator infers no " + matcher + ", so that the VM names the volume still"
		}
	}
	for _, p := range s.Policies {
		for _, e := range p.Spec.Exceptions {
			if e.Expires == nil {
				continue
			}
			if left := e.Expires.Sub(s.Now); left > 0 && left < 10*time.Minute {
				return "an exception would expire before the request"
			}
		}
	}
	return ""
}

// saidOffline returns findings as an answer.
func saidOffline(findings policytest.Findings) said {
	var all said
	for i := range findings {
		f := &findings[i]
		text := fmt.Sprintf("%s: %s [virtward/%s]", f.Error.Field, f.Text(), f.Rule)
		switch f.Severity {
		case validators.Deny:
			all.rejected = append(all.rejected, text)
		case validators.Audit: // only in reports
		default:
			all.warned = append(all.warned, text)
		}
	}
	return all
}

// compare sends every case to the API server, and returns the answers that differ. Configuration is active a moment after
// it is written, so the first answers may differ for a while. Once all are correct, they must stay correct.
func compare(ctx context.Context, s *scene, trials []*trial) []string {
	GinkgoHelper()
	differ := make([]string, len(trials))
	after := map[string][]int{} // updates and deletions of one object, one after the other
	for i, t := range trials {
		if stored := t.stored(); stored != nil {
			key := keyOf(stored)
			after[key] = append(after[key], i)
		}
	}
	for _, ask := range []func(*trial, context.Context) (string, error){(*trial).soon, (*trial).now} {
		creations := new(errgroup.Group)
		creations.SetLimit(4)
		for i, t := range trials {
			if t.stored() != nil || differ[i] != "" {
				continue
			}
			creations.Go(func() (err error) {
				differ[i], err = ask(t, ctx)
				return err
			})
		}
		Expect(creations.Wait()).To(Succeed())
	}
	updates := new(errgroup.Group)
	for _, same := range after {
		updates.Go(func() error {
			for _, i := range same {
				var err error
				if differ[i], err = s.update(ctx, trials[i]); err != nil {
					return fmt.Errorf("%s: %w", trials[i].name, err)
				}
			}
			return nil
		})
	}
	Expect(updates.Wait()).To(Succeed())
	return slices.DeleteFunc(differ, func(text string) bool { return text == "" })
}

// update compares a case with an existing object.
func (s *scene) update(ctx context.Context, t *trial) (differs string, err error) {
	stored := t.stored()
	err = s.keep(ctx, stored)
	if err == nil && t.situation.Running {
		var stop func() error
		if stop, err = s.run(ctx, stored); err != nil {
			return "", errors.Join(err, s.remove(ctx, stored))
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err == nil {
		if differs, err = t.soon(ctx); err == nil && differs == "" {
			differs, err = t.now(ctx)
		}
	}
	return differs, errors.Join(err, s.remove(ctx, stored))
}

// stored returns the object that exists before the request of a case: that before an update, or the deleted one.
func (t *trial) stored() *unstructured.Unstructured {
	if t.situation.Operation == string(policyv1alpha1.PolicyDelete) {
		return t.situation.Object
	}
	return t.situation.Old
}

// soon sends a case until the answer is that of the suite. It returns the difference if it does not become so.
func (t *trial) soon(ctx context.Context) (differs string, err error) {
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, await.Patience, true, func(context.Context) (same bool, err error) {
		differs, err = t.now(ctx) // whose context would end in the midst of an answer
		return differs == "", err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return differs, err
}

// now sends a case once, and returns how the answer differs from that of the suite.
func (t *trial) now(ctx context.Context) (differs string, err error) {
	t.attempts++
	heard := &recordedWarnings{}
	sender, err := dynamic.NewForConfig(t.sender(heard))
	if err != nil {
		return "", err
	}
	rejection := t.send(ctx, sender)
	if got := t.reported(rejection, heard.texts); !got.equal(&t.want) {
		differs = fmt.Sprintf("%s\n  offline: %s\n  cluster: %s", t.name, &t.want, &got)
	}
	return differs, ctx.Err()
}

func (s *said) String() string {
	return fmt.Sprintf("rejected %q, warned %q %s", s.rejected, s.warned, s.other)
}

// sender returns the client configuration of the case's user. Its extra attributes include the attempt, because the API
// server and Virtward cache permissions for a while.
func (t *trial) sender(heard *recordedWarnings) *rest.Config {
	user := t.situation.User
	extra := map[string][]string{leftOut: {simulators.ValidatorName, fmt.Sprintf("nothing of attempt %d", t.attempts)}}
	for key, values := range user.Extra {
		extra[key] = values
	}
	if t.situation.PostMutation { // without completion
		extra[leftOut] = append(extra[leftOut], simulators.MutatorName, webhook)
	}
	config := cluster.Config()
	config.QPS = -1
	config.WarningHandler = heard
	config.Impersonate = rest.ImpersonationConfig{
		UserName: user.Username, UID: user.UID, Extra: extra,
		Groups: slices.DeleteFunc(slices.Clone(user.Groups), func(group string) bool { return group == allUsers }), // the API server adds it
	}
	return config
}

// send sends the object as a dry run. An update changes the fields that differ from the object as it was written, and
// keeps persisted defaults, like an edit.
func (t *trial) send(ctx context.Context, sender dynamic.Interface) error {
	object := t.situation.Object.DeepCopy()
	to, err := resourceOf(sender, object)
	if err != nil {
		return err
	}
	if t.situation.Old != nil {
		change, err := jsonpatch.CreateMergePatch([]byte(asJSON(t.situation.Old.Object)), []byte(asJSON(object.Object)))
		if err != nil {
			return err
		}
		_, err = to.Patch(ctx, object.GetName(), types.MergePatchType, change, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if t.situation.Operation == string(policyv1alpha1.PolicyDelete) {
		return to.Delete(ctx, object.GetName(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if t.generatedBase() != "" {
		object.SetName("")
	}
	_, err = to.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// generatedBase returns the generateName of an object, or "" if it has a name.
func (t *trial) generatedBase() string {
	base, made := strings.CutSuffix(t.situation.Object.GetName(), "xxxxx")
	if !made || t.situation.Object.GetGenerateName() == "" {
		return ""
	}
	return base
}

// finding matches a cause or a warning of Virtward up to the rule, which the remedy follows.
var finding = regexp.MustCompile(`(?s)^.*?\[virtward/([a-z0-9./-]+)\]`)

// reported returns the findings of policies in an answer.
func (t *trial) reported(err error, warnings []string) said {
	var got said
	if err != nil {
		var rejection apierrors.APIStatus
		if !errors.As(err, &rejection) || !apierrors.IsInvalid(err) || rejection.Status().Details == nil {
			return said{other: err.Error()}
		}
		for _, cause := range rejection.Status().Details.Causes {
			text := cause.Field + ": " + cause.Message
			if !finding.MatchString(text) { // that of the schema, or of KubeVirt
				return said{other: err.Error()}
			}
			got.rejected = append(got.rejected, t.counted(text)...)
		}
	}
	for _, text := range warnings {
		got.warned = append(got.warned, t.counted(text)...)
	}
	return got
}

// counted returns a finding in the form of the suite, or "" if it is ignored.
func (t *trial) counted(text string) []string {
	found := finding.FindStringSubmatch(text)
	if len(found) < 2 || !t.checks && !strings.HasPrefix(found[1], "policy/") {
		return nil
	}
	if base := t.generatedBase(); base != "" {
		return []string{regexp.MustCompile(regexp.QuoteMeta(base)+`[a-z0-9]{5}`).ReplaceAllString(found[0], t.situation.Object.GetName())}
	}
	return found[:1]
}

// stage is the state of the cluster for some cases.
type stage struct {
	// key is all that is the same for its cases.
	key    string
	sample *policytest.Situation
	// namespaces by name, and permissions by who has them.
	namespaces  map[string]*namespaceMetadata
	permissions map[string][]policytest.Permission
	trials      []*trial
}

type namespaceMetadata struct{ labels, annotations map[string]string }

// stagesFor returns as few stages as possible. A stage has one version of each policy, one set of objects and one KubeVirt
// resource. Each namespace has the same labels in it, and each user the same permissions.
func stagesFor(trials []*trial) []*stage {
	GinkgoHelper()
	var all []*stage
	for _, t := range trials {
		key := stageKey(t.situation)
		at := slices.IndexFunc(all, func(s *stage) bool { return s.key == key && s.fits(t.situation) })
		if at < 0 {
			at = len(all)
			all = append(all, &stage{key: key, sample: t.situation, namespaces: map[string]*namespaceMetadata{}, permissions: map[string][]policytest.Permission{}})
		}
		s := all[at]
		s.trials = append(s.trials, t)
		s.namespaces[t.situation.Namespace.Name] = metadataOf(t.situation)
		s.permissions[t.situation.User.Username] = t.situation.May
	}
	slices.SortStableFunc(all, func(a, b *stage) int { // a change of KubeVirt is the slowest
		return cmp.Compare(kubeVirtKey(a.sample), kubeVirtKey(b.sample))
	})
	return all
}

func (s *stage) fits(situation *policytest.Situation) bool {
	namespace := s.namespaces[situation.Namespace.Name]
	if namespace != nil && (!maps.Equal(namespace.labels, situation.Namespace.Labels) || !maps.Equal(namespace.annotations, situation.Namespace.Annotations)) {
		return false
	}
	if permissions, known := s.permissions[situation.User.Username]; known {
		return slices.Equal(permissions, situation.May)
	}
	for _, permissions := range s.permissions {
		if ofOthers(permissions) && !slices.Equal(permissions, situation.May) {
			return false
		}
	}
	return !ofOthers(situation.May)
}

// ofOthers reports whether permissions are those of users other than the sender.
func ofOthers(permissions []policytest.Permission) bool {
	return slices.ContainsFunc(permissions, func(p policytest.Permission) bool { return p.User != "" })
}

func metadataOf(s *policytest.Situation) *namespaceMetadata {
	return &namespaceMetadata{s.Namespace.Labels, s.Namespace.Annotations}
}
