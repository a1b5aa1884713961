package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/conformance/imports"
	"github.com/virtward/virtward/goldenimages"
)

const (
	catalogName = "golden"
	namespace   = "kubevirt-os-images"
	// ownedBy is the annotation of objects of SSP. They belong to the catalog.
	ownedBy = "operator-sdk/primary-resource"
	sspName = "kubevirt/ssp"
	// rounds bounds the plans of one step.
	rounds = 60
)

// sspInput are steps of the resource of SSP.
type sspInput struct {
	Webhook                   bool                `json:"webhook"`
	WithCDI                   bool                `json:"withCDI"`
	CommonTemplateDataSources map[string][]string `json:"commonTemplateDataSources"`
	Existing                  []json.RawMessage   `json:"existing"`
	Steps                     []sspStep           `json:"steps"`
}

type sspStep struct {
	SSP *struct {
		MultiArch bool `json:"enableMultipleArchitectures"`
		Cluster   *struct {
			Workloads    []string `json:"workloadArchitectures"`
			ControlPlane []string `json:"controlPlaneArchitectures"`
		} `json:"cluster"`
		CommonTemplates struct {
			Templates []v1alpha1.DataImportCronTemplate `json:"dataImportCronTemplates"`
		} `json:"commonTemplates"`
	} `json:"ssp"`
	Apply      []json.RawMessage   `json:"apply"`
	Delete     [][]string          `json:"delete"`
	ImageLacks map[string][]string `json:"imageLacks"`
}

// cluster has the catalog and the objects of a case.
type cluster struct {
	objects *imports.Objects
	catalog *v1alpha1.GoldenImageCatalog
	nodes   v1alpha1.NodeArchitectures
	lacks   map[string][]string
	// wasReady has the DataSources that are ready. interrupted are those that stopped to be.
	wasReady    map[string]bool
	interrupted []string
}

func newCluster() *cluster {
	w := &cluster{objects: imports.NewObjects(), catalog: &v1alpha1.GoldenImageCatalog{}, wasReady: map[string]bool{}, lacks: map[string][]string{}}
	w.catalog.Name, w.catalog.UID = catalogName, "golden"
	w.catalog.Spec.Namespace = namespace
	return w
}

// add adds an object. Those of SSP belong to the catalog.
func (w *cluster) add(object []byte) error {
	var fields map[string]any
	if err := json.Unmarshal(object, &fields); err != nil {
		return fmt.Errorf("an object: %w", err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[ownedBy] == sspName {
		annotations[v1alpha1.CatalogAnnotation] = catalogName
		delete(annotations, ownedBy) // as an admin does who gives an object of SSP to a catalog
		delete(annotations, ownedBy+"-type")
		if labels, ok := metadata["labels"].(map[string]any); ok {
			delete(labels, "app.kubernetes.io/managed-by")
		}
		var err error
		if object, err = json.Marshal(fields); err != nil {
			return fmt.Errorf("an object: %w", err)
		}
	}
	return w.objects.Add(object)
}

// take applies a step, without its consequences.
func (w *cluster) take(s *sspStep) error {
	for _, object := range s.Apply {
		if err := w.add(object); err != nil {
			return err
		}
	}
	for _, d := range s.Delete {
		w.objects.Delete(d[0], imports.Name{Namespace: d[1], Name: d[2]})
	}
	if s.ImageLacks != nil {
		w.lacks = s.ImageLacks
	}
	if s.SSP != nil {
		on := s.SSP.MultiArch
		w.catalog.Spec.MultiArch = &on
		w.catalog.Spec.DataImportCronTemplates = s.SSP.CommonTemplates.Templates
		w.nodes = v1alpha1.NodeArchitectures{}
		if s.SSP.Cluster != nil {
			w.nodes = architecturesOf(s.SSP.Cluster.Workloads, s.SSP.Cluster.ControlPlane)
		}
	}
	return nil
}

// settle plans and lets CDI act until nothing changes.
func (w *cluster) settle() error {
	for range rounds {
		result := goldenimages.Plan(w.input())
		for _, write := range result.Writes {
			w.write(write)
			w.watch()
		}
		done := result.Done(w.catalog)
		w.catalog.Status.Images, w.catalog.Status.Retired = result.Images, result.Retired
		before, err := json.Marshal(w.state())
		if err != nil {
			return fmt.Errorf("the objects: %w", err)
		}
		w.objects.Poll(digest)
		_ = w.objects.Reconcile() // sources without a digest are for the status
		imported := w.objects.Import(w.fails)
		w.watch()
		after, err := json.Marshal(w.state())
		if err != nil {
			return fmt.Errorf("the objects: %w", err)
		}
		if done && !imported && slices.Equal(before, after) {
			return nil
		}
	}
	return errors.New("the plans do not come to an end")
}

// digest is that of an image, as the recorded cases have it.
func digest(url string) string {
	sum := sha256.Sum256([]byte(url + "0"))
	return hex.EncodeToString(sum[:])
}

// fails returns why an import fails: the image has not the architecture.
func (w *cluster) fails(volume *cdiv1beta1.DataVolume) string {
	for _, missing := range w.lacks {
		if slices.Contains(missing, volume.Labels[v1alpha1.ArchitectureLabel]) {
			return "ImagePullFailed"
		}
	}
	return ""
}

func (w *cluster) input() *goldenimages.Input {
	in := &goldenimages.Input{
		Catalog: w.catalog, Nodes: w.nodes,
		Crons: map[string]*cdiv1beta1.DataImportCron{}, Sources: map[string]*cdiv1beta1.DataSource{}, Failures: map[string]goldenimages.Failure{},
	}
	for name, cron := range w.objects.Crons {
		if name.Namespace == namespace {
			in.Crons[name.Name] = cron
		}
	}
	for name, source := range w.objects.Sources {
		if name.Namespace == namespace {
			in.Sources[name.Name] = source
		}
	}
	w.stored(in)
	for _, volume := range w.objects.Volumes {
		for _, condition := range volume.Status.Conditions {
			in.Failures[volume.Labels[imports.CronLabel]] = goldenimages.Failure{Reason: condition.Reason, Message: condition.Message}
		}
	}
	return in
}

// stored adds the imports of DataImportCrons that were deleted, and what DataSources refer to.
func (w *cluster) stored(in *goldenimages.Input) {
	in.StoredRead, in.InUse = true, map[goldenimages.Reference]bool{}
	for _, source := range w.objects.Sources {
		for _, r := range goldenimages.References(source, namespace) {
			in.InUse[r] = true
		}
	}
	add := func(kind schema.GroupVersionKind, o metav1.Object) {
		cron := o.GetLabels()[imports.CronLabel]
		if o.GetNamespace() == namespace && slices.ContainsFunc(w.catalog.Status.Retired, func(r v1alpha1.RetiredImport) bool { return r.DataImportCron == cron }) {
			in.Stored = append(in.Stored, goldenimages.Stored{Kind: kind, Name: o.GetName(), Cron: cron})
		}
	}
	for _, name := range imports.Names(w.objects.Volumes) {
		add(goldenimages.DataVolumeKind, w.objects.Volumes[name])
	}
	for _, name := range imports.Names(w.objects.Claims) {
		add(goldenimages.ClaimKind, w.objects.Claims[name])
	}
	for _, name := range imports.Names(w.objects.Snapshots) {
		add(goldenimages.SnapshotKind, w.objects.Snapshots[name])
	}
}

func (w *cluster) write(write goldenimages.Write) {
	name := imports.Name{Namespace: write.Object.GetNamespace(), Name: write.Object.GetName()}
	if name.Namespace == "" {
		name.Namespace = namespace
	}
	switch object := write.Object.DeepCopyObject().(type) {
	case *metav1.PartialObjectMetadata:
		w.objects.Delete(object.Kind, name)
	case *cdiv1beta1.DataImportCron:
		if write.Verb == goldenimages.Delete {
			delete(w.objects.Crons, name)
			_ = w.objects.ReconcileCron(name) // deletes what is marked
			return
		}
		object.Namespace = name.Namespace
		w.objects.Crons[name] = object
	case *cdiv1beta1.DataSource:
		if write.Verb == goldenimages.Delete {
			delete(w.objects.Sources, name)
			return
		}
		object.Namespace = name.Namespace
		before := w.objects.Sources[name]
		w.objects.Sources[name] = object
		if before == nil || !equality.Semantic.DeepEqual(before.Spec, object.Spec) {
			w.objects.ReconcileSource(name)
		}
	}
}

// watch notes the DataSources of entries that stop to be ready.
func (w *cluster) watch() {
	for i := range w.catalog.Spec.DataImportCronTemplates {
		t := &w.catalog.Spec.DataImportCronTemplates[i]
		if t.Spec == nil {
			continue
		}
		name := t.Spec.ManagedDataSource
		if w.removed(t) {
			delete(w.wasReady, name)
			continue
		}
		is := ready(w.objects.Sources[imports.Name{Namespace: namespace, Name: name}])
		if w.wasReady[name] && !is {
			w.interrupted = append(w.interrupted, name)
		}
		w.wasReady[name] = is
	}
}

// removed reports whether the images of an entry are deleted: no node has an architecture of it, and none is retained.
func (w *cluster) removed(t *v1alpha1.DataImportCronTemplate) bool {
	list, listed := goldenimages.Listed(t)
	retained := t.Spec.RetentionPolicy == nil || *t.Spec.RetentionPolicy != cdiv1beta1.DataImportCronRetainNone
	return listed && !retained && *w.catalog.Spec.MultiArch && !slices.ContainsFunc(w.nodes.WorkloadArchitectures, func(c v1alpha1.ArchitectureCount) bool { return slices.Contains(list, c.Architecture) })
}

func ready(source *cdiv1beta1.DataSource) bool {
	return source != nil && slices.ContainsFunc(source.Status.Conditions, func(c cdiv1beta1.DataSourceCondition) bool { return c.Status == corev1.ConditionTrue })
}

// state has a line for each cron and each pointer, by name: what is compared.
func (w *cluster) state() map[string]string {
	state := map[string]string{}
	for name, cron := range w.objects.Crons {
		state["cron "+name.Namespace+"/"+name.Name] = cronLine(cron)
	}
	for name, source := range w.objects.Sources {
		if line := sourceLine(source); line != "" {
			state["source "+name.Namespace+"/"+name.Name] = line
		}
	}
	return state
}

// cronLine is what of a DataImportCron is compared.
func cronLine(cron *cdiv1beta1.DataImportCron) string {
	platform, url := "", ""
	if from := cron.Spec.Template.Spec.Source; from != nil && from.Registry != nil {
		if from.Registry.Platform != nil {
			platform = from.Registry.Platform.Architecture
		}
		if from.Registry.URL != nil {
			url = *from.Registry.URL
		}
	}
	annotations := maps.Clone(cron.Annotations)
	for _, key := range []string{ownedBy, "operator-sdk/primary-resource-type", v1alpha1.CatalogAnnotation, v1alpha1.RetentionAnnotation, imports.DigestAnnotation} {
		delete(annotations, key)
	}
	return fmt.Sprintf("manages %s, architecture %q, image %q, platform %q, %s, schedule %s, annotations %v", cron.Spec.ManagedDataSource, cron.Labels[v1alpha1.ArchitectureLabel],
		cron.Labels[v1alpha1.DataSourceNameLabel], platform, url, cron.Spec.Schedule, annotations)
}

// sourceLine is what of a pointer is compared. Other DataSources are CDI's: also one with the label of a cron, whose source CDI
// replaces where it runs.
func sourceLine(source *cdiv1beta1.DataSource) string {
	if pointer := source.Spec.Source.DataSource; pointer != nil && source.Labels[imports.CronLabel] == "" {
		return "points to " + pointer.Name
	}
	return ""
}
