package copies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/texts"
)

// Bounds of what is read.
const (
	// MaxListed is the number of objects of a kind, except for virtual machines.
	MaxListed = 100
	// maxFile is the size of a file, in bytes: all files fit into a question, with files of the user.
	maxFile = answers.MaxBytes / 5
	// maxNotes is the number of notes.
	maxNotes = 100
)

// The names of the files.
const (
	machinesFile      = "cluster-vms.yaml"
	objectsFile       = "cluster-objects.yaml"
	policiesFile      = "cluster-policies.yaml"
	configurationFile = "cluster-kubevirt.yaml"
)

// Copy is what was read.
type Copy struct {
	Files []answers.File
	// Notes say what could not be read, and what was left out.
	Notes []string
}

// reading reads the objects of a cluster.
type reading struct {
	client    dynamic.Interface
	namespace string
	copied    Copy
	// texts are the files by name, and seen the objects that were read or could not be.
	texts map[string]string
	seen  map[string]bool
	// failure is why the cluster does not answer; nil if it does.
	failure error
}

// Read reads the objects of a namespace. It returns the error of the context, or that of a cluster that does not answer or does not
// know the user. What the user may not read is a note.
func Read(ctx context.Context, client dynamic.Interface, namespace string) (*Copy, error) {
	r := &reading{client: client, namespace: namespace, texts: map[string]string{}, seen: map[string]bool{}}
	r.list(ctx, configurationFile, apikinds.KubeVirts.GroupVersionResource(), "", MaxListed)
	r.get(ctx, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", namespace)
	for _, kind := range slices.Sorted(maps.Keys(offline.Resources)) {
		in := ""
		if kind == apikinds.VirtualMachinePolicyException {
			in = namespace
		}
		r.list(ctx, policiesFile, offline.Resources[kind], in, MaxListed)
	}
	machines := r.list(ctx, machinesFile, apikinds.VirtualMachines.GroupVersionResource(), namespace, answers.MaxSubjects)
	for i := range machines {
		r.named(ctx, &machines[i])
	}
	for _, name := range []string{machinesFile, objectsFile, policiesFile, configurationFile} {
		if text := r.texts[name]; text != "" {
			r.copied.Files = append(r.copied.Files, answers.File{Name: name, Text: text})
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if r.failure != nil {
		return nil, fmt.Errorf("reading the cluster: %w", r.failure)
	}
	return &r.copied, nil
}

// note adds a note.
func (r *reading) note(format string, values ...any) {
	note := texts.OneLine(texts.Shorten(fmt.Sprintf(format, values...), 500))
	if len(r.copied.Notes) < maxNotes && !slices.Contains(r.copied.Notes, note) {
		r.copied.Notes = append(r.copied.Notes, note)
	}
}

func (r *reading) in(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return r.client.Resource(resource)
	}
	return r.client.Resource(resource).Namespace(namespace)
}

// list adds the objects of a kind to a file, and returns those that were added. More than most are a note.
func (r *reading) list(ctx context.Context, file string, resource schema.GroupVersionResource, namespace string, most int64) (added []unstructured.Unstructured) {
	if r.failure != nil {
		return nil
	}
	list, err := r.in(resource, namespace).List(ctx, metav1.ListOptions{Limit: most})
	if err != nil {
		r.failed(resource, namespace, "", err)
		return nil
	}
	if list.GetContinue() != "" || int64(len(list.Items)) > most {
		r.note("only %d %s are read: there are more", most, resource.GroupResource())
		list.Items = list.Items[:min(int64(len(list.Items)), most)]
	}
	for i := range list.Items {
		if r.add(file, &list.Items[i]) {
			added = append(added, list.Items[i])
		}
	}
	return added
}

// get adds an object that virtual machines need.
func (r *reading) get(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) {
	key := resource.Resource + "/" + namespace + "/" + name
	if r.seen[key] || r.failure != nil {
		return
	}
	r.seen[key] = true
	object, err := r.in(resource, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		r.failed(resource, namespace, name, err)
		return
	}
	r.add(objectsFile, object)
}

// failed says that a kind, or one object of it, could not be read.
func (r *reading) failed(resource schema.GroupVersionResource, namespace, name string, err error) {
	what := resource.GroupResource().String()
	if name != "" {
		what += " " + name
	}
	if namespace != "" {
		what += " in namespace " + namespace
	}
	_, unanswered := errors.AsType[*url.Error](err)
	switch {
	case unanswered, apierrors.IsUnauthorized(err): // the next requests would fail too
		r.failure = err
	case apierrors.IsForbidden(err):
		r.note("not read: you may not read %s", what)
	case name == "" && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)):
		r.note("not read: the cluster does not serve %s", resource.GroupResource())
	case apierrors.IsNotFound(err):
		r.note("not read: %s does not exist", what)
	default:
		r.note("not read: %s: %v", what, err)
	}
}

// named adds the instancetype and the preference of a virtual machine, and the revisions that it names.
func (r *reading) named(ctx context.Context, vm *unstructured.Unstructured) {
	for _, ref := range []struct {
		field               string
		clusterWide, within apikinds.Resource
	}{
		{"instancetype", apikinds.ClusterInstancetypes, apikinds.Instancetypes},
		{"preference", apikinds.ClusterPreferences, apikinds.Preferences},
	} {
		name, _, _ := unstructured.NestedString(vm.Object, "spec", ref.field, "name")
		kind, _, _ := unstructured.NestedString(vm.Object, "spec", ref.field, "kind")
		revision, _, _ := unstructured.NestedString(vm.Object, "spec", ref.field, "revisionName")
		if revision != "" {
			r.get(ctx, apikinds.ControllerRevisions.GroupVersionResource(), r.namespace, revision)
		}
		switch {
		case name == "":
		case strings.EqualFold(kind, ref.within.Kind):
			r.get(ctx, ref.within.GroupVersionResource(), r.namespace, name)
		default:
			r.get(ctx, ref.clusterWide.GroupVersionResource(), "", name)
		}
	}
}

// add adds an object without credentials to a file, unless the file is full.
func (r *reading) add(file string, object *unstructured.Unstructured) bool {
	name := object.GetKind() + " " + object.GetName()
	for _, what := range clean(object) {
		r.note("left out: %s of %s", what, name)
	}
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		r.note("not read: %s: %v", name, err)
		return false
	}
	before := r.texts[file]
	if len(before)+len(text)+4 > maxFile {
		r.note("left out: %s, because %s has %d KiB at most", name, file, maxFile>>10)
		return false
	}
	if before != "" {
		before += "---\n"
	}
	r.texts[file] = before + string(text)
	return true
}
