package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/platform"
)

// gather reads the files, and the cluster if it is asked.
func (o *explainOptions) gather(ctx context.Context, args []string) (*inputs, error) {
	stdin := onlyOnce(o.streams.In)
	files, err := o.readFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	in := &inputs{subjects: files.subjects, notes: files.notes, warnings: files.warnings}
	for _, pool := range files.pools {
		in.notes = append(in.notes, fmt.Sprintf("%s: passed over VirtualMachinePool %s: kubectl virtward audit judges pools", pool.Location(), pool.Object.GetName()))
	}
	var cluster *cluster
	if o.fromCluster || len(args) > 0 {
		if cluster, err = connect(o.config); err != nil {
			return nil, err
		}
		named, err := cluster.read(ctx, args)
		if err != nil {
			return nil, err
		}
		in.subjects = append(in.subjects, named...)
	}
	if len(in.subjects) == 0 {
		return nil, fmt.Errorf("%s: no VirtualMachine or VirtualMachineInstance to explain", o.named())
	}
	facts, err := o.facts(ctx, files.kubevirts, cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = o.assume(facts); err != nil {
		return nil, err
	}
	if in.world, err = newWorld(ctx, files, cluster, facts, o.namespace(cluster)); err != nil {
		return nil, err
	}
	facts.Notes = append(facts.Notes, in.world.notes...)
	in.notes = append(in.notes, in.world.policies.unread()...)
	return in, nil
}

// named are the files, for messages.
func (o *sources) named() string {
	names := make([]string, len(o.filenames))
	for i, file := range o.filenames {
		names[i] = documents.Name(file)
	}
	return strings.Join(names, ", ")
}

// readFiles reads everything but --kubevirt.
func (o *sources) readFiles(ctx context.Context, stdin io.Reader) (*sorted, error) {
	all, err := documents.ReadAll(ctx, o.filenames, o.recursive, stdin)
	if err != nil {
		return nil, err
	}
	files, err := sort(all)
	if err != nil {
		return nil, err
	}
	referenced, err := documents.ReadAll(ctx, slices.Concat(o.instancetypes, o.preferences), o.recursive, stdin)
	if err != nil {
		return nil, err
	}
	for _, d := range referenced {
		if !isReference(d.Object.GroupVersionKind()) {
			return nil, fmt.Errorf("%s: %s %s is not an object that virtual machines refer to", d.Location(), d.Object.GetKind(), d.Object.GetName())
		}
	}
	extra, err := sort(referenced)
	if err != nil {
		return nil, err
	}
	files.references = append(files.references, extra.references...)
	files.warnings = append(files.warnings, extra.warnings...)
	return files, nil
}

// facts come from --kubevirt, a KubeVirt object among the files, or the cluster, in this order; if there is
// none of these they are KubeVirt's own defaults.
func (o *sources) facts(ctx context.Context, found []documents.Document, cluster *cluster, stdin io.Reader) (*platform.Facts, error) {
	if o.kubevirt != "" {
		given, err := documents.ReadAll(ctx, []string{o.kubevirt}, false, stdin)
		if err != nil {
			return nil, err
		}
		if found, err = kubevirtsIn(given); err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: holds no KubeVirt object", o.kubevirt)
		}
	}
	if err := onlyOne(found); err != nil {
		return nil, err
	}
	switch {
	case len(found) == 1:
		return factsFrom(found[0], o.settings)
	case cluster != nil:
		return platform.ReadFacts(ctx, cluster.client, o.settings)
	}
	return platform.Defaults(o.settings), nil
}

// onlyOne refuses a second KubeVirt object.
func onlyOne(found []documents.Document) error {
	if len(found) > 1 {
		return fmt.Errorf("%s: a second KubeVirt object, after that of %s: a cluster has one", found[1].Location(), found[0].Location())
	}
	return nil
}

// namespace is where objects are that name none.
func (o *sources) namespace(cluster *cluster) string {
	switch {
	case cluster != nil:
		return cluster.namespace
	case o.config.Namespace != nil && *o.config.Namespace != "":
		return *o.config.Namespace
	}
	return defaultNamespace
}

// kubevirtsIn takes KubeVirt objects and bare configurations, and refuses anything else.
func kubevirtsIn(given []documents.Document) ([]documents.Document, error) {
	for _, d := range given {
		kind := asKubeVirt(d.Object).GroupVersionKind()
		if kind.Group != "kubevirt.io" || kind.Kind != kindKubeVirt {
			return nil, fmt.Errorf("%s: %s %s is not a KubeVirt object of kubevirt.io", d.Location(), kind.Kind, d.Object.GetName())
		}
	}
	return given, nil
}

// both looks in the files first, as if they had been applied to the cluster already.
type both struct {
	files   *lookup.Memory
	cluster lookup.Objects
}

// Get implements lookup.Objects.
func (b both) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := b.files.Get(ctx, kind, namespace, name)
	if err == nil {
		return obj, nil
	}
	return b.cluster.Get(ctx, kind, namespace, name)
}

// List implements lookup.Objects.
func (b both) List(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*unstructured.Unstructured, error) {
	all, err := b.files.List(ctx, kind, namespace)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, obj := range all {
		names[obj.GetName()] = true
	}
	listed, err := b.cluster.List(ctx, kind, namespace)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, err
	}
	for _, obj := range listed {
		if !names[obj.GetName()] {
			all = append(all, obj)
		}
	}
	return all, nil
}

// once is standard input, which can be named only once.
type once struct {
	reader io.Reader
	ended  bool
}

func onlyOnce(r io.Reader) io.Reader { return &once{reader: r} }

// Read implements io.Reader.
func (o *once) Read(p []byte) (int, error) {
	if o.ended {
		return 0, errors.New("is named more than once on the command line")
	}
	n, err := o.reader.Read(p)
	o.ended = err != nil
	return n, err
}

// oneLine keeps a text that someone else wrote on one line.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)), " ")
}
