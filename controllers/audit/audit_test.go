package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

var environment = sync.OnceValues(cel.NewEnvironment)

const everyKind = `match: {kinds: [VirtualMachine, VirtualMachineInstance, VirtualMachinePool]}, `

const memoryCap = `{` + everyKind + `severity: high, enforcement: Deny, validations: [{
  expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0", message: too much, fieldPath: spec.domain.memory.guest}]}`

func policySet(t testing.TB, specs map[string]string) *policies.Set {
	t.Helper()
	env, err := environment()
	if err != nil {
		t.Fatal(err)
	}
	var all []*policies.Policy
	for name, spec := range specs {
		policy := &policyv1alpha1.VirtualMachinePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
			t.Fatal(err)
		}
		compiled, problems := policies.Compile(env, policy, nil)
		if diagnostics.Broken(problems) != strings.HasPrefix(name, "broken") {
			t.Fatalf("%s: %v", name, problems)
		}
		all = append(all, compiled)
	}
	return policies.NewSet("virtward-system", all...)
}

// inMemory is a cluster of objects, in pages of two.
type inMemory struct {
	objects map[auditresults.Key]json.RawMessage
	// fail is called before every response.
	fail func() error
}

func (m *inMemory) Page(_ context.Context, kind Kind, from string) ([]pages.Object, string, error) {
	if m.fail != nil {
		if err := m.fail(); err != nil {
			return nil, "", err
		}
	}
	var objects []pages.Object
	for _, key := range slices.SortedFunc(maps.Keys(m.objects), auditresults.Key.Compare) {
		at := key.Namespace + "/" + key.Name
		if key.Kind != kind.Kind || at <= from {
			continue
		}
		if len(objects) == 2 {
			return objects, from, nil
		}
		objects, from = append(objects, m.object(key)), at
	}
	return objects, "", nil
}

func (m *inMemory) Get(_ context.Context, _ Kind, key auditresults.Key) (*pages.Object, error) {
	if m.fail != nil {
		if err := m.fail(); err != nil {
			return nil, err
		}
	}
	if _, ok := m.objects[key]; ok {
		object := m.object(key)
		return &object, nil
	}
	return nil, nil
}

// object is one as it is read; one without content is too large for that.
func (m *inMemory) object(key auditresults.Key) pages.Object {
	if content := m.objects[key]; content != nil {
		return pages.Object{JSON: slices.Clone(content)}
	}
	return pages.Object{Namespace: key.Namespace, Name: key.Name, UID: "1"}
}

func (m *inMemory) put(t testing.TB, object metav1.Object, kind string) auditresults.Key {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	key := auditresults.Key{Namespace: object.GetNamespace(), Kind: kind, Name: object.GetName()}
	m.objects[key] = data
	return key
}

func (m *inMemory) vm(t testing.TB, namespace, name, guest string) auditresults.Key {
	t.Helper()
	return m.put(t, build.VMOf(build.VMI(name).Namespace(namespace).Memory(guest)).Obj(), "VirtualMachine")
}

// shelf keeps Reports.
type shelf struct {
	absent bool
	others []string
	all    map[string]*openreports.Report
	fail   func() error
	writes int
}

func (s *shelf) Available(context.Context) ([]string, error) {
	if s.absent {
		return nil, s.ask()
	}
	return append([]string{"openreports.io/v1alpha1"}, s.others...), s.ask()
}

func (s *shelf) ask() error {
	if s.fail == nil {
		return nil
	}
	return s.fail()
}

func (s *shelf) Namespaces(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(s.all)), s.ask()
}

func (s *shelf) Put(_ context.Context, namespace string, build func(*openreports.Report) *openreports.Report) (*openreports.Report, error) {
	if err := s.ask(); err != nil {
		return nil, err
	}
	before := s.all[namespace]
	if before != nil && before.Labels[reports.ManagedByLabel] != reports.ManagedBy {
		return nil, fmt.Errorf("namespace %s: %w", namespace, reports.ErrForeign)
	}
	after := build(before.DeepCopy())
	if !cmp.Equal(before, after) {
		s.writes++
	}
	if delete(s.all, namespace); after != nil {
		s.all[namespace] = after
	}
	return before, nil
}

func (s *shelf) told(namespace string) []string {
	var told []string
	if r := s.all[namespace]; r != nil {
		for i := range r.Results {
			x := &r.Results[i]
			told = append(told, fmt.Sprintf("%s %s %s/%s %s", x.Result, x.Policy, x.Subjects[0].Kind, x.Subjects[0].Name, x.Properties["field"]))
		}
	}
	return told
}

// scene is an auditor and all that it looks at.
type scene struct {
	*Auditor

	cluster  *inMemory
	shelf    *shelf
	set      *policies.Set
	clock    *clocktesting.FakeClock
	registry *prometheus.Registry
	events   []string
	counted  map[string]int
	nodes    *placement.Snapshot
}

func newScene(t testing.TB, specs map[string]string) *scene {
	t.Helper()
	s := &scene{
		cluster: &inMemory{objects: map[auditresults.Key]json.RawMessage{}}, shelf: &shelf{all: map[string]*openreports.Report{}},
		set: policySet(t, specs), clock: clocktesting.NewFakeClock(start),
	}
	s.lead(t)
	return s
}

// lead is a replica that begins to lead, and knows nothing.
func (s *scene) lead(t testing.TB) {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := references.NewMemory("default")
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	s.registry = prometheus.NewRegistry()
	measured, err := NewMetrics(s.registry, nil)
	if err != nil {
		t.Fatal(err)
	}

	s.Auditor = New(Options{
		Criteria: &Criteria{
			Evaluator: evaluator.New(effective.NewPipeline(registry), objects, &evaluator.Live{
				GetFacts: func() *platform.Facts { return facts }, GetPolicies: func() *policies.Set { return s.set },
				GetNodes: func() *placement.Snapshot { return s.nodes },
				GetNamespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
					if name == "unknown" {
						return nil, errors.New("no answer")
					}
					return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}}, nil
				},
			}),
			Exempt: []string{"kube-system", "virtward-system"},
			Labels: func(_ context.Context, name string) (labels.Set, error) {
				switch name {
				case "labelled":
					return labels.Set{policyv1alpha1.ExemptLabel: "true"}, nil
				case "unlabelled":
					return labels.Set{policyv1alpha1.ExemptLabel: "false"}, nil
				case "unknown":
					return nil, errors.New("no answer")
				}
				return nil, nil
			},
		},
		Ready:  func() error { return nil },
		Stored: s.cluster, Reports: s.shelf, Metrics: measured,
		Audited: func(violations map[string]int, _ time.Time) { s.counted = violations },
		Tell: func(f auditresults.Held, e events.Event) {
			s.events = append(s.events, f.Namespace+"/"+f.Subject.Name+" "+e.String())
		},
		Limit: auditresults.Limits{PerNamespace: 200, PerSource: 20}, Clock: s.clock, Log: logr.Discard(),
	})
}

func (s *scene) round(t testing.TB) {
	t.Helper()
	s.do(t.Context(), task{round: true, why: []string{"a test"}})
}

// metric are the samples of a metric, by the values of its labels.
func (s *scene) metric(t testing.TB, name string) map[string]float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			found[strings.Join(labels, ",")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return found
}

func equal[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEverythingThatExistsIsEvaluated(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap, "reads-the-request": `{enforcement: Deny, validations: [{expression: "request.userInfo.username != 'eve'", message: not you}]}`})
	for i := range 5 { // three pages
		s.cluster.vm(t, "prod", fmt.Sprintf("vm-%d", i), fmt.Sprintf("%dGi", 6+i))
	}
	s.cluster.put(t, build.VMI("vm-4").Namespace("prod").Memory("10Gi").Obj(), "VirtualMachineInstance")
	ended := build.VMI("ended").Namespace("prod").Memory("10Gi").Obj()
	ended.Status.Phase = v1.Succeeded
	s.cluster.put(t, ended, "VirtualMachineInstance")
	leaving := build.VMOf(build.VMI("leaving").Namespace("prod").Memory("10Gi")).Obj()
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: start}, []string{"x/y"}
	s.cluster.put(t, leaving, "VirtualMachine")
	s.cluster.vm(t, "virtward-system", "exempt", "10Gi")
	s.cluster.vm(t, "labelled", "exempt", "10Gi")
	template := build.VMOf(build.VMI("").Memory("10Gi")).Obj()
	pool := &poolv1beta1.VirtualMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "pools", Name: "many"}}
	pool.Spec.VirtualMachineTemplate = &poolv1beta1.VirtualMachineTemplateSpec{Spec: template.Spec}
	s.cluster.put(t, pool, "VirtualMachinePool")
	s.cluster.put(t, &poolv1beta1.VirtualMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "pools", Name: "empty"}}, "VirtualMachinePool")
	set := &v1.VirtualMachineInstanceReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "sets", Name: "many"}}
	set.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{Spec: build.VMI("").Memory("10Gi").Obj().Spec}
	set.Spec.Template.ObjectMeta.Labels = map[string]string{"app": "a"}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
	s.cluster.put(t, set, "VirtualMachineInstanceReplicaSet")
	large := &instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Namespace: "types", Name: "large"}}
	large.Spec.Memory.Guest, large.Spec.Memory.OvercommitPercent = resource.MustParse("1Gi"), 101
	s.cluster.put(t, large, "VirtualMachineInstancetype")
	s.cluster.put(t, &instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: metav1.ObjectMeta{Namespace: "types", Name: "small"}}, "VirtualMachineInstancetype")
	foreign := &instancetypev1beta1.VirtualMachinePreference{ObjectMeta: metav1.ObjectMeta{Namespace: "types", Name: "foreign"}}
	foreign.Spec.Requirements = &instancetypev1beta1.PreferenceRequirements{Architecture: ptr.To("vax")}
	s.cluster.put(t, foreign, "VirtualMachinePreference")
	s.round(t)

	const field = " spec.template.spec.domain.memory.guest"
	equal(t, "the report of prod", []string{
		"fail cap VirtualMachine/vm-3" + field, "fail cap VirtualMachine/vm-4" + field,
		"fail cap VirtualMachineInstance/vm-4 spec.domain.memory.guest",
	}, s.shelf.told("prod"))
	for _, namespace := range []string{"virtward-system", "labelled"} {
		if report, there := s.shelf.all[namespace]; there {
			t.Errorf("the exempt namespace %s has the report %v", namespace, report)
		}
	}
	equal(t, "the summary of prod", openreports.ReportSummary{Pass: 3, Fail: 3, Skip: 1}, s.shelf.all["prod"].Summary)
	equal(t, "the report of pools", []string{
		"fail cap VirtualMachinePool/many spec.virtualMachineTemplate.spec.template.spec.domain.memory.guest",
		"fail set-selector-matches VirtualMachinePool/many spec.selector",
		"fail set-template-required VirtualMachinePool/empty spec.virtualMachineTemplate",
	}, s.shelf.told("pools"))
	equal(t, "the report of sets", []string{"fail set-selector-matches VirtualMachineInstanceReplicaSet/many spec.selector"}, s.shelf.told("sets"))
	equal(t, "the report of types", []string{
		"fail instancetype-overcommit-range VirtualMachineInstancetype/large spec.memory.overcommitPercent",
		"fail preference-required-architecture VirtualMachinePreference/foreign spec.requirements.architecture",
	}, s.shelf.told("types"))
	equal(t, "the summary of types", openreports.ReportSummary{Pass: 1, Fail: 2, Skip: 1}, s.shelf.all["types"].Summary)
	equal(t, "namespaces with a report", []string{"pools", "prod", "sets", "types"}, slices.Sorted(maps.Keys(s.shelf.all)))
	equal(t, "violations", map[string]float64{"Deny,cap,high": 4, "Deny,reads-the-request,medium": 0}, s.metric(t, "virtward_policy_violations"))
	equal(t, "objects", map[string]float64{"": 12}, s.metric(t, "virtward_audit_objects"))
	equal(t, "counts for the statuses", map[string]int{"cap": 4}, s.counted)
}

func TestWhatCannotBeEvaluatedIsAResult(t *testing.T) {
	s := newScene(t, map[string]string{
		"cap": memoryCap, "fails": `{` + everyKind + `enforcement: Warn, validations: [{expression: "object.spec.template.metadata.labels['no'] == ''", message: never}]}`,
		"selects": `{enforcement: Warn, match: {namespaceSelector: {matchLabels: {tier: lab}}}, validations: [{expression: "false", message: never}]}`,
	})
	s.cluster.vm(t, "prod", "fine", "9Gi")
	s.cluster.objects[auditresults.Key{Namespace: "prod", Kind: "VirtualMachine", Name: "text"}] = json.RawMessage(`{"metadata":{"namespace":"prod","name":"text"},"spec":"none"}`)
	s.cluster.objects[auditresults.Key{Namespace: "prod", Kind: "VirtualMachine", Name: "huge"}] = json.RawMessage(
		`{"metadata":{"namespace":"prod","name":"huge"},"spec":{"template":{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}}}`)
	s.cluster.objects[auditresults.Key{Namespace: "prod", Kind: "VirtualMachine", Name: "unread"}] = nil
	s.cluster.vm(t, "unknown", "only", "9Gi")
	s.round(t)
	equal(t, "the report of prod", []string{
		"fail cap VirtualMachine/fine spec.template.spec.domain.memory.guest",
		"error fails VirtualMachine/fine spec",
		"error object-readable VirtualMachine/huge spec.template.spec.domain.memory.guest",
		"error object-readable VirtualMachine/text ",
		"error object-readable VirtualMachine/unread ",
	}, s.shelf.told("prod"))
	equal(t, "the report of a namespace that cannot be read", []string{"error object-readable VirtualMachine/only "}, s.shelf.told("unknown"))
	if got := s.shelf.all["unknown"].Results[0].Description; got != "reading namespace unknown: no answer" {
		t.Errorf("it says %q", got)
	}
	equal(t, "errors", map[string]float64{"cap": 0, "fails": 1, "selects": 0}, s.metric(t, "virtward_policy_errors"))
	equal(t, "failures", map[string]float64{"": 0}, s.metric(t, "virtward_audit_failures_total"))
}

func TestEventsAreForWhatIsNew(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.cluster.vm(t, "prod", "old", "9Gi")
	s.cluster.vm(t, "prod", "fine", "8Gi")
	expect := func(what string, names ...string) {
		t.Helper()
		var got []string
		for _, e := range s.events {
			name, _, _ := strings.Cut(e, " ")
			got = append(got, name)
		}
		equal(t, what, names, got)
		s.events = nil
	}
	s.round(t)
	if want := `prod/old Warning PolicyViolation: spec.template.spec.domain.memory.guest: Invalid value: too much [virtward/policy/cap]`; len(s.events) != 1 || s.events[0] != want {
		t.Errorf("events %q, want %q", s.events, want)
	}
	s.events = nil
	s.round(t)
	expect("nothing changed")
	s.cluster.vm(t, "prod", "old", "10Gi")
	s.do(t.Context(), task{keys: []auditresults.Key{s.cluster.vm(t, "prod", "fine", "9Gi"), machine("gone")}})
	expect("one violates it now", "prod/fine")

	s.lead(t)
	s.round(t)
	expect("another replica leads")
	s.cluster.vm(t, "prod", "between", "9Gi")
	s.lead(t)
	s.round(t)
	expect("one was created while no replica led", "prod/between")

	s.shelf.absent = true
	s.lead(t)
	s.round(t)
	expect("the results before are unknown")
	s.cluster.vm(t, "prod", "later", "9Gi")
	s.round(t)
	expect("one came since", "prod/later")
}

func TestEventsAreBounded(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.round(t)
	for i := range maxEvents + 20 {
		s.cluster.vm(t, "prod", fmt.Sprintf("vm-%d", i), "9Gi")
	}
	s.round(t)
	if len(s.events) != maxEvents {
		t.Errorf("%d events, not %d", len(s.events), maxEvents)
	}
}

func TestReportsFollow(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.shelf.all["former"] = &openreports.Report{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{reports.ManagedByLabel: reports.ManagedBy}}}
	s.shelf.all["taken"] = &openreports.Report{Source: "another"}
	s.cluster.vm(t, "taken", "vm", "9Gi")
	key := s.cluster.vm(t, "prod", "vm", "9Gi")
	s.round(t)
	equal(t, "namespaces", []string{"prod", "taken"}, slices.Sorted(maps.Keys(s.shelf.all)))
	if s.shelf.all["taken"].Source != "another" {
		t.Error("a report of another component is overwritten")
	}
	equal(t, "foreign reports", map[string]float64{"": 1}, s.metric(t, "virtward_audit_foreign_reports"))
	writes := s.shelf.writes
	s.round(t)
	if s.shelf.writes != writes {
		t.Errorf("%d reports are written again", s.shelf.writes-writes)
	}
	delete(s.cluster.objects, key)
	s.do(t.Context(), task{keys: []auditresults.Key{key}})
	equal(t, "namespaces, when the last VM is gone", []string{"taken"}, slices.Sorted(maps.Keys(s.shelf.all)))

	s.set = policySet(t, nil)
	delete(s.shelf.all, "taken")
	s.round(t)
	equal(t, "summary without policies", openreports.ReportSummary{Pass: 1}, s.shelf.all["taken"].Summary)
	equal(t, "violations without policies", map[string]float64{}, s.metric(t, "virtward_policy_violations"))
}

func TestReportsComeWhenThereAreOpenReports(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.shelf.absent = true
	s.cluster.vm(t, "prod", "vm", "9Gi")
	s.round(t)
	equal(t, "violations", map[string]float64{"Deny,cap,high": 1}, s.metric(t, "virtward_policy_violations"))
	s.shelf.absent = false
	s.findReports(t.Context())
	equal(t, "too early to ask", 0, len(s.shelf.all))
	s.clock.Step(lookForReports)
	s.findReports(t.Context())
	want := []string{"fail cap VirtualMachine/vm spec.template.spec.domain.memory.guest"}
	equal(t, "the report", want, s.shelf.told("prod"))

	clear(s.shelf.all)
	s.clock.Step(lookForReports)
	s.findReports(t.Context())
	equal(t, "nothing changed, so nothing is written", 0, len(s.shelf.all))
	s.shelf.others = []string{"wgpolicyk8s.io/v1alpha2"}
	s.clock.Step(lookForReports)
	s.findReports(t.Context())
	equal(t, "the reports, when there is another API", want, s.shelf.told("prod"))
}

// Whatever call fails, and even if another replica goes on from there, the reports become what they would have been,
// and no event is created twice.
func TestFailuresConverge(t *testing.T) {
	scene := func() *scene {
		s := newScene(t, map[string]string{"cap": memoryCap})
		for i := range 5 {
			s.cluster.vm(t, []string{"prod", "lab"}[i%2], fmt.Sprintf("vm-%d", i), fmt.Sprintf("%dGi", 6+i))
		}
		return s
	}
	undisturbed := scene()
	undisturbed.round(t)
	want := map[string][]string{"prod": undisturbed.shelf.told("prod"), "lab": undisturbed.shelf.told("lab")}
	for _, another := range []bool{false, true} {
		failed := 0
		for at := 1; ; at++ {
			s, calls := scene(), 0
			failure := func() error {
				if calls++; calls == at {
					return errors.New("the API server is away")
				}
				return nil
			}
			s.cluster.fail, s.shelf.fail = failure, failure
			s.round(t)
			if calls < at {
				break
			}
			failed++
			equal(t, "failures", map[string]float64{"": 1}, s.metric(t, "virtward_audit_failures_total"))
			if another {
				s.lead(t)
				s.round(t)
			} else {
				s.clock.Step(firstRetry)
				next, _ := s.agenda.next(s.clock.Now())
				s.do(t.Context(), next)
			}
			equal(t, fmt.Sprintf("reports after call %d failed", at), want, map[string][]string{"prod": s.shelf.told("prod"), "lab": s.shelf.told("lab")})
			slices.Sort(s.events)
			if twice := slices.Compact(slices.Clone(s.events)); len(twice) != len(s.events) {
				t.Errorf("call %d failed: events are created twice: %q", at, s.events)
			}
		}
		if failed < 8 {
			t.Errorf("only %d calls were made to fail", failed)
		}
	}
}

func TestRunAuditsByItself(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	s.cluster.vm(t, "prod", "vm", "9Gi")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	deadline := time.Now().Add(time.Minute)
	for len(s.metric(t, "virtward_audit_objects")) == 0 && time.Now().Before(deadline) {
		s.clock.Step(time.Second)
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	equal(t, "violations", map[string]float64{"Deny,cap,high": 1}, s.metric(t, "virtward_policy_violations"))
}

// The first audit waits until everything is known that objects are evaluated by.
func TestTheFirstAuditWaits(t *testing.T) {
	s := newScene(t, map[string]string{"cap": memoryCap})
	asked := make(chan struct{}, 2)
	s.Ready = func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		return errors.New("the facts are not known")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	<-asked
	<-asked
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, left := s.agenda.next(s.clock.Now()); left != 0 || !s.agenda.began.Equal(start) {
		t.Errorf("an audit began at %s", s.agenda.began)
	}
	if !s.NeedLeaderElection() {
		t.Error("it runs in every replica")
	}
}

// What is evaluated at once has a bound in bytes, and what is found is noted in the order of the objects.
func TestEvaluatingIsBoundedByBytes(t *testing.T) {
	const words = 100 << 10
	for name, c := range map[string]struct {
		object string
		want   int64
	}{
		"a small object":              {`{"a":[1,2]}`, 2*bytesPerValue + 11*bytesPerByte + words},
		"many structs in few bytes":   {`[` + strings.Repeat("{},", 10_000) + `{}]`, 10_002*bytesPerValue + 30_004*bytesPerByte + words},
		"more than there is room for": {strings.Repeat("x", maxEvaluating), maxEvaluating},
	} {
		if got := weight([]byte(c.object), words); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
	var noted []string
	l := &line{all: make([]evaluated, 4), note: func(j *evaluated) { noted = append(noted, j.subject.Name) }}
	for _, i := range []int{2, 0, 3, 1} {
		l.done(i, evaluated{subject: auditresults.Subject{Key: auditresults.Key{Name: strconv.Itoa(i)}}})
		if i == 0 && !slices.Equal(noted, []string{"0"}) {
			t.Errorf("after 2 and 0, %v are noted", noted)
		}
	}
	equal(t, "noted", []string{"0", "1", "2", "3"}, noted)
}

// A clock that jumps neither stops the audit nor makes it audit without a pause.
func TestAgendaOfAClockThatJumps(t *testing.T) {
	pace := Pace{Interval: time.Hour, Least: 30 * time.Second, Quiet: 2 * time.Second}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, jump := range map[string]time.Duration{"a day back": -24 * time.Hour, "a year back": -365 * 24 * time.Hour, "a day ahead": 24 * time.Hour, "a year ahead": 365 * 24 * time.Hour} {
		a := newAgenda(pace)
		a.ask("it begins", now)
		at := now.Add(pace.Quiet)
		if task, _ := a.next(at); !task.round {
			t.Fatalf("%s: no first round", name)
		}
		a.succeeded()
		at = at.Add(jump)
		a.ask("something changed", at)
		rounds, waited := 0, time.Duration(0)
		for waited < 2*time.Hour {
			task, wait := a.next(at)
			if task.round {
				rounds++
				a.succeeded()
				continue
			}
			if wait <= 0 || wait > pace.Interval {
				t.Fatalf("%s: it waits for %s", name, wait)
			}
			at, waited = at.Add(wait), waited+wait
		}
		if rounds < 2 || rounds > 4 {
			t.Errorf("%s: %d rounds in two hours", name, rounds)
		}
	}
}
