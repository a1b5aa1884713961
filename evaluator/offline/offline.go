package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Evaluator evaluates virtual machines with the configuration and the objects of files and of a cluster. It is safe for
// concurrent use.
type Evaluator struct {
	registry  *hypervisors.Registry
	Evaluator *evaluator.Evaluator
	snapshot  *evaluator.Snapshot
	facts     *platform.Facts
	settings  *validators.Settings
	site      *mutators.Site
	policies  *policySource
	// nodes are the empty nodes for policies; nil if they are not known, or no policy reads them.
	nodes *placement.Snapshot
	// namespaces reads Namespaces.
	namespaces *namespaces
	// DefaultNamespace is the namespace of objects that name none.
	DefaultNamespace string
	// Former are the facts of the cluster that stored the virtual machines, if its defaults differ from those of these
	// facts; nil otherwise. Stored defaults are replaced then.
	Former *platform.Facts
	// Values are values for the parameters of VirtualMachineTemplates.
	Values map[string]string
	// Notes name configuration that has no effect here.
	Notes []string
	// Unreadable are the documents of files with configuration that cannot be read.
	Unreadable []manifests.Unreadable

	// forbidden are the kinds of configuration that the user may not list.
	forbidden     []string
	schemas       *Schemas
	unknownFields validators.Severity
	now           time.Time
	// online reports that a cluster has the objects that the files lack.
	online bool
}

// New returns an evaluator. It reads configuration and objects from the files, as if they were applied, and then from
// the cluster, if there is one.
func New(ctx context.Context, files *Files, cluster *Cluster, facts *platform.Facts, namespace string) (*Evaluator, error) {
	w := &Evaluator{facts: facts, DefaultNamespace: namespace, unknownFields: files.UnknownFields, now: files.Now}
	if w.now.IsZero() {
		w.now = time.Now()
	}
	w.keepServed(ctx, files, cluster)
	w.namespaces = newNamespaces(w.once(files.Namespaces), cluster)
	if err := w.readSchemas(ctx, files, cluster); err != nil {
		return nil, err
	}
	var referred []*unstructured.Unstructured
	for _, d := range w.once(files.References) {
		if evaluator.Evaluates(d.Object.GroupVersionKind().GroupKind()) || w.valid(ctx, d) {
			referred = append(referred, d.Object)
		}
	}
	memory, err := references.NewMemory(namespace, referred...)
	if err != nil {
		return nil, err
	}
	var objects references.Objects = references.Given{Memory: memory}
	w.online = cluster != nil
	if cluster != nil {
		objects = both{files: memory, cluster: cluster.Objects}
	}
	if w.registry, err = hypervisors.NewRegistry(hypervisors.BuiltIn()...); err != nil {
		return nil, err
	}
	w.readSettings(ctx, files, cluster)
	w.readSite(ctx, files, cluster)
	if err := w.readPolicies(ctx, files, cluster); err != nil {
		return nil, err
	}
	w.readExceptions(ctx, files, cluster)
	w.readNodes(ctx, files, cluster)
	w.noteForbidden()
	for _, d := range files.Skipped {
		w.valid(ctx, d)
	}
	w.Evaluator = &evaluator.Evaluator{Pipeline: effective.NewPipeline(w.registry), Facts: w, Configuration: w, References: objects, Decode: decode, VirtualImages: true}
	w.snapshot, err = w.Evaluator.Snapshot(w.now)
	return w, err
}

// Rules returns the built-in rules and the policies.
func (w *Evaluator) Rules() validators.Table { return w.policies.described(w.registry.Rules()) }

// Evaluate evaluates an object: one of a file as on create, and one of the cluster at a stage.
func (w *Evaluator) Evaluate(ctx context.Context, d manifests.Document, stage evaluator.Stage) (*evaluator.Result, error) {
	return w.evaluate(ctx, d, stage, w.snapshot.Evaluate)
}

// EvaluateMade evaluates an object as on create, and of a VirtualMachineTemplate also the VM that it makes.
func (w *Evaluator) EvaluateMade(ctx context.Context, d manifests.Document) (*evaluator.Result, error) {
	if d.Object.GroupVersionKind().GroupKind() == evaluator.Template {
		return w.evaluate(ctx, d, evaluator.Written, w.snapshot.EvaluateMade)
	}
	return w.Evaluate(ctx, d, evaluator.Written)
}

func (w *Evaluator) evaluate(ctx context.Context, d manifests.Document, stage evaluator.Stage, by func(context.Context, evaluator.Request) (*evaluator.Result, error)) (result *evaluator.Result, err error) {
	defer func() {
		if cause := recover(); cause != nil { // the other objects are evaluated
			err = fmt.Errorf("this is a bug in kubectl-virtward: please report it with the object: %.200v", cause)
		}
	}()
	raw, err := json.Marshal(d.Object.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the object: %w", err)
	}
	kind := d.Object.GroupVersionKind()
	info, _ := evaluator.Info(kind.GroupKind())
	request := evaluator.Request{
		Object: raw, Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(kind.GroupVersion().WithResource(info.Resource.Resource)),
		Name: d.Object.GetName(), Stage: stage, Former: w.Former, Values: w.Values,
	}
	if info.Namespaced {
		request.Namespace = cmp.Or(d.Object.GetNamespace(), w.DefaultNamespace)
	}
	if d.Source == SourceCluster && kind.Kind == apikinds.VirtualMachineInstance {
		request.Requester = kubeVirtController(w.facts) // whose labels it has
	}
	if result, err = by(ctx, request); err != nil {
		return nil, err
	}
	if limit := (*field.Error)(nil); result.Unreadable != nil && !errors.As(result.Unreadable, &limit) {
		return nil, result.Unreadable
	}
	if d.Source != SourceCluster && result.Unreadable == nil {
		if err := w.schemas.Validate(ctx, w.written(d), result); err != nil {
			return nil, err
		}
		addRepeated(d.Repeated, result)
	}
	return result, nil
}

// written is a document as its author wrote it.
func (w *Evaluator) written(d manifests.Document) Written {
	return Written{Object: d.Object.Object, Namespace: w.DefaultNamespace, UnknownFields: w.unknownFields}
}

// readSchemas finds the schemas of the documents.
func (w *Evaluator) readSchemas(ctx context.Context, files *Files, cluster *Cluster) error {
	var notes []string
	w.schemas, notes = NewSchemas(w.facts.KubeVirtVersion)
	w.Notes = append(w.Notes, notes...)
	if cluster == nil {
		return nil
	}
	note, err := w.schemas.readInstalled(ctx, cluster, slices.Concat(files.Subjects, files.References, files.Configuration, files.Skipped))
	if note != "" {
		w.Notes = append(w.Notes, note)
	}
	return err
}

// decode decodes an object. The warnings name unknown fields.
func decode(object []byte, into any) ([]string, error) {
	var fields map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(object, &fields); err != nil {
		return nil, err
	}
	return manifests.Decode(fields, into)
}

// kubeVirtController returns the account that creates VMIs for VMs.
func kubeVirtController(facts *platform.Facts) string {
	return "system:serviceaccount:" + cmp.Or(facts.Namespace, "kubevirt") + ":kubevirt-controller"
}

// Launcher renders the pod of a virtual machine that was evaluated.
func (w *Evaluator) Launcher(verdict *effective.Verdict) (*launcher.Result, error) {
	return w.Evaluator.Pipeline.Launcher(verdict, w.facts)
}

// LauncherInput is what the pod of a virtual machine is rendered from. A caller that knows more of the cluster adds that.
func (w *Evaluator) LauncherInput(verdict *effective.Verdict) (*launcher.Input, error) {
	return w.Evaluator.Pipeline.LauncherInput(verdict, w.facts)
}

// Facts implements evaluator.Facts.
func (w *Evaluator) Facts() *platform.Facts { return w.facts }

// Active implements evaluator.Configuration.
func (w *Evaluator) Active() evaluator.Active {
	return evaluator.Active{Settings: w.settings, Site: w.site, Policies: w.policies.Set, Nodes: w.nodes}
}

// NamespaceLabels implements evaluator.Configuration. For an unknown namespace, it returns only the label that the API
// server sets on every namespace.
func (w *Evaluator) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	known, err := w.namespaces.labelsOf(ctx, name)
	if err == nil {
		return known, nil
	}
	var selecting []string
	if w.settings.SelectsNamespaces() {
		selecting = append(selecting, apikinds.RuleSettings)
	}
	if w.site.SelectsNamespaces() {
		selecting = append(selecting, apikinds.VirtualMachineDefaults)
	}
	return known, &evaluator.UnknownNamespaceError{Err: unselected(strings.Join(selecting, " and "), name, err)}
}

// Namespace implements evaluator.Configuration.
func (w *Evaluator) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	known, err := w.namespaces.find(ctx, name)
	if err != nil {
		return known, &evaluator.UnknownNamespaceError{Err: fmt.Errorf("policies can read only the name of the namespace %s: %w", name, err)}
	}
	return known, nil
}

// Policies returns the active policies; nil for none.
func (w *Evaluator) Policies() *policies.Set { return w.policies.Set }

// UnusedConfigMaps returns notes about the ConfigMaps of the files that no policy reads.
func (w *Evaluator) UnusedConfigMaps() []string { return w.policies.unread() }

// BrokenPolicies returns an error if policies of files are broken. The notes have the details.
func (w *Evaluator) BrokenPolicies() error { return w.policies.unusable() }
