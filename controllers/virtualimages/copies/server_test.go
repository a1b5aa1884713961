package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
)

// TestReadersOfANamespace: the readers of one namespace leave places for others, however many images it has.
func TestReadersOfANamespace(t *testing.T) {
	s := &Server{}
	leave := map[string][]func(){}
	enters := func(namespace, image string) bool {
		done, err := s.enter(t.Context(), namespace, image)
		if err == nil {
			leave[image] = append(leave[image], done)
		}
		return err == nil
	}
	for _, image := range []string{"a", "b"} {
		for range maxOfImage {
			if !enters("team", image) {
				t.Fatalf("a reader of %s does not enter", image)
			}
		}
		if enters("team", image) {
			t.Errorf("more than %d readers of one image", maxOfImage)
		}
	}
	if enters("team", "c") {
		t.Errorf("more than %d readers of one namespace", MaxReaders/2)
	}
	if !enters("other", "d") {
		t.Error("another namespace has no place")
	}
	leave["a"][0]()
	leave["a"] = leave["a"][1:]
	if !enters("team", "c") {
		t.Error("a place that is free is not given")
	}
	for _, image := range leave {
		for _, done := range image {
			done()
		}
	}
	if _, err := s.readers.Acquire(t.Context(), "team", MaxReaders/2); err != nil || len(s.ofImage) != 0 {
		t.Errorf("readers are left: %v, %v", err, s.ofImage)
	}
}

// TestReadersOfManyNamespaces: namespaces that take all they can leave places for others.
func TestReadersOfManyNamespaces(t *testing.T) {
	s := &Server{}
	for i, want := range []int{32, 16, 8, 4, 2, 1} {
		namespace, got := fmt.Sprint("team-", i), 0
		for {
			if _, err := s.enter(t.Context(), namespace, fmt.Sprint(namespace, got/maxOfImage)); err != nil {
				break
			}
			got++
		}
		if got != want {
			t.Errorf("%s has %d readers, want %d", namespace, got, want)
		}
	}
}

// endless is a store with an image of endless zeros, which takes a while to send each part.
type endless struct {
	Store

	pause time.Duration
}

func (e endless) Open(context.Context, *backend.Image, string) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(e)}, nil
}

func (e endless) Read(into []byte) (int, error) {
	time.Sleep(e.pause)
	return len(into), nil
}

// slow is a reader that takes a while for each part.
type slow struct {
	http.ResponseWriter

	pause time.Duration
}

func (s slow) Write(part []byte) (int, error) {
	time.Sleep(s.pause)
	return len(part), nil
}

// TestSlowReaders: a reader that takes a little now and then loses its place. One that waits for the store does not.
func TestSlowReaders(t *testing.T) {
	for name, c := range map[string]struct {
		reader, store time.Duration
		ends          bool
	}{
		"a reader of 64 KiB in 50 seconds": {50 * time.Second, 0, true},
		"a reader of 64 KiB in 5 seconds":  {5 * time.Second, 0, true},
		"a reader of 64 KiB in 3 seconds":  {3 * time.Second, 0, false},
		"a store of 64 KiB in 50 seconds":  {0, 50 * time.Second, false},
		"both slow":                        {10 * time.Second, 30 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const patience = 10 * time.Minute
				began := time.Now()
				defer func() {
					_ = recover()
					if ended := time.Since(began) < patience; ended != c.ends {
						t.Errorf("the reader ends after %v", time.Since(began))
					}
				}()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
				stream(slow{httptest.NewRecorder(), c.reader}, r, endless{pause: c.store}, &backend.Image{}, "", func() bool { return time.Since(began) >= patience })
			})
		})
	}
}

// TestFindEnds: an API server that does not answer does not keep the place of a reader.
func TestFindEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Now: time.Now, Find: func(ctx context.Context, _, _, _ string) (*backend.Image, Store, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}}
		began := time.Now()
		if _, _, err := s.find(t.Context(), "team", "image", "id"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != findTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
