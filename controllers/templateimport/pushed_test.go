package templateimport_test

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/templateimport"
	"github.com/virtward/virtward/ovf/imports"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
	"github.com/virtward/virtward/sources/compressions/xz/xztest"
)

// newPushed is a cluster with an import of an OVA that is a layer of a registry without ranges, which may be copied.
func newPushed(t *testing.T, registry *artifactstest.Registry, reference string, change ...func(*v1beta1.VirtualMachineTemplateImportSpec)) *cluster {
	t.Helper()
	registry.NoRanges.Store(true)
	c := newShopAt(t, time.Now(), reference, registry, append([]func(*v1beta1.VirtualMachineTemplateImportSpec){func(s *v1beta1.VirtualMachineTemplateImportSpec) {
		s.Staging = &v1beta1.ImportStaging{Size: resource.MustParse("2Mi")}
	}}, change...)...)
	c.nodes = &nodes{folder: t.TempDir(), stops: map[types.UID]func(){}, seen: map[types.UID]int{}}
	return c
}

// paxed is an archive whose files have times with a fraction, as Python writes them: headers of the format PAX are before theirs.
func paxed(t testing.TB, archive []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(archive)), tar.NewWriter(&out)
	for h, err := r.Next(); !errors.Is(err, io.EOF); h, err = r.Next() {
		must(t, err)
		h.Format, h.ModTime = tar.FormatPAX, time.Unix(1, 500_000_000)
		must(t, w.WriteHeader(h))
		_, err = io.Copy(w, r) //nolint:gosec // the archive is that of the test
		must(t, err)
	}
	must(t, w.Close())
	return out.Bytes()
}

// TestPushedCopy holds that an OVA of a registry without ranges, and one that is compressed, is copied, that the copy is compared with the layer,
// and that a tag which moves after the first request changes nothing.
func TestPushedCopy(t *testing.T) {
	file := ova(t, descriptor, true, false)
	for name, test := range map[string]struct {
		layer       []byte
		ranges      bool
		compression string
		// heads are the requests for the layer until its copy begins: one for its beginning, and another one for a range.
		heads int
	}{
		"no ranges":        {layer: file, heads: 2},
		"headers of PAX":   {layer: paxed(t, file), heads: 2},
		"gzip":             {layer: gzipped(t, file), compression: "gzip", heads: 1},
		"xz with ranges":   {layer: xztest.Stored(file, 28), ranges: true, compression: "xz", heads: 1},
		"gzip with ranges": {layer: gzipped(t, file), ranges: true, compression: "gzip", heads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			reference, manifest := registry.PushOVA(t, "appliances/quay:v1", "Quay.ova", test.layer)
			c := newPushed(t, registry, reference)
			registry.NoRanges.Store(!test.ranges)
			c.phase = cdiv1beta1.ImportInProgress
			all := unbounded()
			registry.Requests()
			c.drive(t, all, func() bool { return c.stored(t).Status.Staging != nil })
			heads := 0
			for _, request := range registry.Requests() {
				if strings.HasPrefix(request, "GET ") && strings.Contains(request, "/blobs/") {
					heads++
				}
			}
			if heads != test.heads {
				t.Errorf("%d requests for the beginning of the layer", heads)
			}
			registry.PushOVA(t, "appliances/quay:v1", "Quay.ova", ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), true, false)) // the tag moves
			c.drive(t, all, func() bool { return c.stored(t).Status.Progress == "25%" })
			written, err := os.ReadFile(filepath.Join(c.nodes.folder, "disk.img"))
			must(t, err)
			content := file
			if test.compression == "" {
				content = test.layer
			}
			if !bytes.Equal(written, content) {
				t.Error("the copy has other bytes")
			}
			if diff := cmp.Diff([]string{"s", "r", ""}, c.nodes.marks()); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			c.servesCopy(t)
			status := c.stored(t).Status
			digest := manifest.Digest.String()
			if s := status.Source; !s.Verified || s.Size != int64(len(content)) || s.Digest != digest || s.File != "Quay.ova" || status.Staging.Compression != test.compression || status.Staging.Digest != digest {
				t.Errorf("got the status %+v, %+v", s, status.Staging)
			}
			c.phase = ""
			c.imported(t)
			c.drive(t, all)
			if diff := cmp.Diff(pushed, c.left(t)); diff != "" || c.completed(t).Status != metav1.ConditionTrue {
				t.Errorf("%+v; afterwards (-want +got):\n%s", c.completed(t), diff)
			}
			c.knowsTemplate(t)
		})
	}
}

// TestCopyRetried holds that an error of the pod of a copy is temporary, unless the file is gone: another pod can follow it. It is that of the
// pod also if the source is a registry, whose errors of the same kind are final.
func TestCopyRetried(t *testing.T) {
	file := ova(t, descriptor, true, false)
	registry := artifactstest.NewTLS(t)
	reference, manifest := registry.PushOVA(t, "appliances/quay:v1", "Quay.ova", file)
	artifact := newPushed(t, registry, reference)
	artifact.request.Status.Staging = &v1beta1.ImportStaged{Digest: manifest.Digest.String(), Complete: true}
	plain := newStaged(t, file)
	plain.request.Status.Staging = &v1beta1.ImportStaged{Complete: true}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
		final  bool
	}{
		"all of it": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(file))
		}},
		"no ranges": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file) }, want: "reading from the pod of the copy: the server does not send ranges of the file"},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://10.0.0.1/archive", http.StatusFound)
		}, want: "reading from the pod of the copy: "},
		"an error": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, want: "reading from the pod of the copy: the server answers 500"},
		"no file":  {answer: http.NotFound, want: "the copy of the file is not in its volume any more", final: true},
	} {
		for source, c := range map[string]*cluster{"registry": artifact, "web server": plain} {
			t.Run(name+", "+source, func(t *testing.T) {
				server := httptest.NewTLSServer(test.answer)
				t.Cleanup(server.Close)
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				at := &templateimport.Place{
					URL: server.URL + transfer.PathArchive, Address: server.Listener.Addr().String(), Token: "token",
					Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				}
				live := &templateimport.LiveSource{Reader: c.server, Permitted: &sources.Sources{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
				read, err := live.Read(t.Context(), c.request, at)
				var final *imports.Fault
				if test.want != "" {
					if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Count(err.Error(), "reading from") > 1 || errors.As(err, &final) != test.final {
						t.Errorf("got %T %v", err, err)
					}
					return
				}
				must(t, err)
				want := imports.Origin{Size: int64(len(file)), Validator: time.Unix(1, 0).UTC().Format(http.TimeFormat)}
				if source == "registry" {
					want.Digest, want.File = manifest.Digest.String(), "Quay.ova"
				}
				if diff := cmp.Diff(want, read.Origin); diff != "" || read.Outcome == nil || read.Outcome.Fault != nil || len(read.Texts) != 2 {
					t.Errorf("%+v; origin (-want +got):\n%s", read, diff)
				}
			})
		}
	}
}

// TestPushedUncopied holds that an OVA of a registry with ranges is not copied, although the import permits it.
func TestPushedUncopied(t *testing.T) {
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", ova(t, descriptor, true, false))
	c := newPushed(t, registry, reference)
	registry.NoRanges.Store(false)
	c.nodes = nil
	c.drive(t, unbounded())
	if s := c.stored(t).Status; s.Staging != nil || c.completed(t).Status != metav1.ConditionTrue {
		t.Errorf("got %+v", s)
	}
}

// TestPushedCopyKills holds that an import with a copy of a layer converges after a kill at each write.
func TestPushedCopyKills(t *testing.T) {
	t.Parallel()
	registry := artifactstest.NewTLS(t)
	reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", gzipped(t, ova(t, descriptor, true, false)))
	k := &killed{begin: func(t *testing.T) *cluster { return newPushed(t, registry, reference) }, want: pushed, least: 28, once: true}
	k.converges(t, func(t *testing.T, c *cluster) {
		t.Helper()
		if s := c.stored(t).Status; !s.Source.Verified || len(s.Disks[0].Digests) != 1 {
			t.Errorf("got the status %+v", s)
		}
	})
}

// TestPushedCopyEnds holds why imports with a copy of a layer fail, and that nothing of them is left.
func TestPushedCopyEnds(t *testing.T) {
	good := ova(t, descriptor, true, false)
	copied := func(t *testing.T, c *cluster) {
		t.Helper()
		c.drive(t, unbounded(), func() bool { s := c.stored(t).Status.Staging; return s != nil && s.Complete })
	}
	for name, test := range map[string]struct {
		layer           []byte
		change          func(*v1beta1.VirtualMachineTemplateImportSpec)
		prepare         func(*testing.T, *cluster, *artifactstest.Registry)
		reason, message string
	}{
		"no ranges without permission": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Staging = nil },
			reason: "SourceWithoutRanges", message: "spec.source.oci: the registry does not send ranges of blobs: set spec.staging.size, and Virtward copies it into a volume first",
		},
		"gzip without permission": {
			layer: gzipped(t, good), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Staging = nil },
			reason: v1beta1.ReasonNotImportable, message: "spec.source.oci: NotAnArchive: the file is compressed with gzip: set spec.staging.size",
		},
		"too large": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Staging.Size = resource.MustParse("1Ki") },
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.staging.size: the file has ",
		},
		"too large, decompressed": {
			layer: gzipped(t, good), change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Staging.Size = resource.MustParse("1Ki") },
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.staging.size: the OVA is larger",
		},
		"a platform": {
			change: func(s *v1beta1.VirtualMachineTemplateImportSpec) { s.Source.OCI.Platform = "arm64" },
			reason: v1beta1.ReasonInvalidConfiguration, message: "spec.source.oci.platform: the artifact is an OVA",
		},
		"damaged": {layer: gzipped(t, good)[:300], reason: v1beta1.ReasonNotImportable, message: "spec.source.oci: the compressed file is damaged or truncated"},
		"a layer with another digest": {
			prepare: func(t *testing.T, c *cluster, r *artifactstest.Registry) {
				t.Helper()
				c.drive(t, unbounded(), func() bool { return c.stored(t).Status.Staging != nil })
				r.Answer("/blobs/sha256:"+sumOf(string(good)), func(w http.ResponseWriter, _ *http.Request) {
					other := bytes.Clone(good)
					other[len(other)-1]++
					_, _ = w.Write(other)
				})
			}, reason: v1beta1.ReasonVerificationFailed, message: "spec.source.oci: the registry sends a layer with another digest",
		},
		"a layer with another digest for the controller": {
			prepare: func(t *testing.T, c *cluster, r *artifactstest.Registry) {
				t.Helper()
				copied(t, c)
				r.Answer("/blobs/sha256:"+sumOf(string(good)), func(w http.ResponseWriter, _ *http.Request) {
					other := bytes.Clone(good)
					other[len(other)-1]++
					_, _ = w.Write(other)
				})
			}, reason: v1beta1.ReasonVerificationFailed, message: "DigestMismatch",
		},
		"a copy with another descriptor": {
			prepare: func(t *testing.T, c *cluster, _ *artifactstest.Registry) {
				t.Helper()
				copied(t, c)
				must(t, os.WriteFile(filepath.Join(c.nodes.folder, "disk.img"), ova(t, strings.Replace(descriptor, ">64<", ">128<", 1), true, false), 0o600))
			}, reason: v1beta1.ReasonSourceChanged, message: "the file in the registry, or its copy in the volume, is not the one",
		},
		"a file that is gone from the volume": {
			prepare: func(t *testing.T, c *cluster, _ *artifactstest.Registry) {
				t.Helper()
				copied(t, c)
				must(t, os.Remove(filepath.Join(c.nodes.folder, "disk.img")))
			}, reason: v1beta1.ReasonSourceChanged, message: "the copy of the file is not in its volume any more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			registry := artifactstest.NewTLS(t)
			if test.layer == nil {
				test.layer = good
			}
			reference, _ := registry.PushOVA(t, "appliances/quay:v1", "quay.ova", test.layer)
			c := newPushed(t, registry, reference, func(s *v1beta1.VirtualMachineTemplateImportSpec) {
				if test.change != nil {
					test.change(s)
				}
			})
			if test.prepare != nil {
				test.prepare(t, c, registry)
			}
			c.drive(t, unbounded())
			c.plays(t)
			if ended := c.completed(t); ended.Reason != test.reason || !strings.Contains(ended.Message, test.message) {
				t.Errorf("Completed is %+v", ended)
			}
			if diff := cmp.Diff([]string{"ConfigMap of nothing"}, c.left(t)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}
