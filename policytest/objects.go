package policytest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/schemas"
)

// typeOf returns the Go type of a kind, or nil for kinds that virtual machines only refer to.
func typeOf(kind schema.GroupKind) any {
	switch kind.Kind {
	case apikinds.VirtualMachinePolicy:
		return &policyv1alpha1.VirtualMachinePolicy{}
	case apikinds.RuleSettings:
		return &policyv1alpha1.RuleSettings{}
	case apikinds.VirtualMachineDefaults:
		return &policyv1alpha1.VirtualMachineDefaults{}
	case apikinds.VirtualMachinePolicyException:
		return &policyv1alpha1.VirtualMachinePolicyException{}
	case apikinds.Namespace:
		return &corev1.Namespace{}
	case apikinds.ConfigMap:
		return &corev1.ConfigMap{}
	case apikinds.Node:
		return &corev1.Node{}
	case apikinds.PersistentVolumeClaim:
		return &corev1.PersistentVolumeClaim{}
	case apikinds.VirtualMachineInstance:
		return &v1.VirtualMachineInstance{}
	}
	return references.TypeOf(kind)
}

// around are the kinds of objects that influence the evaluation of virtual machines.
func around() []schema.GroupKind {
	kinds := []schema.GroupKind{
		{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.RuleSettings},
		{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachineDefaults},
		{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachinePolicyException},
		{Group: v1.GroupVersion.Group, Kind: apikinds.KubeVirt},
		{Group: v1.GroupVersion.Group, Kind: apikinds.VirtualMachineInstance},
		{Kind: apikinds.Namespace},
		{Kind: apikinds.ConfigMap},
		{Kind: apikinds.Node},
	}
	for _, kind := range references.Kinds() {
		kinds = append(kinds, kind.GroupKind())
	}
	return kinds
}

// of reads a source of the suite: the object in it, or the objects of a file.
func (s *Suite) of(field string, source *Source) ([]manifests.Document, error) {
	if source.File == "" {
		return []manifests.Document{s.document.Inside(field, &unstructured.Unstructured{Object: source.Object})}, nil
	}
	name := path.Join(path.Dir(s.File), source.File)
	found, err := s.files.directory(name)
	if err != nil {
		return nil, s.problem(field, err.Error()+s.files.advice(name))
	}
	return found, nil
}

// Beyond is a file system that can also read files that only a suite names.
type Beyond interface {
	fs.FS
	// OpenBeyond opens a file outside of the directories that the user names.
	OpenBeyond(name string) (fs.File, error)
}

// policyFile reads a source of policies. A suite can name files anywhere: of a file outside of the directories that the user
// names, only policies are read, and no error has a part of another file.
func (s *Suite) policyFile(field string, source *Source) ([]manifests.Document, error) {
	name := path.Join(path.Dir(s.File), source.File)
	beyond, ok := s.files.fsys.(Beyond)
	if source.File == "" || !ok || !s.files.outside(name) {
		return s.of(field, source)
	}
	unreadable := func(why string) ([]manifests.Document, error) {
		return nil, s.problem(field, fmt.Sprintf("%s: %s%s", name, why, s.files.advice(name)))
	}
	file, err := beyond.OpenBeyond(name)
	if err != nil {
		return unreadable(plain(err))
	}
	defer file.Close()
	read, err := manifests.ReadParts(context.Background(), name, file)
	if err != nil {
		return unreadable("it cannot be read")
	}
	read.Documents = slices.DeleteFunc(read.Documents, func(d manifests.Document) bool {
		kind := d.Object.GroupVersionKind().GroupKind()
		return kind.Group != policyv1alpha1.GroupVersion.Group || kind.Kind != apikinds.VirtualMachinePolicy
	})
	switch strict := (&manifests.Content{Documents: read.Documents}).Strictly(); {
	case len(strict.Unreadable) > 0: // a field of a policy is set twice
		return nil, s.problem(field, strict.Unreadable[0].Error())
	case len(strict.Documents) == 0:
		return unreadable("has no " + apikinds.VirtualMachinePolicy)
	case len(read.Unreadable) > 0: // it can be a policy, which would not be tested
		return unreadable(fmt.Sprintf("document %d cannot be read", read.Unreadable[0].Index))
	default:
		return strict.Documents, nil
	}
}

// outside reports whether a file is outside of the directories that the user names.
func (f *files) outside(name string) bool {
	_, err := fs.Stat(f.fsys, name)
	return errors.Is(err, manifests.ErrOutside)
}

// advice says how to read a file that is outside; it is empty for other files.
func (f *files) advice(name string) string {
	if !f.outside(name) {
		return ""
	}
	return "; a suite can name policies there, but not other objects or directories: to read them, name a directory that has them and the suite"
}

// single reads a source with one object.
func (s *Suite) single(field string, source *Source) (manifests.Document, error) {
	found, err := s.of(field, source)
	if err != nil {
		return manifests.Document{}, err
	}
	if len(found) != 1 {
		return manifests.Document{}, s.problem(field, fmt.Sprintf("%s must have one object, and has %d", source.File, len(found)))
	}
	return found[0], nil
}

// around reads the objects of a test or a case.
func (s *Suite) around(field string, sources []Source) ([]manifests.Document, error) {
	var all []manifests.Document
	known := around()
	for i := range sources {
		in := index(field, i)
		found, err := s.of(in, &sources[i])
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			kind := d.Object.GroupVersionKind()
			switch {
			case !slices.Contains(known, kind.GroupKind()):
				return nil, at(d, "kind", fmt.Sprintf("%s does not influence the evaluation of a virtual machine", orNothing(kind)))
			case d.Object.GetName() == "":
				return nil, at(d, "metadata", "must have a name")
			}
			if err := schemas.Match("", kind); err != nil { // the fields of another version may differ
				return nil, at(d, "apiVersion", err.Error())
			}
			if typed := typeOf(kind.GroupKind()); typed != nil {
				if _, wrong := decodeKnown(d, typed); wrong != nil {
					return nil, *wrong
				}
			}
		}
		all = append(all, found...)
	}
	return all, nil
}

func orNothing(kind schema.GroupVersionKind) string {
	if kind.Kind == "" {
		return "an object without a kind"
	}
	return "the kind " + kind.Kind + " of " + kind.GroupVersion().String()
}

// policies reads the policies of a test. Files and directories may have other objects too.
func (s *Suite) policies(field string, sources []Source) ([]written, error) {
	var all []written
	names := map[string]bool{}
	for i := range sources {
		in := index(field, i)
		found, err := s.policyFile(in, &sources[i])
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, d := range found {
			if kind := d.Object.GroupVersionKind().GroupKind(); kind.Group != policyv1alpha1.GroupVersion.Group || kind.Kind != apikinds.VirtualMachinePolicy {
				continue
			}
			p, problems := readPolicy(d)
			if len(problems) > 0 {
				return nil, problems[0]
			}
			if names[p.policy.Name] {
				return nil, at(d, "metadata.name", fmt.Sprintf("another policy of this test has the name %q", p.policy.Name))
			}
			names[p.policy.Name] = true
			all = append(all, p)
		}
		if len(all) == before {
			return nil, s.problem(in, "has no "+apikinds.VirtualMachinePolicy)
		}
	}
	return all, nil
}

// written is a policy, and the document that it was read from.
type written struct {
	policy   *policyv1alpha1.VirtualMachinePolicy
	document manifests.Document
}

// file returns the file of the policy.
func (w *written) file() string { return path.Clean(cmp.Or(w.document.File, w.document.Source)) }

// key identifies a policy among those of all files.
func (w *written) key() string { return w.file() + "\x00" + w.policy.Name }

func readPolicy(d manifests.Document) (written, []Problem) {
	if err := schemas.Match("", d.Object.GroupVersionKind()); err != nil {
		return written{}, []Problem{at(d, "apiVersion", err.Error())}
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	if problems := decode(d, policy); len(problems) > 0 {
		return written{}, problems
	}
	return written{policy, d}, nil
}
