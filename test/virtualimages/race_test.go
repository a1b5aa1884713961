package virtualimages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/test/await"
)

// try is a creation of a virtual machine while its image is deleted.
type try struct {
	image *v1alpha1.VirtualImage
	vm    *kubevirtv1.VirtualMachine
	// err is the answer to the creation, and took its time.
	err  error
	took time.Duration
}

// race deletes images, and creates a virtual machine for each at another moment of the deletion. None refers to an image that
// is gone: it was denied, or the image is kept, or the machine was created after the image was gone.
func (f *fixture) race(t *testing.T, tries int) {
	all := make([]try, tries)
	url := f.web.serve("race.qcow2", qcow2(1<<30))
	for i := range all {
		all[i].image = f.image(t, fmt.Sprintf("race-%04d", i), url, nil)
	}
	f.within(t, patience(tries), "the imports", func() error { return f.ready(t, "race-", tries) })
	removed := f.removals(t)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range all {
		// Of three creations, one is beside the deletion, one while requests are awaited, and one around the end.
		const beside = 100 * time.Millisecond
		earliest, latest := []time.Duration{0, 0, f.admission}[i%3], []time.Duration{beside, f.admission, f.admission + 10*time.Second}[i%3]
		deleted := time.After(moment(0, beside))
		created := time.After(moment(earliest, latest))
		wg.Go(func() {
			<-deleted
			if err := f.owner.Delete(t.Context(), all[i].image); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			<-created
			all[i].vm = machineOf(all[i].image.Name, all[i].image.Name)
			at := time.Now()
			all[i].err = f.Client().Create(t.Context(), all[i].vm)
			all[i].took = time.Since(at)
		})
		<-time.After(10 * time.Millisecond)
	}
	wg.Wait()
	kept := f.settled(t, all)
	counts := map[string]int{}
	for i := range all {
		try := &all[i]
		var gone uint64
		if !kept[try.image.Name] {
			f.within(t, await.Patience, "the removal of "+try.image.Name, func() error { // the watch tells it later than a list
				if gone = removed(try.image.Name); gone == 0 {
					return errors.New("the watch has not noticed it")
				}
				return nil
			})
		}
		switch {
		case try.err != nil && !strings.Contains(try.err.Error(), "virtual-image-deleted"):
			t.Errorf("%s: %v", try.image.Name, try.err)
		case try.err != nil:
			counts["denied"]++
		case kept[try.image.Name]:
			counts["kept the image"]++
		case gone > 0 && gone < version(t, try.vm.ResourceVersion):
			counts["after the image"]++
		case try.took > f.admission-time.Second: // longer than the deletion waits
			counts["too slow"]++
		default:
			t.Errorf("%s was created at version %s after %s, and its image was removed at version %d", try.vm.Name, try.vm.ResourceVersion, try.took, gone)
		}
	}
	t.Logf("%d tries in %s: %v", tries, time.Since(began).Round(time.Second), counts)
	if tries >= 100 && (counts["denied"] == 0 || counts["kept the image"] == 0 || counts["after the image"] == 0) {
		t.Error("a part of the deletion was not tried")
	}
	for i := range all {
		must(t, client.IgnoreNotFound(f.Client().Delete(t.Context(), all[i].vm)))
	}
	f.within(t, patience(tries), "the deletion of all images", func() error {
		if left := f.races(t); len(left) > 0 {
			return fmt.Errorf("%d images", len(left))
		}
		return nil
	})
}

// moment is a time between two others.
func moment(earliest, latest time.Duration) time.Duration {
	return earliest + time.Duration(rand.Int64N(int64(latest-earliest))) //nolint:gosec // any moment
}

// patience is how long a test waits for a number of images.
func patience(images int) time.Duration { return await.Patience + time.Duration(images)*time.Second }

// within repeats until there is no error, for so long.
func (f *fixture) within(t *testing.T, patience time.Duration, what string, do func() error) {
	t.Helper()
	err := do()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = do() {
		<-time.After(200 * time.Millisecond)
	}
	if err != nil {
		logged, _ := os.ReadFile(f.process.Log())
		t.Fatalf("%s: %v\n%s", what, err, last(string(logged), 3000))
	}
}

// races are the images of the race.
func (f *fixture) races(t *testing.T) (left []v1alpha1.VirtualImage) {
	t.Helper()
	list := &v1alpha1.VirtualImageList{}
	must(t, f.Client().List(t.Context(), list, client.InNamespace(namespace)))
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "race-") {
			left = append(left, list.Items[i])
		}
	}
	return left
}

func (f *fixture) ready(t *testing.T, prefix string, want int) error {
	t.Helper()
	list, ready := &v1alpha1.VirtualImageList{}, 0
	must(t, f.Client().List(t.Context(), list))
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) && list.Items[i].Status.Ready {
			ready++
		}
	}
	if ready < want {
		return fmt.Errorf("%d of %d are ready", ready, want)
	}
	return nil
}

// settled waits until each image is gone, or waits for its virtual machine, and returns those.
func (f *fixture) settled(t *testing.T, all []try) map[string]bool {
	t.Helper()
	created := map[string]bool{}
	for i := range all {
		created[all[i].image.Name] = all[i].err == nil
	}
	var kept map[string]bool
	f.within(t, patience(len(all)), "the end of the deletions", func() error {
		kept = map[string]bool{}
		for _, image := range f.races(t) {
			c := meta.FindStatusCondition(image.Status.Conditions, v1alpha1.ConditionDeleting)
			if c == nil || c.Reason != "InUse" || !image.Status.Ready || !created[image.Name] {
				return fmt.Errorf("%s: %+v, its virtual machine was created: %t", image.Name, c, created[image.Name])
			}
			kept[image.Name] = true
		}
		return nil
	})
	return kept
}

// removals watches images, and returns a function with the version at which one was removed; 0 if it was not.
func (f *fixture) removals(t *testing.T) func(name string) uint64 {
	t.Helper()
	c, err := client.NewWithWatch(f.Config(), client.Options{Scheme: f.Client().Scheme()})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	w, err := c.Watch(ctx, &v1alpha1.VirtualImageList{}, client.InNamespace(namespace))
	must(t, err)
	var mu sync.Mutex
	removed := map[string]uint64{}
	go func() {
		for event := range w.ResultChan() {
			if image, ok := event.Object.(*v1alpha1.VirtualImage); ok && event.Type == "DELETED" {
				number, _ := strconv.ParseUint(image.ResourceVersion, 10, 64)
				mu.Lock()
				removed[image.Name] = number
				mu.Unlock()
			}
		}
	}()
	return func(name string) uint64 {
		mu.Lock()
		defer mu.Unlock()
		return removed[name]
	}
}

func version(t *testing.T, text string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	return number
}
