package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/platform"
)

// gather reads the files, and the cluster if it is asked.
func (o *explainOptions) gather(ctx context.Context, args []string) (*inputs, error) {
	stdin := onlyOnce(o.streams.In)
	files, err := o.readFiles(ctx, stdin)
	if err != nil {
		return nil, err
	}
	in := &inputs{subjects: files.Subjects, notes: files.Notes, warnings: files.Warnings}
	var cluster *offline.Cluster
	if o.fromCluster || len(args) > 0 {
		if cluster, err = connect(o.config); err != nil {
			return nil, err
		}
		named, err := readTargets(ctx, cluster, args)
		if err != nil {
			return nil, err
		}
		in.subjects = append(in.subjects, named...)
	}
	if len(in.subjects) == 0 && len(files.Beside) == 0 {
		return nil, fmt.Errorf("%s: no virtual machine to explain, nor anything that makes one or that one refers to", o.named())
	}
	facts, err := o.facts(ctx, files.KubeVirts, cluster, stdin)
	if err != nil {
		return nil, err
	}
	if facts, err = o.assume(facts); err != nil {
		return nil, err
	}
	if in.world, err = offline.New(ctx, files, cluster, facts, o.namespace(cluster)); err != nil {
		return nil, err
	}
	beside := files.Beside
	if len(in.subjects) > 0 { // those that are valid are part of what is explained
		if beside, err = in.world.Wrong(ctx, beside); err != nil {
			return nil, err
		}
	}
	in.subjects = append(in.subjects, beside...)
	facts.Notes = append(facts.Notes, in.world.Notes...)
	in.notes = append(in.notes, in.world.UnusedConfigMaps()...)
	return in, nil
}

// named are the files, for messages.
func (o *sources) named() string {
	names := make([]string, len(o.filenames))
	for i, file := range o.filenames {
		names[i] = manifests.Name(file)
	}
	return strings.Join(names, ", ")
}

// readFiles reads everything but --kubevirt.
func (o *sources) readFiles(ctx context.Context, stdin io.Reader) (*offline.Files, error) {
	all, err := manifests.ReadAll(ctx, o.filenames, o.recursive, stdin)
	if err != nil {
		return nil, err
	}
	files, err := offline.Sort(all)
	if err != nil {
		return nil, err
	}
	referenced, err := manifests.ReadAll(ctx, slices.Concat(o.instancetypes, o.preferences), o.recursive, stdin)
	if err != nil {
		return nil, err
	}
	for _, d := range referenced {
		if !offline.IsReference(d.Object.GroupVersionKind()) {
			return nil, fmt.Errorf("%s: %s %s is not an object that virtual machines refer to", d.Location(), d.Object.GetKind(), d.Object.GetName())
		}
	}
	extra, err := offline.Sort(referenced)
	if err != nil {
		return nil, err
	}
	files.References, files.Beside = append(files.References, extra.References...), append(files.Beside, extra.Beside...)
	files.Warnings = append(files.Warnings, extra.Warnings...)
	return files, nil
}

// facts come from --kubevirt, a KubeVirt object among the files, or the cluster, in this order; if there is
// none of these they are KubeVirt's own defaults.
func (o *sources) facts(ctx context.Context, found []manifests.Document, cluster *offline.Cluster, stdin io.Reader) (*platform.Facts, error) {
	if o.kubevirt != "" {
		given, err := manifests.ReadAll(ctx, []string{o.kubevirt}, false, stdin)
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
		return offline.FactsFrom(found[0], o.settings)
	case cluster != nil:
		return platform.ReadFacts(ctx, cluster.Client, o.settings)
	}
	return platform.Defaults(o.settings), nil
}

// onlyOne rejects a second KubeVirt object.
func onlyOne(found []manifests.Document) error {
	if len(found) > 1 {
		return fmt.Errorf("%s: a second KubeVirt object, after that of %s: a cluster has one", found[1].Location(), found[0].Location())
	}
	return nil
}

// namespace is where objects are that name none.
func (o *sources) namespace(cluster *offline.Cluster) string {
	switch {
	case cluster != nil:
		return cluster.Namespace
	case o.config.Namespace != nil && *o.config.Namespace != "":
		return *o.config.Namespace
	}
	return defaultNamespace
}

// kubevirtsIn takes KubeVirt objects and bare configurations, and rejects anything else.
func kubevirtsIn(given []manifests.Document) ([]manifests.Document, error) {
	for _, d := range given {
		kind := offline.AsKubeVirt(d.Object).GroupVersionKind()
		if kind.Group != "kubevirt.io" || kind.Kind != kindKubeVirt {
			return nil, fmt.Errorf("%s: %s %s is not a KubeVirt object of kubevirt.io", d.Location(), kind.Kind, d.Object.GetName())
		}
	}
	return given, nil
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
