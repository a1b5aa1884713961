package platform_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// macvtap is a default interface that the definition of KubeVirt accepts, but KubeVirt rejects.
const macvtap = `{"spec":{"configuration":{"network":{"defaultNetworkInterface":"macvtap"}}}}`

const macvtapReason = `KubeVirt default/a: spec.configuration.network.defaultNetworkInterface: "macvtap" is not bridge or masquerade`

// change is one call of onChange.
type change struct {
	source, model, warning, err string
}

// watched is a running watcher, and its calls of onChange.
type watched struct {
	*platform.Watcher
	clock *clocktesting.FakePassiveClock

	mu    sync.Mutex
	calls []change
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func watch(t *testing.T) *watched {
	t.Helper()
	config, err := dynamic.NewForConfig(server(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{clock: clocktesting.NewFakePassiveClock(epoch)}
	w.Watcher, err = platform.NewWatcher(config, platform.Settings{}, w.clock, w.onChange)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Ready(); err == nil || err.Error() != "the KubeVirt resource has not been read yet" || w.Facts() != nil || w.Age() != 0 {
		t.Errorf("before it runs: ready %v, facts %v, age %v", err, w.Facts(), w.Age())
	}
	run(t, w.Run)
	await.Until(t, w.Ready)
	return w
}

func (w *watched) onChange(facts *platform.Facts, err error) {
	call := change{source: facts.Source, model: facts.CPUModel, warning: strings.Join(facts.Warnings, "; ")}
	if err != nil {
		call.err = err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, call)
}

func (w *watched) changes() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// eventuallyModel waits until the facts have a CPU model and come from a source.
func (w *watched) eventuallyModel(t *testing.T, source, model string) {
	t.Helper()
	await.Until(t, func() error {
		if f := w.Facts(); f.Source != source || f.CPUModel != model {
			return fmt.Errorf("the facts are those of %s with the CPU model %q, want %s and %q", f.Source, f.CPUModel, source, model)
		}
		return nil
	})
}

// install creates a KubeVirt resource in the namespace default, and deletes it at the end of the test.
func install(t *testing.T, name, configuration string) *unstructured.Unstructured {
	t.Helper()
	kv := kubeVirt(t, configuration)
	kv.SetAPIVersion("kubevirt.io/v1")
	kv.SetKind("KubeVirt")
	kv.SetName(name)
	kv.SetNamespace("default")
	c := server(t).Client()
	if err := c.Create(t.Context(), kv); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(c.Delete(context.Background(), kv)); err != nil {
			t.Error(err)
		}
	})
	return kv
}

func patch(t *testing.T, kv *unstructured.Unstructured, text string) {
	t.Helper()
	if err := server(t).Client().Patch(t.Context(), kv, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

func phase(t *testing.T, kv *unstructured.Unstructured, phase string) {
	t.Helper()
	text := fmt.Sprintf(`{"status":{"phase":%q}}`, phase)
	if err := server(t).Client().Status().Patch(t.Context(), kv, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

func TestWatcherKeepsTheLastValidFacts(t *testing.T) {
	kv := install(t, "a", `cpuModel: EPYC`)
	w := watch(t)
	w.eventuallyModel(t, "KubeVirt default/a", "EPYC")
	patch(t, kv, macvtap)
	await.Until(t, func() error {
		if calls := w.changes(); calls[len(calls)-1].err == "" {
			return fmt.Errorf("no error was reported: %+v", calls)
		}
		return nil
	})
	calls := w.changes()
	want := change{source: "KubeVirt default/a", model: "EPYC", err: macvtapReason}
	if got := calls[len(calls)-1]; got != want {
		t.Errorf("changes %+v,\nwant %+v", got, want)
	}
	if f := w.Facts(); f.CPUModel != "EPYC" || f.NetworkInterface != "bridge" {
		t.Errorf("the facts are %+v", f)
	}
	patch(t, kv, `{"spec":{"configuration":{"cpuModel":"Nehalem","network":null}}}`)
	w.eventuallyModel(t, "KubeVirt default/a", "Nehalem")
}

func TestWatcherWithInvalidFirstConfiguration(t *testing.T) {
	kv := install(t, "a", `network: {defaultNetworkInterface: macvtap}`)
	w := watch(t)
	f := w.Facts()
	want := []string{"the configuration of KubeVirt cannot be used, so KubeVirt's own defaults are assumed: " + macvtapReason}
	if diff := cmp.Diff(want, f.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if f.Source != "KubeVirt's own defaults" || f.NetworkInterface != "bridge" {
		t.Errorf("the facts come from %s, interface %s", f.Source, f.NetworkInterface)
	}
	patch(t, kv, `{"spec":{"configuration":{"cpuModel":"EPYC","network":null}}}`)
	w.eventuallyModel(t, "KubeVirt default/a", "EPYC")
	if f := w.Facts(); len(f.Warnings) != 0 {
		t.Errorf("warnings stayed: %v", f.Warnings)
	}
}

func TestWatcherPrefersDeployedKubeVirts(t *testing.T) {
	install(t, "a", `cpuModel: none-yet`)
	install(t, "b", `cpuModel: none-either`)
	w := watch(t)
	w.eventuallyModel(t, "KubeVirt default/a", "none-yet") // by name, because the phases are equal

	c := install(t, "c", `cpuModel: deploying`)
	phase(t, c, "Deploying")
	w.eventuallyModel(t, "KubeVirt default/c", "deploying") // a phase has precedence over none

	d := install(t, "d", `cpuModel: deployed`)
	phase(t, d, "Deployed")
	w.eventuallyModel(t, "KubeVirt default/d", "deployed") // Deployed has precedence

	phase(t, c, "Deployed")
	w.eventuallyModel(t, "KubeVirt default/c", "deploying")
	if err := server(t).Client().Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.eventuallyModel(t, "KubeVirt default/d", "deployed")
}

func TestWatcherIgnoresKubeVirtsBeingDeleted(t *testing.T) {
	a := install(t, "a", `cpuModel: leaving`)
	install(t, "b", `cpuModel: staying`)
	patch(t, a, `{"metadata":{"finalizers":["virtward.io/test"]}}`)
	w := watch(t)
	w.eventuallyModel(t, "KubeVirt default/a", "leaving")
	if err := server(t).Client().Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	w.eventuallyModel(t, "KubeVirt default/b", "staying")
	patch(t, a, `{"metadata":{"finalizers":null}}`)
}

func TestWatcherWithoutKubeVirt(t *testing.T) {
	w := watch(t)
	await.Until(t, func() error { return assumed(w.Facts()) })
	kv := install(t, "a", `cpuModel: EPYC`)
	w.eventuallyModel(t, "KubeVirt default/a", "EPYC")
	if err := server(t).Client().Delete(t.Context(), kv); err != nil {
		t.Fatal(err)
	}
	await.Until(t, func() error { return assumed(w.Facts()) })
}

// assumed reports whether facts are those of a cluster without KubeVirt.
func assumed(f *platform.Facts) error {
	if diff := cmp.Diff([]string{platform.NoKubeVirtWarning}, f.Warnings); diff != "" || f.Source != "KubeVirt's own defaults" {
		return fmt.Errorf("the facts come from %s; warnings (-want +got):\n%s", f.Source, diff)
	}
	return nil
}

func TestWatcherReportsOnlyChanges(t *testing.T) {
	kv := install(t, "a", `cpuModel: EPYC`)
	w := watch(t)
	w.eventuallyModel(t, "KubeVirt default/a", "EPYC")
	phase(t, kv, "Deploying") // the phase is not part of the facts
	patch(t, kv, `{"metadata":{"labels":{"touched":"yes"}}}`)
	patch(t, kv, `{"spec":{"configuration":{"cpuModel":"Nehalem"}}}`)
	w.eventuallyModel(t, "KubeVirt default/a", "Nehalem")
	want := []change{{source: "KubeVirt default/a", model: "EPYC"}, {source: "KubeVirt default/a", model: "Nehalem"}}
	await.Until(t, func() error {
		if calls := w.changes(); len(calls) == 0 || calls[len(calls)-1].model != "Nehalem" {
			return fmt.Errorf("changes %+v", calls)
		}
		return nil
	})
	if diff := cmp.Diff(want, w.changes(), cmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestWatcherAge(t *testing.T) {
	kv := install(t, "a", `cpuModel: EPYC`)
	w := watch(t)
	w.eventuallyModel(t, "KubeVirt default/a", "EPYC")
	if observed := w.Facts().Observed; !observed.Equal(epoch) || w.Age() != 0 {
		t.Errorf("observed at %v, age %v", observed, w.Age())
	}
	w.clock.SetTime(epoch.Add(10 * time.Minute))
	if age := w.Age(); age != 10*time.Minute {
		t.Errorf("age %v after ten minutes", age)
	}
	patch(t, kv, `{"spec":{"configuration":{"cpuModel":"Nehalem"}}}`)
	w.eventuallyModel(t, "KubeVirt default/a", "Nehalem")
	if age := w.Age(); age != 0 {
		t.Errorf("age %v of new facts", age)
	}
}

// The definition is deleted while a watcher runs, and while another one starts. Both read it once it exists again.
func TestWatcherWithoutDefinition(t *testing.T) {
	cluster := server(t)
	install(t, "a", `cpuModel: EPYC`)
	old := watch(t)
	old.eventuallyModel(t, "KubeVirt default/a", "EPYC")

	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "kubevirts.kubevirt.io"}}
	if err := cluster.Client().Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reinstall(t, cluster) })
	await.Until(t, func() error {
		err := cluster.Client().Get(t.Context(), client.ObjectKeyFromObject(definition), definition)
		if err == nil {
			return errors.New("the definition is still there")
		}
		return client.IgnoreNotFound(err)
	})
	await.Until(t, func() error { return assumed(old.Facts()) })
	young := watch(t)
	if err := assumed(young.Facts()); err != nil {
		t.Error(err)
	}

	reinstall(t, cluster)
	install(t, "a", `cpuModel: Nehalem`)
	old.eventuallyModel(t, "KubeVirt default/a", "Nehalem")
	young.eventuallyModel(t, "KubeVirt default/a", "Nehalem")
}

func reinstall(t *testing.T, cluster *controlplane.ControlPlane) {
	t.Helper()
	all, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.InstallCRDs(context.Background(), all...); err != nil {
		t.Fatal(err)
	}
}

func TestReadFacts(t *testing.T) {
	reader, err := dynamic.NewForConfig(server(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	facts, err := platform.ReadFacts(t.Context(), reader, platform.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if err := assumed(facts); err != nil {
		t.Error(err)
	}
	kv := install(t, "a", `cpuModel: EPYC`)
	if facts, err = platform.ReadFacts(t.Context(), reader, platform.Settings{}); err != nil || facts.CPUModel != "EPYC" {
		t.Errorf("facts %+v, error %v", facts, err)
	}
	patch(t, kv, macvtap)
	if _, err = platform.ReadFacts(t.Context(), reader, platform.Settings{}); err == nil || err.Error() != macvtapReason {
		t.Errorf("error %v,\nwant %s", err, macvtapReason)
	}
}
