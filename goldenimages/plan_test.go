package goldenimages

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// cluster simulates CDI: it imports one image a step, makes DataSources for crons and resolves pointers.
type cluster struct {
	*Input

	t *testing.T
	// imports are the images that CDI has imported, by cron; lacks are the architectures that no image has.
	imports  map[string]string
	lacks    []string
	version  int
	history  []string
	wasReady map[string]bool
	// claims are those that CDI has imported, with the name of their cron, and deleted those that the catalog has deleted.
	claims  map[string]string
	deleted map[string]bool
	// deleting are the claims whose deletion is not complete.
	deleting map[string]bool
	// slow is how often CDI looks at a DataSource before it says whether it is ready, and looks how often it has.
	slow  int
	looks map[string]int
	// examining reports that CDI examined a DataSource in this step, or will.
	examining bool
}

func newCluster(t *testing.T, catalog *v1alpha1.GoldenImageCatalog, architectures ...string) *cluster {
	t.Helper()
	catalog.Name, catalog.UID = "site", "u"
	c := &cluster{
		t: t, imports: map[string]string{}, wasReady: map[string]bool{}, claims: map[string]string{}, deleted: map[string]bool{}, deleting: map[string]bool{}, looks: map[string]int{},
		Input: &Input{Catalog: catalog, Crons: map[string]*cdiv1beta1.DataImportCron{}, Sources: map[string]*cdiv1beta1.DataSource{}, Failures: map[string]Failure{}},
	}
	c.nodes(architectures...)
	return c
}

func (c *cluster) nodes(architectures ...string) {
	var nodes []corev1.Node
	for i, a := range architectures {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{workerLabel: ""}}}
		if i == 0 {
			n.Labels[controlPlaneLabels[0]] = ""
		}
		n.Status.NodeInfo.Architecture = a
		nodes = append(nodes, n)
	}
	c.Nodes, c.SingleNode = Survey(nodes, c.Catalog.Spec.Workloads), len(nodes) == 1
}

// settle plans and simulates until nothing happens. A DataSource without a suffix that was ready never stops to be.
func (c *cluster) settle() {
	c.t.Helper()
	for range 60 {
		if c.step() {
			return
		}
	}
	c.t.Fatalf("it does not settle:\n%s", strings.Join(c.history, "\n"))
}

// step plans once and writes, and CDI makes a step. It reports whether nothing is left to do.
func (c *cluster) step() (done bool) {
	c.t.Helper()
	c.observe()
	c.examining = false
	before := maps.Clone(c.deleting) // they are gone at the end of the step
	result := Plan(c.Input)
	done = result.Done(c.Catalog)
	for _, w := range result.Writes {
		c.apply(w)
		c.watch()
	}
	c.Catalog.Status.Images, c.Catalog.Status.Retired = result.Images, result.Retired
	moved := c.cdi()
	c.watch()
	for claim := range before {
		delete(c.deleting, claim)
		delete(c.claims, claim)
		moved = true
	}
	return done && !moved && !c.examining
}

// observe reads the imports of retired crons, and what is in use.
func (c *cluster) observe() {
	c.StoredRead, c.InUse, c.Stored = true, map[Reference]bool{}, nil
	for _, source := range c.Sources {
		for _, r := range References(source, NamespaceOf(c.Catalog)) {
			c.InUse[r] = true
		}
	}
	for _, claim := range sortedNames(c.claims) {
		if c.wasRetired(c.claims[claim]) {
			c.Stored = append(c.Stored, Stored{Kind: ClaimKind, Name: claim, Cron: c.claims[claim], UID: "1", Deleting: c.deleting[claim]})
		}
	}
}

func (c *cluster) watch() {
	c.t.Helper()
	c.resolve()
	for _, entry := range c.Catalog.Spec.DataImportCronTemplates {
		name := entry.Spec.ManagedDataSource
		is := ready(c.Sources[name])
		if c.wasReady[name] && !is {
			c.t.Fatalf("DataSource %s is not ready any more:\n%s", name, strings.Join(c.history, "\n"))
		}
		c.wasReady[name] = is
	}
}

func (c *cluster) apply(w Write) {
	c.history = append(c.history, fmt.Sprintf("%s %T %s", w.Verb, w.Object, w.Object.GetName()))
	name := w.Object.GetName()
	switch o := w.Object.DeepCopyObject().(type) {
	case *metav1.PartialObjectMetadata:
		for _, source := range c.Sources {
			if slices.Contains(References(source, NamespaceOf(c.Catalog)), Reference{Name: name}) {
				c.t.Fatalf("%s is deleted, and the DataSource %s needs it", name, source.Name)
			}
		}
		if w.Verb != Delete || o.UID == "" || c.Crons[c.claims[name]] != nil {
			c.t.Fatalf("%s of %s, whose cron is %s", w.Verb, name, c.claims[name])
		}
		c.deleting[name], c.deleted[name] = true, true
	case *cdiv1beta1.DataImportCron:
		if w.Verb == Delete {
			delete(c.Crons, name)
			delete(c.imports, name)
			return
		}
		if (w.Verb == Create) == (c.Crons[name] != nil) {
			c.t.Fatalf("%s of %s", w.Verb, name)
		}
		c.Crons[name] = o
	case *cdiv1beta1.DataSource:
		if w.Verb == Delete {
			delete(c.Sources, name)
			delete(c.wasReady, name)
			delete(c.looks, name)
			return
		}
		if (w.Verb == Create) == (c.Sources[name] != nil) {
			c.t.Fatalf("%s of %s", w.Verb, name)
		}
		c.Sources[name] = o
	}
}

// cdi makes one step.
func (c *cluster) cdi() (moved bool) {
	for _, name := range sortedNames(c.Crons) {
		cron := c.Crons[name]
		source := c.Sources[cron.Spec.ManagedDataSource]
		if source == nil {
			source = &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Name: cron.Spec.ManagedDataSource, Labels: Merged(cron.Labels, map[string]string{CronLabel: name})}}
			c.Sources[source.Name] = source
			moved = true
		}
		if source.Labels[CronLabel] != name {
			continue
		}
		if slices.Contains(c.lacks, cron.Labels[v1alpha1.ArchitectureLabel]) {
			c.Failures[name] = Failure{"ImagePullFailed", "no such platform"}
			continue
		}
		url := *cron.Spec.Template.Spec.Source.Registry.URL
		if c.imports[name] != url {
			if claim := source.Name + "-" + strings.NewReplacer("/", "-", ":", "-").Replace(url); c.deleting[claim] {
				c.t.Fatalf("%s imports into %s, which is being deleted\n%s", name, claim, strings.Join(c.history, "\n"))
			}
			c.imports[name] = url
			c.version++
			moved = true
			continue
		}
		claim := fmt.Sprintf("%s-%s", source.Name, strings.NewReplacer("/", "-", ":", "-").Replace(url))
		if source.Spec.Source.PVC == nil || source.Spec.Source.PVC.Name != claim {
			source.Spec.Source = cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Name: claim, Namespace: NamespaceOf(c.Catalog)}}
			c.claims[claim] = name
			delete(c.deleted, claim)
			if cron.Labels[v1alpha1.ArchitectureLabel] != "" {
				source.Labels[v1alpha1.ArchitectureLabel] = cron.Labels[v1alpha1.ArchitectureLabel]
			}
			moved = true
		}
	}
	c.resolve()
	return moved
}

// resolve sets the condition Ready of all DataSources, and copies labels to pointers as CDI does.
func (c *cluster) resolve() {
	for _, source := range c.Sources {
		c.examining = c.examining || !examined(source)
		if c.looks[source.Name]++; c.looks[source.Name] <= c.slow {
			continue
		}
		target := source
		if to := pointsTo(source); to != "" {
			target = c.Sources[to]
			if target != nil && target.Labels[v1alpha1.ArchitectureLabel] != "" && source.Labels[v1alpha1.ArchitectureLabel] == "" {
				source.Labels = Merged(source.Labels, map[string]string{v1alpha1.ArchitectureLabel: target.Labels[v1alpha1.ArchitectureLabel]})
			}
		}
		status := corev1.ConditionFalse
		if target != nil && (target.Spec.Source.PVC != nil && !c.deleted[target.Spec.Source.PVC.Name] || target.Spec.Source.Snapshot != nil) {
			status = corev1.ConditionTrue
		}
		condition := cdiv1beta1.DataSourceCondition{Type: cdiv1beta1.DataSourceReady}
		condition.Status = status
		source.Status.Conditions = []cdiv1beta1.DataSourceCondition{condition}
	}
}

func sortedNames[T any](m map[string]T) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// state has a line for each object.
func (c *cluster) state() []string {
	var lines []string
	for _, name := range sortedNames(c.Crons) {
		lines = append(lines, "cron "+name+" -> "+c.Crons[name].Spec.ManagedDataSource)
	}
	for _, name := range sortedNames(c.Sources) {
		s := c.Sources[name]
		line := "source " + name
		if to := pointsTo(s); to != "" {
			line += " -> " + to
		}
		if a := s.Labels[v1alpha1.ArchitectureLabel]; a != "" {
			line += " (" + a + ")"
		}
		if ready(s) {
			line += " ready"
		}
		lines = append(lines, line)
	}
	return lines
}

func image(name, architectures string) v1alpha1.DataImportCronTemplate {
	url := "docker://registry.example/" + name
	t := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: name + "-cron"}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: name, Schedule: "0 0 * * *"}}
	if architectures != "-" {
		t.Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: architectures}
	}
	t.Spec.Template.Spec.Storage = &cdiv1beta1.StorageSpec{Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}}}
	t.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}}
	return t
}

func catalogOf(entries ...v1alpha1.DataImportCronTemplate) *v1alpha1.GoldenImageCatalog {
	return &v1alpha1.GoldenImageCatalog{Spec: v1alpha1.GoldenImageCatalogSpec{DataImportCronTemplates: entries}}
}

func TestPlan(t *testing.T) {
	both := []string{
		"cron fedora-cron-amd64 -> fedora-amd64", "cron fedora-cron-arm64 -> fedora-arm64",
		"source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready",
	}
	single := []string{"cron fedora-cron -> fedora", "source fedora ready"}
	for _, c := range []struct {
		name  string
		entry string
		nodes []string
		then  func(*cluster)
		want  []string
	}{
		{name: "an import for each architecture of the nodes", entry: "amd64, arm64,s390x", nodes: []string{"amd64", "arm64"}, want: both},
		{name: "one import without the annotation", entry: "-", nodes: []string{"amd64", "arm64"}, want: single},
		{name: "one import on a single node", entry: "amd64,arm64", nodes: []string{"arm64"}, want: single},
		{name: "no import without a node", entry: "s390x", nodes: []string{"amd64", "arm64"}},
		{
			name: "on", entry: "-", nodes: []string{"amd64", "arm64"}, want: both,
			then: func(c *cluster) { c.Catalog.Spec.DataImportCronTemplates[0] = image("fedora", "amd64,arm64") },
		},
		{
			name: "off", entry: "amd64,arm64", nodes: []string{"amd64", "arm64"},
			then: func(c *cluster) { off := false; c.Catalog.Spec.MultiArch = &off },
			want: []string{"cron fedora-cron -> fedora", "source fedora ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready"},
		},
		{
			name: "the default architecture leaves", entry: "amd64,arm64", nodes: []string{"amd64", "arm64", "arm64"},
			then: func(c *cluster) { c.nodes("arm64", "arm64") },
			want: []string{
				"cron fedora-cron-arm64 -> fedora-arm64", "source fedora -> fedora-arm64 (arm64) ready",
				"source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready",
			},
		},
		{
			name: "a node leaves until one is left", entry: "amd64,arm64", nodes: []string{"amd64", "arm64"},
			then: func(c *cluster) { c.nodes("amd64") },
			want: []string{
				"cron fedora-cron-amd64 -> fedora-amd64", "source fedora -> fedora-amd64 (amd64) ready",
				"source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready",
			},
		},
		{
			name: "the default stays while it is eligible", entry: "amd64,arm64", nodes: []string{"amd64", "arm64"}, want: both,
			then: func(c *cluster) { c.nodes("arm64", "amd64") },
		},
		{
			name: "another URL", entry: "amd64,arm64", nodes: []string{"amd64", "arm64"}, want: both,
			then: func(c *cluster) {
				url := "docker://registry.example/other"
				c.Catalog.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &url
			},
		},
		{
			name: "disabled", entry: "amd64,arm64", nodes: []string{"amd64", "arm64"},
			then: func(c *cluster) {
				c.Catalog.Spec.DataImportCronTemplates[0].Annotations[v1alpha1.EnableAnnotation] = "false"
			},
			want: both[3:],
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := newCluster(t, catalogOf(image("fedora", c.entry)), c.nodes...)
			cluster.settle()
			if c.then != nil {
				c.then(cluster)
				cluster.settle()
			}
			if diff := cmp.Diff(c.want, cluster.state()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnImageWithoutTheDefaultArchitecture(t *testing.T) {
	c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
	c.lacks = []string{"amd64"}
	c.settle()
	image := c.Catalog.Status.Images[0]
	if image.DefaultArchitecture != "arm64" || pointsTo(c.Sources["fedora"]) != "fedora-arm64" {
		t.Errorf("the default is %q, the pointer has %q", image.DefaultArchitecture, pointsTo(c.Sources["fedora"]))
	}
	if reason := reasonOf(image.Conditions, MissingArchitecture); reason != "True ImagePullFailed" {
		t.Errorf("MissingArchitecture: %s", reason)
	}
}

func reasonOf(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		if c.Type == kind {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func TestInvalidEntries(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []v1alpha1.DataImportCronTemplate
		change  func(*v1alpha1.DataImportCronTemplate)
		reason  string
		message string
	}{
		{"no spec", []v1alpha1.DataImportCronTemplate{image("a", "amd64")}, func(e *v1alpha1.DataImportCronTemplate) { e.Spec = nil }, ReasonInvalid, "spec: Required"},
		{"a name of 58 characters", []v1alpha1.DataImportCronTemplate{image("a", "amd64")}, func(e *v1alpha1.DataImportCronTemplate) { e.Name = strings.Repeat("n", 58) }, ReasonInvalid, "must have at most 57 characters"},
		{"another namespace", []v1alpha1.DataImportCronTemplate{image("a", "amd64")}, func(e *v1alpha1.DataImportCronTemplate) { e.Namespace = "other" }, ReasonInvalid, "metadata.namespace"},
		{"architectures without a registry", []v1alpha1.DataImportCronTemplate{image("a", "amd64")}, func(e *v1alpha1.DataImportCronTemplate) {
			e.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "n", Name: "p"}}
		}, ReasonInvalid, "only images of registries"},
		{"one DataSource of two", []v1alpha1.DataImportCronTemplate{image("a", "amd64"), image("b", "amd64")}, func(e *v1alpha1.DataImportCronTemplate) { e.Spec.ManagedDataSource = "b" }, ReasonDuplicate, `"a-cron" and "b-cron"`},
		{"a DataSource with the suffix of another", []v1alpha1.DataImportCronTemplate{image("a", "amd64"), image("a-arm64", "-")}, func(*v1alpha1.DataImportCronTemplate) {}, ReasonDuplicate, `DataSource "a-arm64"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change(&c.entries[0])
			cluster := newCluster(t, catalogOf(c.entries...), "amd64", "arm64")
			result := Plan(cluster.Input)
			if len(result.Writes) > 0 {
				t.Errorf("%d writes", len(result.Writes))
			}
			for _, image := range result.Images {
				i := slices.IndexFunc(image.Conditions, func(c metav1.Condition) bool { return c.Type == Deployed })
				if got := image.Conditions[i]; got.Status != metav1.ConditionFalse || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
					t.Errorf("%s: %s %s: %s", image.Name, got.Status, got.Reason, got.Message)
				}
			}
		})
	}
}

// A DataSource of another author is not the catalog's without consent. With it, its claim becomes that of the default
// architecture, however long CDI takes to look at what the catalog makes.
func TestOwnership(t *testing.T) {
	for _, slow := range []int{0, 9} {
		t.Run(fmt.Sprintf("CDI looks %d times", slow), func(t *testing.T) { ownership(t, slow) })
	}
}

func ownership(t *testing.T, slow int) {
	theirs := func(c *cluster) {
		source := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Name: "fedora"}}
		source.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Name: "golden"}
		c.Sources["fedora"] = source
		c.resolve()
	}
	c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
	c.slow = slow
	theirs(c)
	c.settle()
	if diff := cmp.Diff([]string{"source fedora ready"}, c.state()); diff != "" || reasonOf(c.Catalog.Status.Images[0].Conditions, Deployed) != "False NameTaken" {
		t.Errorf("without consent: %s %s", diff, reasonOf(c.Catalog.Status.Images[0].Conditions, Deployed))
	}
	c.Sources["fedora"].Annotations = map[string]string{v1alpha1.CatalogAnnotation: "site"}
	c.settle()
	want := []string{"cron fedora-cron-arm64 -> fedora-arm64", "source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready"}
	if diff := cmp.Diff(want, c.state()); diff != "" || c.Sources["fedora-amd64"].Spec.Source.PVC.Name != "golden" {
		t.Errorf("with consent (-want +got):\n%s", diff)
	}
}

// While SSP manages golden images, or one of the objects, nothing is written, and the status has what is there.
func TestObserved(t *testing.T) {
	settled := func(t *testing.T) *cluster {
		t.Helper()
		c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
		c.settle()
		c.Catalog.Spec.DataImportCronTemplates[0].Spec.Schedule = "1 1 * * *"
		return c
	}
	mark := map[string]string{primaryResource: "kubevirt/ssp", primaryResourceType: "SSP.ssp.kubevirt.io"}
	for name, c := range map[string]struct {
		change  func(*cluster)
		message string
	}{
		"a resource of SSP": {func(c *cluster) { c.SSP = "kubevirt/ssp" }, `the SSP resource "kubevirt/ssp" manages golden images`},
		"a marked cron": {func(c *cluster) {
			o := c.Crons["fedora-cron-arm64"]
			o.Annotations = Merged(o.Annotations, mark)
		}, `SSP manages the DataImportCron "fedora-cron-arm64"`},
		"a marked pointer": {func(c *cluster) { c.Sources["fedora"].Labels = map[string]string{managedByLabel: sspOperator} }, `SSP manages the DataSource "fedora"`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := settled(t)
			c.change(cluster)
			result := Plan(cluster.Input)
			got := result.Images[0]
			i := slices.IndexFunc(got.Conditions, func(c metav1.Condition) bool { return c.Type == Deployed })
			if d := got.Conditions[i]; d.Status != metav1.ConditionTrue || d.Reason != ReasonManagedBySSP || d.Message != c.message {
				t.Errorf("Deployed: %s %s: %s", d.Status, d.Reason, d.Message)
			}
			if len(result.Writes) > 0 || len(got.Imports) != 2 || reasonOf(got.Imports[1].Conditions, Imported) != "True Imported" || got.DefaultArchitecture != "amd64" {
				t.Errorf("%d writes, %+v", len(result.Writes), got)
			}
		})
	}
	t.Run("no object", func(t *testing.T) {
		cluster := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
		cluster.SSP = "kubevirt/ssp"
		result := Plan(cluster.Input)
		if reason := reasonOf(result.Images[0].Conditions, Deployed); len(result.Writes) > 0 || reason != "False "+ReasonManagedBySSP {
			t.Errorf("%d writes, Deployed %s", len(result.Writes), reason)
		}
	})
	t.Run("an entry with marks", func(t *testing.T) {
		e := image("fedora", "amd64")
		e.Annotations, e.Labels = Merged(e.Annotations, mark), map[string]string{managedByLabel: sspOperator, "app": "os"}
		cluster := newCluster(t, catalogOf(e), "amd64", "amd64")
		cluster.settle()
		cron := cluster.Crons["fedora-cron-amd64"]
		if managedBySSP(cron) || cron.Labels["app"] != "os" || cron.Annotations[primaryResource] != "" {
			t.Errorf("the cron has labels %v, annotations %v", cron.Labels, cron.Annotations)
		}
	})
}

// A DataSource that another user made with the label of one of the catalog's crons is not taken over: only the cron that manages
// its name counts.
func TestForgedLabel(t *testing.T) {
	c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "amd64")
	c.settle()
	forged := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Name: "fedora-arm64", Labels: map[string]string{CronLabel: "fedora-cron-amd64"}}}
	forged.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Name: "evil"}
	c.Sources[forged.Name] = forged
	c.nodes("amd64", "arm64")
	c.settle()
	if reason := reasonOf(c.Catalog.Status.Images[0].Conditions, Deployed); reason != "False "+ReasonNameTaken || c.Sources["fedora-arm64"].Annotations != nil {
		t.Errorf("Deployed: %s, the DataSource has the annotations %v", reason, c.Sources["fedora-arm64"].Annotations)
	}
}

// The message of CDI comes from an object that other users can write.
func TestLongFailure(t *testing.T) {
	c := newCluster(t, catalogOf(image("fedora", "amd64")), "amd64", "amd64")
	c.Failures["fedora-cron-amd64"] = Failure{Reason: "Error", Message: strings.Repeat("x", 1<<20)}
	result := Plan(c.Input)
	for _, condition := range append(slices.Clone(result.Images[0].Conditions), result.Images[0].Imports[0].Conditions...) {
		if len(condition.Message) > maxMessage {
			t.Errorf("%s has a message of %d bytes", condition.Type, len(condition.Message))
		}
	}
}

// TestSequences makes random changes of the catalog and the nodes, some before the last one has settled. All of them
// settle, no DataSource without a suffix stops to be ready, and the end does not depend on the way.
func TestSequences(t *testing.T) {
	lists := []string{"-", "amd64", "amd64,arm64", "arm64", "s390x", "amd64,arm64,s390x", ""}
	clusters := [][]string{{"amd64", "arm64"}, {"arm64", "amd64", "s390x"}, {"amd64"}, {"s390x", "s390x"}, {"amd64", "amd64", "arm64"}}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same sequences each time
		c := newCluster(t, catalogOf(image("fedora", "amd64,arm64"), image("debian", "-")), clusters[0]...)
		c.slow = int(seed/2%3) * 5
		none := seed%2 == 1
		if none {
			temporarily(&c.Catalog.Spec.DataImportCronTemplates[0])
			temporarily(&c.Catalog.Spec.DataImportCronTemplates[1])
		}
		for range 8 {
			i := r.IntN(2)
			entry := &c.Catalog.Spec.DataImportCronTemplates[i]
			switch r.IntN(4) {
			case 0:
				*entry = image([]string{"fedora", "debian"}[i], lists[r.IntN(len(lists))])
				if none {
					temporarily(entry)
				}
			case 1:
				c.nodes(clusters[r.IntN(len(clusters))]...)
			case 2:
				on := r.IntN(2) == 0
				c.Catalog.Spec.MultiArch = &on
			case 3:
				url := fmt.Sprintf("docker://registry.example/%d", r.IntN(3))
				entry.Spec.Template.Spec.Source.Registry.URL = &url
			}
			for range r.IntN(4) {
				c.step()
			}
			if r.IntN(2) == 0 {
				c.settle()
			}
		}
		c.settle()
		c.complete()
		if none {
			c.noLeftovers()
		}
	}
}

// temporarily sets the retention policy None.
func temporarily(entry *v1alpha1.DataImportCronTemplate) {
	none := cdiv1beta1.DataImportCronRetainNone
	entry.Spec.RetentionPolicy = &none
}

// noLeftovers verifies that each claim is in use, or that its cron exists: CDI deletes the earlier ones of such a cron.
func (c *cluster) noLeftovers() {
	c.t.Helper()
	c.observe()
	for claim, cron := range c.claims {
		if c.Crons[cron] == nil && !c.InUse[Reference{Name: claim}] {
			c.t.Errorf("the claim %s of %s is not deleted; retired: %v\n%s", claim, cron, c.Catalog.Status.Retired, strings.Join(c.history, "\n"))
		}
	}
}

// complete verifies that the crons are those that the catalog needs, and that no image has a problem.
func (c *cluster) complete() {
	c.t.Helper()
	var want []string
	for _, e := range entriesOf(c.Input) {
		for _, t := range e.targets {
			want = append(want, t.cron.Name)
			if pointer := c.Sources[e.source()]; e.multi && !slices.Contains(e.effective, strings.TrimPrefix(pointsTo(pointer), e.source()+"-")) {
				c.t.Errorf("the pointer %s has %q, which is not imported: %v", e.source(), pointsTo(pointer), e.effective)
			}
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, sortedNames(c.Crons)); diff != "" {
		c.t.Errorf("crons (-want +got):\n%s\n%s", diff, strings.Join(c.history, "\n"))
	}
	for _, image := range c.Catalog.Status.Images {
		if reason := reasonOf(image.Conditions, Deployed); reason == "False "+ReasonNameTaken {
			c.t.Errorf("%s: %s", image.Name, reason)
		}
	}
}

func TestKeep(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	counts := func(names ...string) (list []v1alpha1.ArchitectureCount) {
		for _, name := range names {
			list = append(list, v1alpha1.ArchitectureCount{Architecture: name, Nodes: 1})
		}
		return list
	}
	status := &v1alpha1.GoldenImageCatalogStatus{Nodes: v1alpha1.NodeArchitectures{WorkloadArchitectures: counts("amd64", "arm64")}}
	left := v1alpha1.NodeArchitectures{WorkloadArchitectures: counts("amd64")}
	kept, absent, next := Keep(left, status, now, time.Minute)
	if len(kept.WorkloadArchitectures) != 2 || len(absent) != 1 || next != time.Minute {
		t.Errorf("the node has just left: %+v, absent %+v, next %s", kept, absent, next)
	}
	status.Nodes, status.Absent = kept, absent
	if kept, absent, next = Keep(left, status, metav1.NewTime(now.Add(50*time.Second)), time.Minute); len(kept.WorkloadArchitectures) != 2 || !absent[0].Since.Equal(&now) || next != 10*time.Second {
		t.Errorf("50 s later: %+v, absent %+v, next %s", kept, absent, next)
	}
	if kept, absent, next = Keep(left, status, metav1.NewTime(now.Add(time.Minute)), time.Minute); len(kept.WorkloadArchitectures) != 1 || absent != nil || next != 0 {
		t.Errorf("after the delay: %+v, absent %+v, next %s", kept, absent, next)
	}
	if kept, absent, _ = Keep(v1alpha1.NodeArchitectures{WorkloadArchitectures: counts("amd64", "arm64")}, status, now, time.Minute); absent != nil || kept.WorkloadArchitectures[1].Nodes != 1 {
		t.Errorf("the node is back: %+v, absent %+v", kept, absent)
	}
}

func TestSurvey(t *testing.T) {
	node := func(name, architecture, system string, taint corev1.Taint, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		n.Status.NodeInfo.Architecture, n.Status.NodeInfo.OperatingSystem = architecture, system
		if taint.Key != "" {
			n.Spec.Taints = []corev1.Taint{taint}
		}
		return n
	}
	dedicated := corev1.Taint{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}
	cordoned := corev1.Taint{Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &metav1.Time{Time: time.Unix(0, 0)}}
	nodes := []corev1.Node{
		node("c", "s390x", "linux", corev1.Taint{}, controlPlaneLabels[0]),
		node("a", "amd64", "linux", cordoned, workerLabel), node("b", "arm64", "linux", corev1.Taint{}, workerLabel), node("b2", "arm64", "linux", corev1.Taint{}, workerLabel),
		node("w", "amd64", "windows", corev1.Taint{}, workerLabel), node("d", "s390x", "linux", dedicated, workerLabel),
		node("u", "riscv64", "linux", corev1.Taint{}, workerLabel), node("n", " ", "linux", corev1.Taint{}, workerLabel),
	}
	want := v1alpha1.NodeArchitectures{
		WorkloadArchitectures:     []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 1}, {Architecture: "arm64", Nodes: 2}},
		ControlPlaneArchitectures: []v1alpha1.ArchitectureCount{{Architecture: "s390x", Nodes: 1}},
		UnknownArchitectures:      []v1alpha1.ArchitectureCount{{Architecture: "riscv64", Nodes: 1}},
		DefaultArchitecture:       "arm64",
	}
	if diff := cmp.Diff(want, Survey(nodes, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	tolerating := Survey(nodes, &v1alpha1.Placement{Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}})
	if tolerating.DefaultArchitecture != "s390x" {
		t.Errorf("with a toleration, the default is %q: the control plane's", tolerating.DefaultArchitecture)
	}
	if got := Survey(nodes[:1], nil); got.DefaultArchitecture != "s390x" {
		t.Errorf("without a worker all nodes count: %+v", got)
	}
}
