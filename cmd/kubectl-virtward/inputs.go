package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/cmd/kubectl-virtward/explanation"
	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/parallel"
)

// defaultNamespace is where objects are that name no namespace, when no cluster is asked.
const defaultNamespace = "default"

// sourceCluster is where objects were read that no file holds.
const sourceCluster = "cluster"

// The kinds of kubevirt.io that explain knows by name.
const (
	kindVM       = "VirtualMachine"
	kindVMI      = "VirtualMachineInstance"
	kindKubeVirt = "KubeVirt"

	kindPool = "VirtualMachinePool"
)

// inputs is everything that explain works on, read and sorted.
type inputs struct {
	// subjects are the virtual machines.
	subjects []documents.Document
	world    *world
	// notes say what was passed over, warnings what of the objects referred to is unknown.
	notes, warnings []string
}

// sorted are the documents of files by what they are good for.
type sorted struct {
	subjects   []documents.Document
	pools      []documents.Document
	kubevirts  []documents.Document
	ours       []documents.Document
	configMaps []documents.Document
	namespaces []*unstructured.Unstructured
	references []*unstructured.Unstructured
	// without are the names of policies that are left out, wherever they come from.
	without  []string
	notes    []string
	warnings []string
}

// sort puts each document where it belongs.
func sort(all []documents.Document) (*sorted, error) {
	s := &sorted{}
	for _, d := range all {
		if d.Object.GetKind() == "" || d.Object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("%s: apiVersion and kind are needed", d.Location())
		}
		kind := d.Object.GroupVersionKind()
		switch {
		case isVirtualMachine(kind):
			if err := checkVersion(kind); err != nil {
				return nil, fmt.Errorf("%s: %w", d.Location(), err)
			}
			s.subjects = append(s.subjects, d)
		case isPool(kind):
			s.pools = append(s.pools, d)
		case kind.Group == v1.GroupVersion.Group && kind.Kind == kindKubeVirt:
			s.kubevirts = append(s.kubevirts, d)
		case isOurs(kind):
			s.ours = append(s.ours, d)
		case isConfigMap(kind):
			s.configMaps = append(s.configMaps, d)
		case kind.Group == "" && kind.Kind == kindNamespace:
			s.namespaces = append(s.namespaces, d.Object)
		case isReference(kind):
			if d.Object.GetName() == "" {
				return nil, fmt.Errorf("%s: %s needs a metadata.name", d.Location(), kind.Kind)
			}
			warnings, err := checkReference(kind, d)
			if err != nil {
				return nil, err
			}
			s.references, s.warnings = append(s.references, d.Object), append(s.warnings, warnings...)
		default:
			s.notes = append(s.notes, passedOver(d))
		}
	}
	return s, nil
}

// passedOver is the note that a document is not used.
func passedOver(d documents.Document) string {
	return fmt.Sprintf("%s: passed over %s %s, which decides nothing about virtual machines", d.Location(), d.Object.GetKind(), d.Object.GetName())
}

func isVirtualMachine(kind schema.GroupVersionKind) bool {
	return kind.Group == v1.GroupVersion.Group && (kind.Kind == kindVM || kind.Kind == kindVMI)
}

// isPool tells whether an object makes virtual machines of a template.
func isPool(kind schema.GroupVersionKind) bool {
	return kind.Group == poolv1beta1.SchemeGroupVersion.Group && kind.Kind == kindPool
}

// isReference tells whether virtual machines refer to objects of this kind, in whatever version.
func isReference(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(lookup.Kinds(), func(k schema.GroupVersionKind) bool { return k.GroupKind() == kind.GroupKind() })
}

// checkReference warns of unknown fields in an object that virtual machines refer to, and refuses one that
// cannot be read.
func checkReference(kind schema.GroupVersionKind, d documents.Document) ([]string, error) {
	typed := lookup.TypeOf(kind.GroupKind())
	if typed == nil {
		return nil, nil
	}
	warnings, err := documents.Decode(d.Object.Object, typed)
	if err != nil {
		return nil, fmt.Errorf("%s: %s %s: %w", d.Location(), kind.Kind, d.Object.GetName(), err)
	}
	for i := range warnings {
		warnings[i] = fmt.Sprintf("%s: %s %s: %s", d.Location(), kind.Kind, d.Object.GetName(), warnings[i])
	}
	return warnings, nil
}

// checkVersion refuses versions of the API whose fields may mean something else.
func checkVersion(kind schema.GroupVersionKind) error {
	for _, known := range v1.GroupVersions {
		if kind.Version == known.Version {
			return nil
		}
	}
	return fmt.Errorf("apiVersion: %s is not a version that KubeVirt serves %s in: use %s", kind.GroupVersion(), kind.Kind, v1.GroupVersion)
}

// results are explanations in the order of their subjects, as far as they are kept: the texts hold all the rest.
type results struct {
	explanations []*explanation.Explanation
	// texts are those of the format; nil if there is none.
	texts [][]byte
}

// explainAll evaluates the subjects, some at once, and makes a text of each. What each is made of is forgotten then. The
// error is that of the first subject that has one.
func explainAll(ctx context.Context, in *inputs, format *explanation.Format, progress *progress) (*results, error) {
	count := len(in.subjects)
	done := &results{explanations: make([]*explanation.Explanation, count), texts: make([][]byte, count)}
	err := parallel.Each(ctx, count, func(i int) (err error) {
		s := in.subjects[i]
		defer progress.step("explained", count)
		if done.explanations[i], err = in.world.explain(ctx, s); err == nil && format != nil {
			done.texts[i], err = format.Text(done.explanations[i], i == 0, count == 1)
		}
		if err != nil {
			return fmt.Errorf("%s: %s %s: %w", s.Location(), s.Object.GetKind(), s.Object.GetName(), err)
		}
		done.explanations[i].Forget()
		in.subjects[i] = documents.Document{}
		return nil
	})
	progress.end()
	return done, err
}

func (w *world) explain(ctx context.Context, s documents.Document) (*explanation.Explanation, error) {
	verdict, warnings, err := w.judge(ctx, s)
	if err != nil {
		return nil, err
	}
	return explanation.New(s, w.facts, verdict, warnings)
}
