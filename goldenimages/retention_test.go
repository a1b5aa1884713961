package goldenimages

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

// TestRetentionNone changes an image whose retention policy is None. CDI never deletes an image that a DataSource needs, because
// the DataImportCrons retain all of them.
func TestRetentionNone(t *testing.T) {
	url := func(c *cluster) {
		other := "docker://registry.example/other"
		c.Catalog.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &other
	}
	const amd64, arm64 = "fedora-amd64-docker---registry.example-fedora", "fedora-arm64-docker---registry.example-fedora"
	for name, c := range map[string]struct {
		then func(*cluster)
		want []string
		// kept are the claims afterwards.
		kept []string
	}{
		"off": {
			func(c *cluster) { off := false; c.Catalog.Spec.MultiArch = &off },
			[]string{"cron fedora-cron -> fedora", "source fedora ready"},
			[]string{"fedora-docker---registry.example-fedora"},
		},
		"an architecture leaves": {
			func(c *cluster) { c.nodes("amd64", "amd64") },
			[]string{"cron fedora-cron-amd64 -> fedora-amd64", "source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready"},
			[]string{amd64},
		},
		"the default architecture leaves": {
			func(c *cluster) { c.nodes("arm64", "arm64") },
			[]string{"cron fedora-cron-arm64 -> fedora-arm64", "source fedora -> fedora-arm64 (arm64) ready", "source fedora-arm64 (arm64) ready"},
			[]string{arm64},
		},
		"all architectures leave": {func(c *cluster) { c.nodes("s390x", "s390x") }, nil, nil},
		"the entry is removed":    {func(c *cluster) { c.Catalog.Spec.DataImportCronTemplates = nil }, nil, nil},
		"the entry is disabled": {
			func(c *cluster) {
				c.Catalog.Spec.DataImportCronTemplates[0].Annotations[v1alpha1.EnableAnnotation] = "false"
			}, nil, nil,
		},
		"an image in use": {
			func(c *cluster) {
				theirs := &cdiv1beta1.DataSource{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: "elsewhere"}}
				theirs.Spec.Source.PVC = &cdiv1beta1.DataVolumeSourcePVC{Name: arm64, Namespace: NamespaceOf(c.Catalog)}
				c.Sources["theirs"] = theirs
				c.nodes("amd64", "amd64")
			},
			[]string{"cron fedora-cron-amd64 -> fedora-amd64", "source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready", "source theirs ready"},
			[]string{amd64, arm64},
		},
		"another URL": {
			url,
			[]string{
				"cron fedora-cron-amd64 -> fedora-amd64", "cron fedora-cron-arm64 -> fedora-arm64",
				"source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready",
			},
			// The earlier ones are CDI's to delete, by importsToKeep.
			[]string{amd64, "fedora-amd64-docker---registry.example-other", arm64, "fedora-arm64-docker---registry.example-other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
			temporarily(&cluster.Catalog.Spec.DataImportCronTemplates[0])
			cluster.settle()
			for _, cron := range cluster.Crons {
				if *cron.Spec.RetentionPolicy != cdiv1beta1.DataImportCronRetainAll {
					t.Errorf("the cron %s has %s", cron.Name, *cron.Spec.RetentionPolicy)
				}
			}
			c.then(cluster)
			cluster.settle()
			if diff := cmp.Diff(c.want, cluster.state()); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.kept, sortedNames(cluster.claims)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

// A cron is deleted only after the status says that its images are to be deleted: otherwise nothing does after a crash.
func TestRetiredBeforeDeleted(t *testing.T) {
	c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
	temporarily(&c.Catalog.Spec.DataImportCronTemplates[0])
	c.settle()
	c.nodes("amd64", "amd64")
	for !c.step() {
		for _, claim := range sortedNames(c.claims) {
			if cron := c.claims[claim]; c.Crons[cron] == nil && !c.wasRetired(cron) {
				t.Fatalf("the cron %s is deleted, and the status has %v", cron, c.Catalog.Status.Retired)
			}
		}
	}
	if len(c.Catalog.Status.Retired) > 0 {
		t.Errorf("still retired: %v", c.Catalog.Status.Retired)
	}
}

// An architecture that comes back keeps its images.
func TestRetiredAndBack(t *testing.T) {
	for steps := range 8 {
		c := newCluster(t, catalogOf(image("fedora", "amd64,arm64")), "amd64", "arm64")
		temporarily(&c.Catalog.Spec.DataImportCronTemplates[0])
		c.settle()
		want := c.state()
		c.nodes("amd64", "amd64")
		for range steps {
			c.step()
		}
		c.nodes("amd64", "arm64")
		c.settle()
		if diff := cmp.Diff(want, c.state()); diff != "" || len(c.claims) != 2 {
			t.Errorf("after %d steps: claims %v (-want +got):\n%s", steps, c.claims, diff)
		}
	}
}

// The list of the status is bounded.
func TestRetiredIsBounded(t *testing.T) {
	c := newCluster(t, catalogOf(), "amd64", "arm64")
	for i := range maxRetired/2 + 20 {
		e := image(fmt.Sprintf("i%d", i), "amd64,arm64")
		temporarily(&e)
		c.Catalog.Spec.DataImportCronTemplates = append(c.Catalog.Spec.DataImportCronTemplates, e)
	}
	c.settle()
	c.Catalog.Spec.DataImportCronTemplates = nil
	for !c.step() {
		if got := len(c.Catalog.Status.Retired); got > maxRetired {
			t.Fatalf("%d are retired at the same time", got)
		}
	}
	if len(c.claims) > 0 || len(c.Crons) > 0 || len(c.Sources) > 0 {
		t.Errorf("%d claims, %d crons, %d DataSources are left", len(c.claims), len(c.Crons), len(c.Sources))
	}
}

// A DataImportCron that the catalog took over can have the retention policy None: CDI would delete its image with it.
func TestTakenOverWithRetentionNone(t *testing.T) {
	e := image("fedora", "-")
	c := newCluster(t, catalogOf(e), "amd64", "amd64")
	old := cronOf(c.Catalog, &entry{DataImportCronTemplate: &e}, "")
	none := cdiv1beta1.DataImportCronRetainNone
	old.OwnerReferences, old.Spec.RetentionPolicy, old.Spec.Schedule = nil, &none, "5 5 * * *"
	c.Crons[old.Name] = old
	for range 3 {
		c.cdi()
	}
	old.Status.LastImportedPVC = c.Sources["fedora"].Spec.Source.PVC
	c.settle()
	if reason := reasonOf(c.Catalog.Status.Images[0].Conditions, Deployed); reason != "False "+ReasonRetentionNone || c.Crons[old.Name].Spec.Schedule != "5 5 * * *" {
		t.Errorf("Deployed: %s", reason)
	}
	c.Catalog.Spec.DataImportCronTemplates[0].Name = "renamed"
	other := "docker://registry.example/renamed"
	c.Catalog.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &other
	for !c.step() {
		if c.Crons[old.Name] == nil && c.Sources["fedora"].Spec.Source.PVC.Name == old.Status.LastImportedPVC.Name {
			t.Fatal("the cron is deleted before the new one has imported the image")
		}
	}
	if diff := cmp.Diff([]string{"renamed"}, sortedNames(c.Crons)); diff != "" || !slices.Contains(c.state(), "source fedora ready") {
		t.Errorf("%s\n%v", diff, c.state())
	}
}
