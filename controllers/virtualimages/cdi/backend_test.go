package cdi_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/controllers/virtualimages/backendtest"
	"github.com/virtward/virtward/controllers/virtualimages/cdi"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/test/await"
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
			s.claim(t, dv)
			dv.Status.Phase, dv.Status.Progress = cdiv1beta1.Succeeded, "100.0%"
		}
		must(t, s.client.Status().Update(t.Context(), dv))
	}
}

// claim creates the claim of a DataVolume, or takes one of others with its annotation. It notes that only for a bound claim.
func (s *simulator) claim(t *testing.T, dv *cdiv1beta1.DataVolume) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	err := s.client.Get(t.Context(), client.ObjectKeyFromObject(dv), claim)
	must(t, client.IgnoreNotFound(err))
	taken := err == nil && claim.Annotations[populatedFor] == dv.Name
	switch {
	case taken && claim.Status.Phase == corev1.ClaimBound:
		status := dv.Status
		dv.Annotations["cdi.kubevirt.io/storage.prePopulated"] = claim.Name
		must(t, s.client.Update(t.Context(), dv))
		dv.Status = status
	case taken:
	default: // the garbage collector deletes that of an earlier DataVolume
		must(t, client.IgnoreNotFound(s.client.Delete(t.Context(), claim.DeepCopy())))
		must(t, s.client.Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: dv.Namespace, Name: dv.Name, Annotations: map[string]string{"cdi.kubevirt.io/createdForDataVolume": string(dv.UID)}},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: dv.Spec.Storage.Resources.Requests},
		}))
	}
}

// populatedFor is the annotation of a claim that CDI takes for the content of the DataVolume with this name.
const populatedFor = "cdi.kubevirt.io/storage.populatedFor"

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

// TestForeignClaim: an image whose claim CDI did not create fails for good, also if a process ends after each call. It gets no DataSource, a
// claim that has content stays, although CDI makes the DataVolume its owner, and the next image with the name is imported.
func TestForeignClaim(t *testing.T) {
	sources := backendtest.NewSources(t)
	for name, test := range map[string]struct {
		phase  corev1.PersistentVolumeClaimPhase
		within string
	}{
		"bound":     {corev1.ClaimBound, "existed before its DataVolume, so CDI wrote nothing to it: delete the VirtualImage and create it again"},
		"not bound": {corev1.ClaimPending, "exists, and CDI did not create it for this image: delete the VirtualImage and create it again"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSimulator(t, sources)
			image := imageOf(sources, "0b6c7c0e-52a9-4f2e-9a55-0a3d0f6f3f10")
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: test.phase},
			}
			claim.Annotations = map[string]string{populatedFor: claim.Name}
			must(t, s.client.Create(t.Context(), claim))
			got := s.until(t, image, virtualimages.Failed)
			if !got.Permanent || got.Reason != virtualimages.ReasonNameTaken || !strings.Contains(got.Message, "PersistentVolumeClaim "+image.Namespace+"/"+claim.Name+" "+test.within) {
				t.Errorf("%+v", got)
			}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: image.Namespace, Name: image.Name}, &cdiv1beta1.DataSource{}); !apierrors.IsNotFound(err) {
				t.Errorf("the image has a DataSource: %v", err)
			}
			deletion := &client.DeleteOptions{}
			inner := s.client
			s.client = interceptor.NewClient(inner, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
					deletion.ApplyOptions(options)
					return c.Delete(ctx, object, options...)
				},
			})
			b, kill := s.start(t)
			defer kill()
			for range 2 {
				if _, err := b.Delete(t.Context(), image); err != nil {
					t.Fatal(err)
				}
			}
			s.client = inner
			must(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
			if policy := deletion.PropagationPolicy; (policy != nil && *policy == metav1.DeletePropagationOrphan) != (test.phase == corev1.ClaimBound) {
				t.Errorf("the DataVolume is deleted with %+v", deletion)
			}
			s.until(t, imageOf(sources, "1c7d8d1f-52a9-4f2e-9a55-0a3d0f6f3f10"), virtualimages.Ready)
		})
	}
}

// TestReplacedClaim: the claim of an image that is ready is replaced by another one.
func TestReplacedClaim(t *testing.T) {
	sources := backendtest.NewSources(t)
	s := newSimulator(t, sources)
	image := imageOf(sources, "0b6c7c0e-52a9-4f2e-9a55-0a3d0f6f3f10")
	s.until(t, image, virtualimages.Ready)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}}
	must(t, s.client.Delete(t.Context(), claim))
	s.until(t, image, virtualimages.Ready) // CDI can have made a snapshot of it
	claim.ResourceVersion = ""
	must(t, s.client.Create(t.Context(), claim))
	if got := s.until(t, image, virtualimages.Failed); !got.Permanent || !strings.Contains(got.Message, "CDI did not create it for this image") {
		t.Errorf("%+v", got)
	}
}

func imageOf(sources *backendtest.Sources, uid types.UID) *backend.Image {
	return &backend.Image{
		Cluster: "cluster", Namespace: "team", Name: "fedora", UID: uid, ID: virtualimages.ID("cluster", uid, 1), Attempt: 1,
		Spec: v1alpha1.VirtualImageSpec{Src: sources.URL + "/disk", Format: v1alpha1.FormatQCOW2, ContainerFormat: v1alpha1.ContainerBare},
	}
}

// until calls Ensure and Observe until they return a state, and ends the process after each call that waits for no probe. An image is never ready before.
func (s *simulator) until(t *testing.T, image *backend.Image, want virtualimages.State) (o virtualimages.Observation) {
	t.Helper()
	b, kill := s.start(t)
	await.Until(t, func() error {
		var err error
		if o, err = b.Ensure(t.Context(), image); err != nil {
			t.Fatal(err)
		}
		if o.State != virtualimages.Waiting {
			kill()
			b, kill = s.start(t)
			if o, err = b.Observe(t.Context(), image); err != nil {
				t.Fatal(err)
			}
		}
		if o.State == virtualimages.Ready && want != virtualimages.Ready {
			t.Fatalf("%+v", o)
		}
		if o.State != want {
			s.step(t)
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	kill()
	return o
}
