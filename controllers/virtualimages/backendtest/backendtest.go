package backendtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

// System is a backend, and the system that it stores images in.
type System struct {
	// Start returns the backend of a new process, which remembers nothing of an earlier one. The function ends the process.
	Start func(t *testing.T) (b backend.Backend, kill func())
	// Occupy stores an object of others where an image would be, and returns a function that tests whether the object is
	// unchanged, and removes it.
	Occupy func(t *testing.T, image *backend.Image) (unchanged func(t *testing.T))
	// Remove deletes an image as an admin of the system.
	Remove func(t *testing.T, image *backend.Image)
	// Stored counts the images of Virtward in the system.
	Stored func(t *testing.T) int
	// Writes counts the requests of all processes that can change the system.
	Writes func() int
	// Step does what the system does between two calls; nil if it does so on its own.
	Step func(t *testing.T)
}

// Run runs all behaviors. Each leaves the system empty.
func Run(t *testing.T, sources *Sources, system *System) {
	s := &suite{System: system, sources: sources}
	for _, behavior := range []struct {
		name string
		test func(*testing.T)
	}{
		{"an absent image is observed and deleted without writes", s.absent},
		{"Ensure imports once, however often it is called", s.imports},
		{"Observe writes nothing in any state", s.observes},
		{"Delete can be repeated, and is complete without the image", s.deletes},
		{"an import has progress", s.progress},
		{"Delete ends an import", s.ends},
		{"a source that fails is a failure with a reason, and the next attempt succeeds", s.failed},
		{"a file of another format is a failure that lasts", s.format},
		{"an object of others is neither used nor deleted", s.taken},
		{"an image that others removed is absent", s.removed},
		{"an image with the same name and another UID is not deleted", s.namesake},
		{"another process continues", s.restart},
	} {
		t.Run(behavior.name, func(t *testing.T) {
			behavior.test(t)
			if n := s.Stored(t); n != 0 {
				t.Errorf("%d images are left", n)
			}
		})
	}
}

// patience bounds the wait for a state.
const patience = 60 * time.Second

const pause = 20 * time.Millisecond

type suite struct {
	*System

	sources *Sources
	images  int
}

// image is a new image with a source.
func (s *suite) image(path string) *backend.Image {
	s.images++
	image := &backend.Image{
		Cluster: "cluster", Namespace: "team", Name: fmt.Sprintf("image-%d", s.images), UID: types.UID(fmt.Sprintf("%08x-1b2c-4d5e-8f90-0123456789ab", s.images)),
		Spec: v1alpha1.VirtualImageSpec{Src: s.sources.URL + path, Format: v1alpha1.FormatQCOW2, ContainerFormat: v1alpha1.ContainerBare},
	}
	next(image)
	return image
}

// next begins another attempt.
func next(image *backend.Image) {
	image.Attempt++
	image.ID = virtualimages.ID(image.Cluster, image.UID, image.Attempt)
}

// gone are the states of an image that does not exist.
func gone(o *virtualimages.Observation) bool {
	return o.State == virtualimages.Absent || o.State == virtualimages.Spent
}

// until calls Ensure until it returns one of the states.
func (s *suite) until(t *testing.T, b backend.Backend, image *backend.Image, states ...virtualimages.State) virtualimages.Observation {
	t.Helper()
	return s.repeat(t, func() (virtualimages.Observation, error) { return b.Ensure(t.Context(), image) }, func(o *virtualimages.Observation) bool {
		return slices.Contains(states, o.State)
	})
}

// remove calls Delete until the image does not exist.
func (s *suite) remove(t *testing.T, b backend.Backend, image *backend.Image) {
	t.Helper()
	s.repeat(t, func() (virtualimages.Observation, error) { return b.Delete(t.Context(), image) }, gone)
}

func (s *suite) repeat(t *testing.T, call func() (virtualimages.Observation, error), done func(*virtualimages.Observation) bool) virtualimages.Observation {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(pause) {
		o, err := call()
		if err == nil && done(&o) {
			return o
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", o, err)
		}
		s.step(t)
	}
}

func (s *suite) step(t *testing.T) {
	t.Helper()
	if s.Step != nil {
		s.Step(t)
	}
}

func (s *suite) start(t *testing.T) backend.Backend {
	t.Helper()
	b, kill := s.Start(t)
	t.Cleanup(kill)
	return b
}

// observe returns what Observe says, and fails if that writes each time. A transfer can write meanwhile.
func (s *suite) observe(t *testing.T, b backend.Backend, image *backend.Image) virtualimages.Observation {
	t.Helper()
	for range 20 {
		before := s.Writes()
		o, err := b.Observe(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		if s.Writes() == before {
			return o
		}
		<-time.After(pause)
	}
	t.Fatal("Observe writes")
	return virtualimages.Observation{}
}

func (s *suite) stores(t *testing.T, want int) {
	t.Helper()
	if n := s.Stored(t); n != want {
		t.Errorf("%d images are stored, want %d", n, want)
	}
}

func (s *suite) absent(t *testing.T) {
	b, image := s.start(t), s.image("/disk")
	if o := s.observe(t, b, image); o.State != virtualimages.Absent {
		t.Errorf("%+v", o)
	}
	before := s.Writes()
	s.remove(t, b, image)
	if n := s.Writes() - before; n != 0 {
		t.Errorf("Delete of an absent image wrote %d times", n)
	}
}

func (s *suite) imports(t *testing.T) {
	b, image := s.start(t), s.image("/disk")
	for range 3 {
		if o, err := b.Ensure(t.Context(), image); err != nil || o.State == virtualimages.Failed || o.State == virtualimages.Taken {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	o := s.until(t, b, image, virtualimages.Ready, virtualimages.Failed)
	if o.State != virtualimages.Ready || o.SizeBytes <= 0 {
		t.Fatalf("%+v", o)
	}
	before := s.Writes()
	for range 3 {
		if again, err := b.Ensure(t.Context(), image); err != nil || again.State != virtualimages.Ready {
			t.Errorf("%+v, %v", again, err)
		}
	}
	if n := s.Writes() - before; n != 0 {
		t.Errorf("Ensure of an image that is ready wrote %d times", n)
	}
	s.stores(t, 1)
	s.remove(t, b, image)
}

func (s *suite) observes(t *testing.T) {
	b, image, bad := s.start(t), s.image("/held"), s.image("/page")
	defer s.sources.hold()
	s.observe(t, b, image)
	s.until(t, b, image, virtualimages.Importing)
	for range 5 {
		if o := s.observe(t, b, image); o.State != virtualimages.Importing {
			t.Errorf("%+v", o)
		}
		s.step(t)
	}
	s.sources.Release()
	s.until(t, b, image, virtualimages.Ready)
	if o := s.observe(t, b, image); o.State != virtualimages.Ready || o.SizeBytes <= 0 {
		t.Errorf("%+v", o)
	}
	s.until(t, b, bad, virtualimages.Failed)
	s.observe(t, b, bad)
	s.remove(t, b, image)
	s.observe(t, b, image)
	s.remove(t, b, bad)
}

func (s *suite) deletes(t *testing.T) {
	b, image := s.start(t), s.image("/disk")
	s.until(t, b, image, virtualimages.Ready)
	s.remove(t, b, image)
	s.stores(t, 0)
	before := s.Writes()
	s.remove(t, b, image)
	if o := s.observe(t, b, image); !gone(&o) {
		t.Errorf("%+v", o)
	}
	if n := s.Writes() - before; n != 0 {
		t.Errorf("a second deletion wrote %d times", n)
	}
}

func (s *suite) progress(t *testing.T) {
	b, image := s.start(t), s.image("/held")
	defer s.sources.hold()
	o := s.repeat(t, func() (virtualimages.Observation, error) { return b.Ensure(t.Context(), image) }, func(o *virtualimages.Observation) bool {
		return o.State == virtualimages.Importing && o.Done > 0
	})
	if o.Done >= o.Total {
		t.Errorf("%+v of an import that is not complete", o)
	}
	s.sources.Release()
	s.until(t, b, image, virtualimages.Ready)
	s.remove(t, b, image)
}

func (s *suite) ends(t *testing.T) {
	b, image := s.start(t), s.image("/held")
	defer s.sources.hold()
	s.until(t, b, image, virtualimages.Importing)
	s.remove(t, b, image)
	s.sources.Release()
	for range 10 {
		s.step(t)
		<-time.After(pause)
		s.stores(t, 0)
	}
}

func (s *suite) failed(t *testing.T) {
	b, image := s.start(t), s.image("/missing")
	o := s.until(t, b, image, virtualimages.Failed)
	if o.Permanent || o.Reason != "SourceNotFound" || o.Message == "" || strings.Contains(o.Message, "127.0.0.1") {
		t.Errorf("%+v", o)
	}
	s.remove(t, b, image)
	s.stores(t, 0)
	s.sources.exist(true)
	defer s.sources.exist(false)
	next(image)
	s.until(t, b, image, virtualimages.Ready)
	s.stores(t, 1)
	s.remove(t, b, image)
}

func (s *suite) format(t *testing.T) {
	b, image := s.start(t), s.image("/page")
	if o := s.until(t, b, image, virtualimages.Failed, virtualimages.Ready); o.State != virtualimages.Failed || !o.Permanent || o.Reason != "FormatMismatch" {
		t.Errorf("%+v", o)
	}
	s.remove(t, b, image)
}

func (s *suite) taken(t *testing.T) {
	b, image := s.start(t), s.image("/disk")
	unchanged := s.Occupy(t, image)
	if o := s.until(t, b, image, virtualimages.Taken, virtualimages.Ready); o.State != virtualimages.Taken || o.Message == "" {
		t.Errorf("%+v", o)
	}
	if o := s.observe(t, b, image); o.State != virtualimages.Taken {
		t.Errorf("%+v", o)
	}
	s.remove(t, b, image)
	unchanged(t)
}

func (s *suite) removed(t *testing.T) {
	b, image := s.start(t), s.image("/disk")
	s.until(t, b, image, virtualimages.Ready)
	s.Remove(t, image)
	if o := s.observe(t, b, image); !gone(&o) {
		t.Errorf("%+v", o)
	}
	s.remove(t, b, image)
}

func (s *suite) namesake(t *testing.T) {
	b, image, other := s.start(t), s.image("/disk"), s.image("/disk")
	other.Name = image.Name
	s.until(t, b, image, virtualimages.Ready)
	s.remove(t, b, other)
	if o := s.observe(t, b, image); o.State != virtualimages.Ready {
		t.Errorf("%+v", o)
	}
	s.stores(t, 1)
	s.remove(t, b, image)
}

// restart kills a process during an import. The next one completes it, perhaps with another attempt.
func (s *suite) restart(t *testing.T) {
	b, kill := s.Start(t)
	image := s.image("/held")
	defer s.sources.hold()
	s.until(t, b, image, virtualimages.Importing)
	kill()
	s.sources.Release()
	b = s.start(t)
	o := s.until(t, b, image, virtualimages.Ready, virtualimages.Failed)
	if o.State == virtualimages.Failed {
		if o.Permanent {
			t.Errorf("%+v", o)
		}
		s.remove(t, b, image)
		next(image)
		s.until(t, b, image, virtualimages.Ready)
	}
	s.stores(t, 1)
	if o := s.observe(t, s.start(t), image); o.State != virtualimages.Ready {
		t.Errorf("%+v", o)
	}
	s.remove(t, b, image)
}
