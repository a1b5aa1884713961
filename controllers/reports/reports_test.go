package reports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
)

var then = time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)

func held(policy, name, message string) auditresults.Held {
	return auditresults.Held{
		Subject: auditresults.Subject{Key: auditresults.Key{Namespace: "prod", Kind: "VirtualMachine", Name: name}, APIVersion: "kubevirt.io/v1", UID: "u-1"},
		Result:  auditresults.Result{Source: auditresults.Source{Name: policy}, Field: "spec.x", Message: message, Remedy: "Do less."},
	}
}

func circumstances(now time.Time) *Context {
	return &Context{
		About: map[string]About{"cap": {Category: "resources", Severity: "high", Enforcement: "Deny"}}, Skipped: 2, Limit: 200, Now: now,
	}
}

func TestBuild(t *testing.T) {
	rule := held("arm64-disk-bus", "db", "sata")
	rule.BuiltIn, rule.Outcome, rule.Remedy = true, auditresults.Warn, ""
	failed := held("broken", "db", "boom")
	failed.Outcome, failed.Field, failed.Remedy = auditresults.Error, "", ""
	view := &auditresults.View{
		Objects: 4, Sum: auditresults.Sum{Fail: 9, Warn: 1, Error: 1, Pass: 2}, Left: 8,
		Results: []auditresults.Held{held("cap", "db", "too much"), failed, rule},
	}
	subjects := []corev1.ObjectReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachine", Namespace: "prod", Name: "db", UID: "u-1"}}
	at := metav1.Timestamp{Seconds: then.Unix()}
	want := &openreports.Report{
		ObjectMeta: metav1.ObjectMeta{
			Name: "virtward", Namespace: "prod", Labels: map[string]string{"app.kubernetes.io/managed-by": "virtward"},
			Annotations: map[string]string{"virtward.io/results-left-out": "8"},
		},
		Source: "virtward", Scope: &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: "prod"},
		Configuration: &openreports.ReportConfiguration{Limits: openreports.Limits{MaxResults: 200}},
		Summary:       openreports.ReportSummary{Pass: 2, Fail: 9, Warn: 1, Error: 1, Skip: 2},
		Results: []openreports.ReportResult{
			{
				Source: "virtward", Policy: "cap", Category: "resources", Severity: "high", Result: "fail", Scored: true, Description: "too much",
				Properties: map[string]string{"field": "spec.x", "enforcement": "Deny", "remedy": "Do less."}, Subjects: subjects, Timestamp: at,
			},
			{Source: "virtward", Policy: "broken", Result: "error", Description: "boom", Subjects: subjects, Timestamp: at},
			{
				Source: "virtward/rules", Policy: "arm64-disk-bus", Category: "virtward", Result: "warn", Description: "sata",
				Properties: map[string]string{"field": "spec.x"}, Subjects: subjects, Timestamp: at,
			},
		},
	}
	got := Build(circumstances(then), "prod", view, nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the report (-want +got):\n%s", diff)
	}

	view.Results = append(view.Results, held("cap", "new", "too much"))
	later := Build(circumstances(then.Add(time.Hour)), "prod", view, got)
	var times []int64
	for i := range later.Results {
		times = append(times, later.Results[i].Timestamp.Seconds-then.Unix())
	}
	if diff := cmp.Diff([]int64{0, 0, 0, 3600}, times); diff != "" {
		t.Errorf("what was known keeps its time (-want +got):\n%s", diff)
	}
	if Build(circumstances(then), "prod", &auditresults.View{}, got) != nil {
		t.Error("a namespace without objects gets a report")
	}
}

func TestFreshViolationsAreThoseOfPolicies(t *testing.T) {
	rule, failed := held("arm64-disk-bus", "db", "sata"), held("broken", "db", "boom")
	rule.BuiltIn, failed.Outcome = true, auditresults.Error
	view := &auditresults.View{Objects: 1, Results: []auditresults.Held{held("cap", "db", "too much"), rule, failed}}
	first := []auditresults.Held{view.Results[0]}
	if diff := cmp.Diff(first, Fresh(view, nil)); diff != "" {
		t.Errorf("without a report before (-want +got):\n%s", diff)
	}
	if got := Fresh(view, Build(circumstances(then), "prod", view, nil)); len(got) > 0 {
		t.Errorf("after the same report: %v", got)
	}
	none := &auditresults.View{Objects: 1, Left: 1}
	if got := Fresh(view, Build(circumstances(then), "prod", none, nil)); len(got) > 0 {
		t.Errorf("after a report that has no room for all results: %v", got)
	}
	none.Left = 0
	if diff := cmp.Diff(first, Fresh(view, Build(circumstances(then), "prod", none, nil))); diff != "" {
		t.Errorf("after a report without results (-want +got):\n%s", diff)
	}
}

// store is one over a fake API server, which counts what is written.
func store(t *testing.T, reject func(verb string) error, objects ...client.Object) (*Store, map[string]int) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{openreports.Install, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	written := map[string]int{}
	ask := func(verb string) error {
		written[verb]++
		if reject == nil {
			return nil
		}
		return reject(verb)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := ask("create"); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := ask("update"); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := ask("delete"); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, options ...client.ListOption) error {
			if reject != nil {
				if err := reject("list"); err != nil {
					return err
				}
			}
			return c.List(ctx, o, options...)
		},
	}).Build()
	return &Store{API: APIs()[0], Client: c, Pages: listed{c}}, written
}

// listed lists what a fake client has.
type listed struct{ client.Client }

func (l listed) Each(ctx context.Context, list pages.List, found func(pages.Object) error) (string, error) {
	selector, err := labels.Parse(list.LabelSelector)
	if err != nil {
		return "", err
	}
	all := &openreports.ReportList{}
	if err := l.List(ctx, all, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", err
	}
	for i := range all.Items {
		data, err := json.Marshal(&all.Items[i])
		if err != nil {
			return "", err
		}
		if err := found(pages.Object{JSON: data}); err != nil {
			return "", err
		}
	}
	return "", found(pages.Object{Namespace: "other", Name: "too-large"})
}

// TestPolicyReports: in the API of the working group, a Report has no source and no configuration, is found again, and is written
// only if it differs.
func TestPolicyReports(t *testing.T) {
	s, written := store(t, nil)
	s.API = APIs()[1]
	view := &auditresults.View{Objects: 1, Left: 4, Results: []auditresults.Held{held("cap", "db", "too much")}}
	put := func(now time.Time) *openreports.Report {
		t.Helper()
		before, err := s.Put(t.Context(), "prod", func(before *openreports.Report) *openreports.Report {
			return Build(circumstances(now), "prod", view, before)
		})
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	put(then)
	before := put(then.Add(time.Hour))
	want := Build(circumstances(then), "prod", view, nil)
	want.Source, want.Configuration = "", nil
	before.TypeMeta, before.ResourceVersion = metav1.TypeMeta{}, ""
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("what is stored (-want +got):\n%s", diff)
	}
	stored := s.API.empty().(*unstructured.Unstructured)
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: Name}, stored); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"source", "configuration"} {
		if _, has := stored.Object[field]; has {
			t.Errorf("it has the field %s: %v", field, stored.Object)
		}
	}
	view.Results = append(view.Results, held("cap", "new", "too much"))
	put(then)
	view.Objects = 0
	put(then)
	if diff := cmp.Diff(map[string]int{"create": 1, "update": 1, "delete": 1}, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// TestStores: an API that fails, or whose Report is another program's, does not keep a Report from the others.
func TestStores(t *testing.T) {
	foreign := &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "taken", Name: Name}}
	first, _ := store(t, nil, foreign)
	rejects := errors.New("rejected")
	second, _ := store(t, func(string) error { return rejects })
	third, written := store(t, nil)
	all := Stores{first, second, third}
	put := func(namespace string) error {
		_, err := all.Put(t.Context(), namespace, func(before *openreports.Report) *openreports.Report {
			return Build(circumstances(then), namespace, &auditresults.View{Objects: 1}, before)
		})
		return err
	}
	if err := put("taken"); !errors.Is(err, rejects) || errors.Is(err, ErrForeign) {
		t.Errorf("an error, and a Report of another program: %v", err)
	}
	rejects = nil
	if err := put("taken"); !errors.Is(err, ErrForeign) {
		t.Errorf("a Report of another program: %v", err)
	}
	if written["create"] != 1 {
		t.Errorf("the last API has no Report: %v", written)
	}
	all[0], all[1] = third, third
	if names, err := all.Available(t.Context()); err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
	if namespaces, err := all.Namespaces(t.Context()); err != nil || !slices.Equal(namespaces, []string{"taken"}) {
		t.Errorf("%v, %v", namespaces, err)
	}
}

func TestPutWritesWhatDiffers(t *testing.T) {
	s, written := store(t, nil)
	view := &auditresults.View{Objects: 1, Results: []auditresults.Held{held("cap", "db", "too much")}}
	put := func(now time.Time) *openreports.Report {
		t.Helper()
		before, err := s.Put(t.Context(), "prod", func(before *openreports.Report) *openreports.Report {
			return Build(circumstances(now), "prod", view, before)
		})
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	if before := put(then); before != nil {
		t.Errorf("there was a report before: %v", before)
	}
	before := put(then.Add(time.Hour)) // nothing differs
	if before == nil || len(before.Results) != 1 {
		t.Fatalf("the report before is %v", before)
	}
	before.Labels["team"] = "blue" // another user adds a label
	if err := s.Client.Update(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	view.Results, view.Left = append(view.Results, held("cap", "new", "too much")), 3
	put(then)
	view.Left = 0
	put(then)
	now := &openreports.Report{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: Name}, now); err != nil {
		t.Fatal(err)
	}
	if len(now.Results) != 2 || now.Labels["team"] != "blue" || len(now.Annotations) != 0 {
		t.Errorf("%d results, labels %v, annotations %v", len(now.Results), now.Labels, now.Annotations)
	}
	namespaces, err := s.Namespaces(t.Context())
	if diff := cmp.Diff([]string{"prod"}, namespaces); diff != "" || err != nil {
		t.Errorf("%v, namespaces (-want +got):\n%s", err, diff)
	}
	view.Objects = 0
	put(then)
	put(then)
	if diff := cmp.Diff(map[string]int{"create": 1, "update": 3, "delete": 1}, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

func TestPutLeavesAForeignReportAlone(t *testing.T) {
	foreign := &openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: Name, Labels: map[string]string{ManagedByLabel: "kyverno"}}}
	s, written := store(t, nil, foreign)
	_, err := s.Put(t.Context(), "prod", func(*openreports.Report) *openreports.Report { return nil })
	if !errors.Is(err, ErrForeign) || len(written) != 0 {
		t.Errorf("got %v, written %v", err, written)
	}
	if namespaces, err := s.Namespaces(t.Context()); len(namespaces) != 0 || err != nil {
		t.Errorf("it counts as a Report of Virtward: %v, %v", namespaces, err)
	}
}

func TestPutAndANamespaceThatGoes(t *testing.T) {
	going := apierrors.NewForbidden(schema.GroupResource{Resource: "reports"}, Name, errors.New("the namespace is being terminated"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		answer error
		want   string
	}{
		"it is terminating": {going, ""},
		"it is gone":        {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "prod"), ""},
		"we may not":        {apierrors.NewForbidden(schema.GroupResource{Resource: "reports"}, Name, errors.New("no")), "writing the Report of namespace prod: reports \"virtward\" is forbidden: no"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := store(t, func(string) error { return c.answer })
			_, err := s.Put(t.Context(), "prod", func(*openreports.Report) *openreports.Report {
				return Build(circumstances(then), "prod", &auditresults.View{Objects: 1}, nil)
			})
			if got := fmt.Sprint(err); (c.want == "") != (err == nil) || c.want != "" && got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	for name, c := range map[string]struct {
		answer error
		want   bool
		err    string
	}{
		"there is the kind":     {nil, true, ""},
		"there is no such kind": {&meta.NoKindMatchError{}, false, ""},
		"it has just gone":      {apierrors.NewNotFound(schema.GroupResource{}, ""), false, ""},
		"no answer":             {errors.New("rejected"), false, "looking up openreports.io/v1alpha1: rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := store(t, func(string) error { return c.answer })
			got, err := s.Available(t.Context())
			if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}
