package cdi_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/backendtest"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/virtualimages"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// simulator is an API server in memory, and what CDI does with DataVolumes.
type simulator struct {
	client  client.WithWatch
	sources *backendtest.Sources
	writes  atomic.Int64
}

func newSimulator(t *testing.T, sources *backendtest.Sources) *simulator {
	t.Helper()
	return &simulator{sources: sources, client: backendtest.NewAPIServer(t)}
}

// process is a client that counts writes.
func (s *simulator) process() client.Client {
	return backendtest.Counted(s.client, func() { s.writes.Add(1) })
}

// step imports each DataVolume whose source is not held.
func (s *simulator) step(t *testing.T) {
	t.Helper()
	list := &cdiv1beta1.DataVolumeList{}
	must(t, s.client.List(t.Context(), list))
	for i := range list.Items {
		dv := &list.Items[i]
		if dv.Spec.Source == nil || dv.Spec.Source.HTTP == nil || dv.Status.Phase == cdiv1beta1.Succeeded {
			continue
		}
		dv.Status.Phase, dv.Status.Progress = cdiv1beta1.ImportInProgress, "42.00%"
		if !s.sources.Held(dv.Spec.Source.HTTP.URL) {
			dv.Status.Phase, dv.Status.Progress = cdiv1beta1.Succeeded, "100.0%"
		}
		must(t, s.client.Status().Update(t.Context(), dv))
	}
}

func (s *simulator) stored(t *testing.T) int {
	t.Helper()
	volumes, sources := &cdiv1beta1.DataVolumeList{}, &cdiv1beta1.DataSourceList{}
	must(t, s.client.List(t.Context(), volumes, client.HasLabels{v1alpha1.LabelImage}))
	must(t, s.client.List(t.Context(), sources, client.HasLabels{v1alpha1.LabelImage}))
	images := map[string]bool{}
	for i := range volumes.Items {
		images[volumes.Items[i].Labels[v1alpha1.LabelImage]] = true
	}
	for i := range sources.Items {
		images[sources.Items[i].Labels[v1alpha1.LabelImage]] = true
	}
	return len(images)
}

func (s *simulator) start(t *testing.T) (backend.Backend, func()) {
	t.Helper()
	ctx, kill := context.WithCancel(context.Background())
	return cdi.New(cdi.Options{
		Client: s.process(), Source: s.sources.Open, Checksums: func(context.Context) (bool, error) { return true, nil },
		Probes: transfers.New[cdi.Probe](ctx, transfers.Limits{Running: 2, Namespace: 2}), Timeout: time.Hour, Clock: clock.RealClock{},
		Changed: func(string, string) {}, Imports: func(context.Context, *backend.Image, int64) (bool, string, string, error) { return true, "", "", nil },
	}), kill
}

// TestContract runs the behaviors of every backend against an API server in memory with a simulated CDI.
func TestContract(t *testing.T) {
	sources := backendtest.NewSources(t)
	for name, occupied := range map[string]func(image *backend.Image) client.Object{
		"DataVolume": func(image *backend.Image) client.Object {
			return &cdiv1beta1.DataVolume{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}}
		},
		"DataSource": func(image *backend.Image) client.Object {
			return &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: image.Name}}
		},
	} {
		t.Run("with a "+name+" of others", func(t *testing.T) {
			s := newSimulator(t, sources)
			backendtest.Run(t, sources, &backendtest.System{
				Start: s.start, Step: s.step, Stored: s.stored, Writes: func() int { return int(s.writes.Load()) },
				Occupy: func(t *testing.T, image *backend.Image) func(*testing.T) {
					object := occupied(image)
					must(t, s.client.Create(t.Context(), object))
					return func(t *testing.T) {
						before := object.GetResourceVersion()
						must(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
						if object.GetResourceVersion() != before || object.GetDeletionTimestamp() != nil {
							t.Errorf("it changed: %+v", object)
						}
						must(t, s.client.Delete(t.Context(), object))
					}
				},
				Remove: func(t *testing.T, image *backend.Image) {
					meta := metav1.ObjectMeta{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}
					must(t, s.client.Delete(t.Context(), &cdiv1beta1.DataVolume{ObjectMeta: meta}))
				},
			})
		})
	}
}
