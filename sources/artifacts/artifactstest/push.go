package artifactstest

import (
	"bytes"
	"io"
	"testing"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts"
)

// Disk is a raw disk.
type Disk struct {
	Name string
	Raw  []byte
}

// Variant is an object for an architecture, with its disks.
type Variant struct {
	// Object is a VirtualMachine or a VirtualMachineTemplate as JSON.
	Object string
	Disks  []Disk
	// Change changes the descriptors of the layers; nil to keep them.
	Change func([]oci.Descriptor)
}

// Push writes variants with one index, as KubeVirt's exporter does, and returns the reference and the index. The name is REPOSITORY:TAG.
func (r *Registry) Push(t testing.TB, name string, variants ...Variant) (reference string, index oci.Blob) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, reference := r.writer(t, name)
	var all []*oci.Packed
	for _, v := range variants {
		object, err := oci.NewObject([]byte(v.Object))
		must(err)
		var layers []oci.Descriptor
		for _, disk := range v.Disks {
			layer, err := oci.Measure(disk.Name, bytes.NewReader(disk.Raw))
			must(err)
			must(w.Upload(t.Context(), &layer, func() (io.ReadCloser, error) { return compressed(disk.Raw) }, nil))
			layers = append(layers, layer)
		}
		if v.Change != nil {
			v.Change(layers)
		}
		packed, err := oci.Pack(object, layers)
		must(err)
		must(w.Write(t.Context(), packed.Config))
		must(w.Put(t.Context(), packed.Manifest))
		all = append(all, packed)
	}
	index, err := oci.NewIndex(all, "2026-11-01T12:00:00Z")
	must(err)
	must(w.Tag(t.Context(), index))
	return reference, index
}

// PushOVA writes an OVA file as a layer, and returns the reference and the manifest.
func (r *Registry) PushOVA(t testing.TB, name, file string, content []byte) (reference string, manifest oci.Blob) {
	t.Helper()
	w, reference := r.writer(t, name)
	layer, err := oci.MeasureAppliance(file, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := oci.PackAppliance(layer)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{
		func() error {
			return w.Upload(t.Context(), &layer, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, nil)
		},
		func() error { return w.Write(t.Context(), packed.Config) },
		func() error { return w.Tag(t.Context(), packed.Manifest) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	return reference, packed.Manifest
}

func (r *Registry) writer(t testing.TB, name string) (w *artifacts.Writer, reference string) {
	t.Helper()
	reference = artifacts.Scheme + r.Host + "/" + name
	parsed, err := artifacts.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	options := artifacts.Options{Transport: r.client.Transport}
	if r.User != "" {
		options.Keychain = artifacts.Credentials(r.User, r.Password)
	}
	if w, err = artifacts.NewWriter(t.Context(), parsed, options); err != nil {
		t.Fatal(err)
	}
	return w, reference
}

func compressed(raw []byte) (io.ReadCloser, error) {
	var layer bytes.Buffer
	c, err := oci.NewCompressor(&layer)
	if err != nil {
		return nil, err //nolint:wrapcheck // of a test
	}
	if _, err := c.Write(raw); err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return io.NopCloser(&layer), c.Close() //nolint:wrapcheck // as above
}
