package templateimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
	"github.com/virtward/virtward/sources/transfers"
)

// TestDictionary holds which files need the place for a large dictionary, and that none has a larger one.
func TestDictionary(t *testing.T) {
	content := make([]byte, 1024) // an empty archive
	of := &v1beta1.VirtualMachineTemplateImport{}
	of.Status.Staging = &v1beta1.ImportStaged{Compression: "xz"}
	of.Status.Source = &v1beta1.ImportedSource{Size: int64(len(content))}
	for name, test := range map[string]struct {
		code   byte
		window uint64
		want   error
	}{
		"small":                     {22, transfer.MaxWindow, nil},
		"large":                     {28, transfer.MaxWindow, errDictionary},
		"large with its place":      {28, transfer.MaxDictionary, nil},
		"larger than any":           {29, transfer.MaxWindow, errDictionary},
		"larger than any, with one": {29, transfer.MaxDictionary, changed(of)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decompressed(of, bytes.NewReader(xztest.Stored(content, test.code)), nil, test.window)
			if err = described(of, nil, err); fmt.Sprint(err) != fmt.Sprint(test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestDictionaryPlace holds that files with a small dictionary do not wait for one with a large dictionary, that namespaces take turns with the
// place, and that a slow file loses it.
func TestDictionaryPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t.Context(), Options{})
		var order []string
		start := func(namespace, name string, large bool, takes time.Duration) *v1beta1.VirtualMachineTemplateImport {
			of := &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, UID: types.UID(name)}}
			err := r.startVerification(of, func(ctx context.Context, window uint64, _ *transfers.Progress) (*verification, error) {
				if large && window == transfer.MaxWindow {
					return nil, errDictionary
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(takes):
					order = append(order, name)
					return &verification{}, nil
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return of
		}
		slow := start("a", "slow", true, 12*time.Hour)
		for i := range 3 {
			start("a", fmt.Sprint("a", i), true, 40*time.Minute)
		}
		other := start("b", "b", true, 40*time.Minute)
		start("a", "small", false, time.Minute)
		if task, isLarge, known := r.comparisonOf(other.UID); task.Running || task.Ended || !isLarge || !known {
			t.Errorf("two files with a large dictionary are compared: %+v", task)
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"small", "a0", "b", "a1", "a2"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if task, isLarge, _ := r.comparisonOf(slow.UID); !errors.Is(task.Err, errSlow) || !isLarge {
			t.Errorf("the slow one has %+v", task)
		}
		if !r.forgetVerification(slow.UID) {
			t.Error("it is not forgotten")
		}
		if _, _, known := r.comparisonOf(slow.UID); known {
			t.Error("it is still known")
		}
	})
}

// TestDictionaryWaits holds what an import says while it waits for the place.
func TestDictionaryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(t.Context(), Options{})
		for _, uid := range []types.UID{"first", "second"} {
			o := &observed{request: &v1beta1.VirtualMachineTemplateImport{ObjectMeta: metav1.ObjectMeta{Namespace: "a", UID: uid}}}
			err := r.startVerification(o.request, func(ctx context.Context, window uint64, _ *transfers.Progress) (*verification, error) {
				if window == transfer.MaxWindow {
					return nil, errDictionary
				}
				time.Sleep(time.Minute)
				return &verification{}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			d := &decision{}
			r.verifies(o, d)
			if want := map[types.UID]string{"second": errDictionary.Message}[uid]; d.progress.Message != want || d.after != verifyingInterval {
				t.Errorf("%s: got %+v", uid, d)
			}
		}
		time.Sleep(time.Hour)
	})
}

// TestLayer holds that the manifest of an OVA is not kept while its layer is decompressed: the bound of the memory has one of both.
func TestLayer(t *testing.T) {
	of := oci.Descriptor{Digest: digest.FromString("a"), Size: 7, MediaType: oci.MediaTypeOVA, Annotations: map[string]string{"a": "b"}}
	r := &resolved{manifest: &oci.Manifest{OVA: &oci.File{Descriptor: of}}, platforms: []string{"linux/amd64"}}
	if diff := cmp.Diff(&oci.Descriptor{Digest: of.Digest, Size: 7}, r.layer()); diff != "" || r.manifest != nil || r.platforms != nil {
		t.Errorf("it keeps %+v (-want +got):\n%s", r, diff)
	}
}
