package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/virtward/virtward/cli"
	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/isolated"
)

// manyDocuments returns a number of VMIs, each with a disk of a claim and with a finding.
func manyDocuments(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, `apiVersion: kubevirt.io/v1
kind: VirtualMachineInstance
metadata: {name: vmi-%[1]d, namespace: ns-%[2]d}
spec:
  architecture: arm64
  domain: {memory: {guest: 1Gi}, devices: {disks: [{name: a, disk: {bus: sata}}]}}
  volumes: [{name: a, persistentVolumeClaim: {claimName: c-%[1]d}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c-%[1]d, namespace: ns-%[2]d}
---
`, i, i%50)
	}
	return text.String()
}

// Twice the documents are twice the work, in all outputs. Work is counted in allocations, because the time depends on
// other processes.
func TestWorkIsLinear(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	dir := t.TempDir()
	file := func(count int) string {
		name := filepath.Join(dir, fmt.Sprintf("%d.yaml", count))
		if err := os.WriteFile(name, []byte(manyDocuments(count)), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	work := func(args ...string) float64 {
		before := isolated.Allocations()
		cli.Run(t.Context(), "development", append([]string{"kubectl-virtward"}, args...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard})
		return float64(isolated.Allocations() - before)
	}
	small, large := file(150), file(300)
	for _, args := range []string{"explain -o yaml -f", "explain -o json -f", "explain -o table -f", "explain -o sarif -f", "explain -o junit -f", "audit -o table -f", "audit -o sarif -f"} {
		words := strings.Fields(args)
		work(append(words, small)...) // warm up caches
		once, twice := work(append(words, small)...), work(append(words, large)...)
		if ratio := twice / once; ratio > 2.2 {
			t.Errorf("%s: twice the documents are %.2f times the work", args, ratio)
		}
	}
}

// counting counts the reads, and the objects that they return.
type counting struct {
	references.Objects
	reads, objects atomic.Int64
}

func (c *counting) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.reads.Add(1)
	c.objects.Add(1)
	return c.Objects.Get(ctx, kind, namespace, name)
}

func (c *counting) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	list, err := c.Objects.List(ctx, kind, namespace)
	c.reads.Add(1)
	c.objects.Add(int64(len(list)))
	return list, err
}

// The number of reads does not depend on the number of other objects.
func TestNoVirtualMachineLooksAtAllObjects(t *testing.T) {
	const count = 200
	all, err := manifests.Read("many.yaml", strings.NewReader(manyDocuments(count)))
	if err != nil {
		t.Fatal(err)
	}
	files := offline.Sort(&manifests.Content{Documents: all})
	e, err := offline.New(t.Context(), files, nil, platform.Defaults(platform.Settings{}), "default")
	if err != nil {
		t.Fatal(err)
	}
	objects := &counting{Objects: e.Evaluator.References}
	e.Evaluator.References = objects
	for _, d := range files.Subjects {
		if _, err := e.Evaluate(t.Context(), d, evaluator.Written); err != nil {
			t.Fatal(err)
		}
	}
	if reads, read := objects.reads.Load(), objects.objects.Load(); reads == 0 || reads > 4*count || read > 4*count {
		t.Errorf("%d reads for %d virtual machines return %d objects", reads, count, read)
	}
}

// An interrupt ends the work at once.
func TestAnInterruptEndsTheWork(t *testing.T) {
	name := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(name, []byte(manyDocuments(50)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"explain -f", "audit -f"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut strings.Builder
		code := cli.Run(ctx, "development", append(append([]string{"kubectl-virtward"}, strings.Fields(args)...), name), genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		if code != clitest.ExitFailed || out.Len() > 0 || errOut.String() != "error: interrupted\n" {
			t.Errorf("%s: code %d, %q, %q", args, code, out.String(), errOut.String())
		}
	}
}
