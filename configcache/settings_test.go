package configcache

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/virtward/virtward/test/await"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/validators"
)

// settingsWatch is a watcher that runs, and what it tells.
type settingsWatch struct {
	*Settings
	cluster *controlplane.ControlPlane

	mu    sync.Mutex
	calls []Change
}

func watchSettings(t *testing.T, cluster *controlplane.ControlPlane) *settingsWatch {
	t.Helper()
	dynamicClient, err := dynamic.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &settingsWatch{cluster: cluster}
	known := validators.Table{{ID: "disk-bus"}, {ID: "disk-count"}}
	w.Settings, err = NewSettings(dynamicClient, known, func(change Change) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = append(w.calls, change)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(); err == nil || err.Error() != "the RuleSettings have not been read yet" || w.Current() != nil {
		t.Errorf("before it runs: ready %v, settings %v", err, w.Current())
	}
	await.Run(t, w.Run)
	await.Until(t, w.Ready)
	return w
}

// told are the changes since the last time, as text.
func (w *settingsWatch) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := make([]string, 0, len(w.calls))
	for _, call := range w.calls {
		text := "active: " + strings.Join(call.Objects, ",")
		for _, note := range call.Notes {
			text += "; " + note
		}
		if call.Err != nil {
			text += "; " + call.Err.Error()
		}
		texts = append(texts, text)
	}
	w.calls = nil
	return texts
}

// soonSet waits until these are the severities in a namespace of a tier.
func (w *settingsWatch) soonSet(t *testing.T, tier string, want validators.Severities) {
	t.Helper()
	await.Until(t, func() error {
		if diff := cmp.Diff(want, w.Current().For(k8slabels.Set{"tier": tier})); diff != "" {
			return fmt.Errorf("severities (-want +got):\n%s", diff)
		}
		return nil
	})
}

// write creates a RuleSettings, or replaces it.
func (w *settingsWatch) write(t *testing.T, name, rules string) {
	t.Helper()
	var list []any
	if err := yaml.UnmarshalStrict([]byte(rules), &list); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("policy.virtward.io/v1alpha1")
	object.SetKind("RuleSettings")
	object.SetName(name)
	err := w.cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = map[string]any{"rules": list}
	if exists {
		err = w.cluster.Client().Update(t.Context(), object)
	} else {
		err = w.cluster.Client().Create(t.Context(), object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *settingsWatch) remove(t *testing.T, name string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("policy.virtward.io/v1alpha1")
	object.SetKind("RuleSettings")
	object.SetName(name)
	if err := w.cluster.Client().Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// testSettings is run by TestWithAPIServer, which begins without the kind.
func testSettings(t *testing.T, cluster *controlplane.ControlPlane) {
	w := watchSettings(t, cluster)
	if got := w.Current(); got.For(nil) != nil || got.SelectsNamespaces() {
		t.Errorf("without the kind these are set: %v", got.For(nil))
	}
	if err := cluster.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func(t *testing.T, w *settingsWatch)
	}{
		{"live", settingsAreLive},
		{"what cannot be used", settingsTellNotes},
		{"what cannot be read", settingsKeepTheLastGood},
		{"the definition goes", settingsOutliveTheDefinition},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, w) }) {
			return // what follows builds on it
		}
	}
}

func settingsAreLive(t *testing.T, w *settingsWatch) {
	w.write(t, "a", "[{rule: disk-bus, severity: Warn}]")
	w.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Warn})
	w.write(t, "b", `[{rule: disk-bus, severity: "Off", namespaceSelector: {matchLabels: {tier: lab}}}]`)
	w.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Off})
	w.soonSet(t, "shop", validators.Severities{"disk-bus": validators.Warn})
	if !w.Current().SelectsNamespaces() {
		t.Error("the selector is not known of")
	}
	want := []string{"active: ", "active: a", "active: a,b"}
	if diff := cmp.Diff(want, w.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}

	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	object.SetGroupVersionKind(ruleSettings.GroupVersion().WithKind("RuleSettings"))
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"touched":"yes"}}}`))
	if err := w.cluster.Client().Patch(t.Context(), object, label); err != nil {
		t.Fatal(err)
	}
	w.remove(t, "b")
	w.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Warn})
	if diff := cmp.Diff([]string{"active: a"}, w.told()); diff != "" {
		t.Errorf("told of a label and a delete (-want +got):\n%s", diff)
	}
}

func settingsTellNotes(t *testing.T, w *settingsWatch) {
	w.write(t, "a", "[{rule: disk-bus, severity: Warn}, {rule: of-another-version, severity: Warn}, {rule: disk-count, severity: Warn}]")
	w.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Warn, "disk-count": validators.Warn})
	want := []string{`active: a; RuleSettings a: spec.rules[1] has no effect: this version of Virtward has no rule "of-another-version"`}
	if diff := cmp.Diff(want, w.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// settingsKeepTheLastGood changes the definition by hand, so that it accepts what there cannot be.
func settingsKeepTheLastGood(t *testing.T, w *settingsWatch) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.cluster.Client().Get(t.Context(), client.ObjectKey{Name: "rulesettings.policy.virtward.io"}, definition); err != nil {
		t.Fatal(err)
	}
	definition.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	if err := w.cluster.Client().Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error { return w.tryWrite("b", `{"rules":[{"rule":"disk-bus","severity":5}]}`) })
	var calls []string
	await.Until(t, func() error {
		if calls = append(calls, w.told()...); len(calls) == 0 {
			return fmt.Errorf("nothing was reported")
		}
		return nil
	})
	if want := "active: a; RuleSettings a: spec.rules[1] has no effect: "; !strings.HasPrefix(calls[0], want) ||
		!strings.Contains(calls[0], "reading RuleSettings b: cannot convert int64 to v1alpha1.Severity") {
		t.Errorf("told %q", calls)
	}
	w.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Warn, "disk-count": validators.Warn})

	young := watchSettings(t, w.cluster) // takes what it can
	young.soonSet(t, "lab", validators.Severities{"disk-bus": validators.Warn, "disk-count": validators.Warn})

	w.remove(t, "b")
	await.Until(t, func() error {
		calls = append(calls, w.told()...)
		if last := calls[len(calls)-1]; strings.Contains(last, "cannot convert") {
			return fmt.Errorf("told %s", last)
		}
		return nil
	})
}

// tryWrite creates an object that the API server rejects until it has noticed another definition.
func (w *settingsWatch) tryWrite(name, spec string) error {
	object := &unstructured.Unstructured{}
	text := `{"apiVersion":"policy.virtward.io/v1alpha1","kind":"RuleSettings","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		return err
	}
	return w.cluster.Client().Create(context.Background(), object)
}

func settingsOutliveTheDefinition(t *testing.T, w *settingsWatch) {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "rulesettings.policy.virtward.io"}}
	if err := w.cluster.Client().Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error {
		err := w.cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(definition), definition)
		if err == nil {
			return fmt.Errorf("the definition is still there")
		}
		return client.IgnoreNotFound(err)
	})
	w.soonSet(t, "lab", nil)
	if err := w.Ready(); err != nil {
		t.Error(err)
	}
	if err := w.cluster.InstallVirtwardCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(t, "c", "[{rule: disk-count, severity: Warn}]")
	w.soonSet(t, "lab", validators.Severities{"disk-count": validators.Warn})
}

// testNamespaces is run by TestWithAPIServer.
func testNamespaces(t *testing.T, cluster *controlplane.ControlPlane) {
	metadataClient, err := metadata.NewForConfig(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	n, err := NewNamespaces(metadataClient)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(); err == nil || err.Error() != "the namespaces have not been read yet" {
		t.Errorf("before it runs: %v", err)
	}
	created := func(name string) *corev1.Namespace {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"tier": "lab"}, Annotations: map[string]string{"long": "story"},
		}}
		if err := cluster.Client().Create(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
		return namespace
	}
	check := func(name, tier string) error {
		got, err := n.NamespaceLabels(t.Context(), name)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(k8slabels.Set{"tier": tier, corev1.LabelMetadataName: name}, got); diff != "" {
			return fmt.Errorf("labels of %s (-want +got):\n%s", name, diff)
		}
		return nil
	}
	first := created("first")
	if err := check("first", "lab"); err != nil { // read live
		t.Error(err)
	}
	await.Run(t, n.Run)
	await.Until(t, n.Ready)
	if err := check("first", "lab"); err != nil {
		t.Error(err)
	}
	stored, _, _ := n.informer.GetStore().GetByKey("first")
	if kept := stored.(*keptNamespace); kept.ManagedFields != nil {
		t.Errorf("unused fields are kept in memory: %v", kept.ManagedFields)
	}
	if whole, err := n.Namespace(t.Context(), "first"); err != nil || whole.Name != "first" || whole.Labels["tier"] != "lab" || whole.Annotations["long"] != "story" || whole.UID == "" {
		t.Errorf("namespace %+v: %v", whole, err)
	}
	created("second")
	if err := check("second", "lab"); err != nil { // the moment it is there, whatever the watch knows
		t.Error(err)
	}
	first.Labels["tier"] = "shop"
	if err := cluster.Client().Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error { return check("first", "shop") })
	if _, err := n.NamespaceLabels(t.Context(), "none"); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	if _, err := n.Namespace(t.Context(), "none"); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.NamespaceLabels(ended, "none"); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a canceled request: %v", err)
	}
}
