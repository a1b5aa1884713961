package goldenimages

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// catalogAt is a catalog that was created so many seconds after the first one.
func catalogAt(name string, seconds int64, entries ...v1alpha1.DataImportCronTemplate) *v1alpha1.GoldenImageCatalog {
	catalog := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(1000+seconds, 0))}}
	catalog.Spec.DataImportCronTemplates = entries
	return catalog
}

func claimsOf(catalogs ...*v1alpha1.GoldenImageCatalog) []Claims {
	var all []Claims
	for _, c := range catalogs {
		all = append(all, ClaimsOf(c, nil))
	}
	return all
}

func in(catalog *v1alpha1.GoldenImageCatalog, namespace string) *v1alpha1.GoldenImageCatalog {
	catalog.Spec.Namespace = namespace
	return catalog
}

// named is an entry with names for its cron and its DataSource.
func named(cron, source, architectures string) v1alpha1.DataImportCronTemplate {
	if architectures == "" {
		architectures = "-"
	}
	e := image("x", architectures)
	e.Name, e.Spec.ManagedDataSource = cron, source
	return e
}

func TestNamesBelongToTheOldestCatalog(t *testing.T) {
	off, on := false, "amd64,arm64"
	single := catalogAt("single", 0, named("fedora", "fedora", on))
	single.Spec.MultiArch = &off
	disabled := named("fedora", "fedora", on)
	disabled.Annotations[v1alpha1.EnableAnnotation] = "false"
	invalid := named("fedora", "fedora", on)
	invalid.Spec.Schedule = "never"
	for name, c := range map[string]struct {
		others []*v1alpha1.GoldenImageCatalog
		own    *v1alpha1.GoldenImageCatalog
		// taken is the message of the entry of a newer catalog, and of the webhook.
		taken string
	}{
		"another image":              {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("debian", "debian", on))}, catalogAt("own", 9, named("fedora", "fedora", on)), ""},
		"the same cron":              {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("fedora", "other", on))}, catalogAt("own", 9, named("fedora", "fedora", on)), `the catalog "first", which is older, uses the DataImportCron "fedora"`},
		"the same DataSource":        {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("other", "fedora", on))}, catalogAt("own", 9, named("fedora", "fedora", on)), `the catalog "first", which is older, uses the DataSource "fedora"`},
		"a suffixed DataSource":      {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("other", "fedora", on))}, catalogAt("own", 9, named("arm", "fedora-arm64", "")), `the catalog "first", which is older, uses the DataSource "fedora-arm64"`},
		"a suffix of its own":        {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("fedora-s390x", "z", ""))}, catalogAt("own", 9, named("fedora", "fedora", on)), `the catalog "first", which is older, uses the DataImportCron "fedora-s390x"`},
		"no suffixes without them":   {[]*v1alpha1.GoldenImageCatalog{single}, catalogAt("own", 9, named("arm", "fedora-arm64", "")), ""},
		"another namespace":          {[]*v1alpha1.GoldenImageCatalog{in(catalogAt("first", 0, named("fedora", "fedora", on)), "shop")}, catalogAt("own", 9, named("fedora", "fedora", on)), ""},
		"the default namespace":      {[]*v1alpha1.GoldenImageCatalog{in(catalogAt("first", 0, named("fedora", "fedora", on)), v1alpha1.DefaultNamespace)}, catalogAt("own", 9, named("fedora", "fedora", on)), `the catalog "first", which is older, uses the DataImportCron "fedora"`},
		"a disabled entry":           {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, disabled)}, catalogAt("own", 9, named("fedora", "fedora", on)), ""},
		"an invalid entry":           {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, invalid)}, catalogAt("own", 9, named("fedora", "fedora", on)), ""},
		"the oldest of two":          {[]*v1alpha1.GoldenImageCatalog{catalogAt("second", 5, named("fedora", "fedora", on)), catalogAt("first", 0, named("fedora", "fedora", on))}, catalogAt("own", 9, named("fedora", "fedora", on)), `the catalog "first", which is older, uses the DataImportCron "fedora"`},
		"an entry that has no names": {[]*v1alpha1.GoldenImageCatalog{catalogAt("first", 0, named("fedora", "fedora", on)), catalogAt("second", 5, named("fedora", "free", on))}, catalogAt("own", 9, named("x", "free", on)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			conditionOf := func(own *v1alpha1.GoldenImageCatalog, others ...*v1alpha1.GoldenImageCatalog) string {
				c := newCluster(t, own, "amd64", "arm64")
				own.Name = "own"
				c.Others = claimsOf(others...)
				result := Plan(c.Input)
				deployed := meta.FindStatusCondition(result.Images[0].Conditions, Deployed)
				if deployed.Reason != ReasonNameTaken {
					return ""
				}
				if len(result.Writes) > 0 {
					t.Errorf("it writes %v", result.Writes)
				}
				return deployed.Message
			}
			if diff := cmp.Diff(c.taken, conditionOf(c.own.DeepCopy(), c.others...)); diff != "" {
				t.Errorf("the newer catalog (-want +got):\n%s", diff)
			}
			oldest := c.own.DeepCopy()
			oldest.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
			if got := conditionOf(oldest, c.others...); got != "" {
				t.Errorf("the oldest catalog: %s", got)
			}
			var said []string
			for _, e := range Conflicts(oldest, nil, claimsOf(append(c.others, c.own)...)) {
				said = append(said, e.Detail)
			}
			if got := strings.Join(said, "; "); got != strings.Replace(c.taken, ", which is older,", "", 1) {
				t.Errorf("the webhook: %q", got)
			}
		})
	}
}

// A name that is taken leaves the imports of an entry as they are, and its other entries go on.
func TestTakenNamesKeepImports(t *testing.T) {
	c := newCluster(t, &v1alpha1.GoldenImageCatalog{}, "amd64", "arm64")
	c.Catalog.CreationTimestamp = metav1.NewTime(time.Unix(5000, 0))
	c.Catalog.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{named("fedora", "fedora", "amd64,arm64")}
	c.settle()
	before := len(c.Crons)
	c.Others = claimsOf(catalogAt("first", 0, named("fedora", "fedora", "amd64")))
	c.Catalog.Spec.DataImportCronTemplates = append(c.Catalog.Spec.DataImportCronTemplates, named("debian", "debian", "arm64"))
	c.settle()
	if len(c.Crons) != before+1 || !ready(c.Sources["fedora"]) || !ready(c.Sources["debian"]) {
		t.Errorf("%d crons, after %d: %v", len(c.Crons), before, c.history)
	}
	c.Others = nil
	c.settle()
	if condition := meta.FindStatusCondition(c.Catalog.Status.Images[0].Conditions, Deployed); condition.Status != metav1.ConditionTrue {
		t.Errorf("%+v", condition)
	}
}

// A pointer to a pointer is never ready. The condition of the image names both.
func TestPointersToPointers(t *testing.T) {
	c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
	c.settle()
	target := c.Sources["fedora-amd64"]
	target.Annotations = map[string]string{v1alpha1.CatalogAnnotation: "site"}
	target.Spec.Source = sourceOf(target.Namespace, "other")
	deployed := meta.FindStatusCondition(Plan(c.Input).Images[0].Conditions, Deployed)
	const want = `the DataSource "fedora" points to "fedora-amd64", which points to "other"; CDI follows one pointer only`
	if deployed.Status != metav1.ConditionFalse || deployed.Reason != ReasonChained || deployed.Message != want {
		t.Errorf("%+v", deployed)
	}
}
