package goldenimages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/image/v1alpha1"
)

var unreachable = &Failure{"SourceUnreachable", "the server does not answer in time"}

func TestVerified(t *testing.T) {
	list := func(text string) []string { return strings.Fields(text) }
	for _, test := range []struct {
		listed, found string
		variants      string
		before        string
		failure       *Failure
		want          string
	}{
		{listed: "amd64 arm64", found: "amd64 arm64", want: "True Verified the manifest has [amd64 arm64]"},
		{listed: "arm64 amd64", found: "amd64 arm64 ppc64le", want: "True Verified the manifest has [amd64 arm64 ppc64le]"},
		{found: "amd64 arm64", want: "True Verified the manifest has [amd64 arm64]"},
		{listed: "amd64 arm64", found: "amd64", want: "False ArchitecturesMissing the entry lists [arm64], which the manifest does not have: it has [amd64]"},
		{listed: "amd64 arm64", found: "amd64 s390x", want: "False ArchitecturesMissing the entry lists [arm64], which the manifest does not have: it has [amd64 s390x]"},
		{listed: "amd64", found: "amd64 arm64 ppc64le", want: "False ArchitecturesNotListed the manifest has [arm64], which the entry does not list: it lists [amd64]"},
		{listed: "amd64 arm64", found: "amd64 arm64", variants: "arm64/v8", want: "True Verified the manifest has [amd64 arm64/v8]"},
		{listed: "arm64", found: "arm64", variants: "amd64/v3 arm64/v8", want: "True Verified the manifest has [arm64/v8], and the variants [amd64/v3], which CDI does not import"},
		{listed: "amd64", found: "arm64", variants: "amd64/v3", want: "False ArchitecturesMissing the entry lists [amd64], which the manifest does not have: it has [arm64], and the variants [amd64/v3], which CDI does not import"},
		{listed: "amd64", want: "Unknown ManifestPending the registry has not answered yet"},
		{listed: "amd64", failure: unreachable, want: "Unknown SourceUnreachable the server does not answer in time"},
		{listed: "amd64", found: "amd64", failure: unreachable, want: "True Verified the manifest has [amd64]; the last read failed: the server does not answer in time"},
		{listed: "amd64", found: "s390x", failure: unreachable, want: "False ArchitecturesMissing the entry lists [amd64], which the manifest does not have: it has [s390x]; the last read failed: the server does not answer in time"},
		{before: "amd64", failure: unreachable, want: "Unknown SourceUnreachable the server does not answer in time; before, old had [amd64]"},
	} {
		m := &manifest{url: "new", architectures: list(test.found), variants: list(test.variants), failure: test.failure}
		if test.before != "" {
			m.last = &v1alpha1.ImageManifest{URL: "old", Architectures: list(test.before)}
		}
		status, why := verified(list(test.listed), m)
		if got := fmt.Sprintf("%s %s %s", status, why.reason, why.message); got != test.want {
			t.Errorf("%s of %s:\n%s, want\n%s", test.listed, test.found, got, test.want)
		}
	}
}

func TestRegistry(t *testing.T) {
	change := func(how func(*v1alpha1.GoldenImageCatalog, *cdiv1beta1.DataVolumeSourceRegistry)) *v1alpha1.GoldenImageCatalog {
		c := catalogOf(image("fedora", "-"))
		c.Spec.VerifyManifest = true
		how(c, c.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry)
		return c
	}
	type catalog = v1alpha1.GoldenImageCatalog
	type source = cdiv1beta1.DataVolumeSourceRegistry
	off, archive := false, "oci-archive://registry.example/a"
	for name, test := range map[string]struct {
		catalog     *catalog
		read, fills bool
	}{
		"without an annotation": {change(func(*catalog, *source) {}), true, true},
		"with an annotation": {change(func(c *catalog, _ *source) {
			c.Spec.DataImportCronTemplates[0].Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: ""}
		}), true, false},
		"with a platform": {change(func(_ *catalog, s *source) { s.Platform = &cdiv1beta1.PlatformOptions{Architecture: "arm64"} }), true, false},
		"multiArch false": {change(func(c *catalog, _ *source) { c.Spec.MultiArch = &off }), true, false},
		"not verified":    {change(func(c *catalog, _ *source) { c.Spec.VerifyManifest = false }), false, false},
		"an archive":      {change(func(_ *catalog, s *source) { s.URL = &archive }), false, false},
		"no URL":          {change(func(_ *catalog, s *source) { s.URL = nil }), false, false},
		"a claim": {change(func(c *catalog, _ *source) {
			c.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry = nil
		}), false, false},
		"no spec": {change(func(c *catalog, _ *source) { c.Spec.DataImportCronTemplates[0].Spec = nil }), false, false},
		"disabled": {change(func(c *catalog, _ *source) {
			c.Spec.DataImportCronTemplates[0].Annotations = map[string]string{v1alpha1.EnableAnnotation: "false"}
		}), false, false},
	} {
		entry := &test.catalog.Spec.DataImportCronTemplates[0]
		if read, fills := Registry(test.catalog, entry) != nil, fillsIn(test.catalog, entry); read != test.read || fills != test.fills {
			t.Errorf("%s: read %v, fills in %v", name, read, fills)
		}
	}
}

// verifying is a cluster with one entry, whose manifest is read.
func verifying(t *testing.T, annotation string, nodes ...string) *cluster {
	t.Helper()
	catalog := catalogOf(image("fedora", annotation))
	catalog.Spec.VerifyManifest = true
	c := newCluster(t, catalog, nodes...)
	c.Manifests = map[string]Manifest{}
	return c
}

func (c *cluster) reads(architectures ...string) {
	c.Manifests["fedora-cron"] = Manifest{Architectures: architectures}
}

// fails is a read that fails after those of the process, or as the first one of a process.
func (c *cluster) fails(first bool) {
	m := Manifest{Failure: unreachable}
	if !first {
		m.Architectures = c.Manifests["fedora-cron"].Architectures
	}
	c.Manifests["fedora-cron"] = m
}

func (c *cluster) restarts() { delete(c.Manifests, "fedora-cron") }

func (c *cluster) url(url string) {
	c.Catalog.Spec.DataImportCronTemplates[0].Spec.Template.Spec.Source.Registry.URL = &url
	c.restarts()
}

// condition is STATUS REASON of a condition of the image.
func (c *cluster) condition(kind string) string {
	if found := meta.FindStatusCondition(c.Catalog.Status.Images[0].Conditions, kind); found != nil {
		return string(found.Status) + " " + found.Reason
	}
	return ""
}

func TestManifests(t *testing.T) {
	nodes := []string{"amd64", "arm64"}
	both := []string{
		"cron fedora-cron-amd64 -> fedora-amd64", "cron fedora-cron-arm64 -> fedora-arm64",
		"source fedora -> fedora-amd64 (amd64) ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready",
	}
	single := []string{"cron fedora-cron -> fedora", "source fedora ready"}
	for _, test := range []struct {
		name       string
		annotation string
		nodes      []string
		then       []func(*cluster)
		want       []string
		deployed   string
		verified   string
	}{
		{name: "nothing is imported before the registry answers", deployed: "False ManifestPending", verified: "Unknown ManifestPending"},
		{name: "one import if it does not answer", then: []func(*cluster){func(c *cluster) { c.fails(true) }}, want: single, deployed: "True Deployed", verified: "Unknown SourceUnreachable"},
		{name: "an import for each architecture of the manifest", then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64", "ppc64le") }}, want: both, deployed: "True Deployed", verified: "True Verified"},
		{
			name: "it answers later", want: both, deployed: "True Deployed", verified: "True Verified",
			then: []func(*cluster){func(c *cluster) { c.fails(true) }, func(c *cluster) { c.reads("amd64", "arm64") }},
		},
		{
			name: "it fails later", want: both, deployed: "True Deployed", verified: "True Verified",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64") }, func(c *cluster) { c.fails(false) }},
		},
		{
			name: "it fails after a restart", want: both, deployed: "True Deployed", verified: "True Verified",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64") }, (*cluster).restarts, func(c *cluster) { c.fails(true) }},
		},
		{
			name: "one import stays one after a restart", want: single, deployed: "True Deployed", verified: "Unknown ManifestPending",
			then: []func(*cluster){func(c *cluster) { c.fails(true) }, (*cluster).restarts},
		},
		{
			name: "another URL waits for its answer", want: both, deployed: "False ManifestPending", verified: "Unknown ManifestPending",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64") }, func(c *cluster) { c.url("docker://registry.example/other") }},
		},
		{
			name: "another URL without an answer has the architectures of the last one", want: both, deployed: "True Deployed", verified: "Unknown SourceUnreachable",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64") }, func(c *cluster) { c.url("docker://registry.example/other") }, func(c *cluster) { c.fails(true) }},
		},
		{
			name: "the annotation is removed, and no answer is known", annotation: "amd64,arm64", want: both, deployed: "True Deployed", verified: "Unknown SourceUnreachable",
			then: []func(*cluster){func(c *cluster) { c.fails(true) }, func(c *cluster) { c.Catalog.Spec.DataImportCronTemplates[0].Annotations = nil }},
		},
		{
			name: "the image loses an architecture", deployed: "True Deployed", verified: "True Verified",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64", "arm64") }, func(c *cluster) { c.reads("arm64") }},
			want: []string{"cron fedora-cron-arm64 -> fedora-arm64", "source fedora -> fedora-arm64 (arm64) ready", "source fedora-amd64 (amd64) ready", "source fedora-arm64 (arm64) ready"},
		},
		{
			name: "the annotation decides", annotation: "amd64,arm64", want: both, deployed: "True Deployed", verified: "False ArchitecturesMissing",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64") }},
		},
		{name: "no architecture of the nodes", then: []func(*cluster){func(c *cluster) { c.reads("s390x") }}, deployed: "False UnsupportedArchitectures", verified: "True Verified"},
		{name: "a cluster with one node does not wait", nodes: []string{"amd64"}, want: single, deployed: "True Deployed", verified: "Unknown ManifestPending"},
		{
			name: "no longer verified", want: single, deployed: "True Deployed",
			then: []func(*cluster){func(c *cluster) { c.reads("amd64") }, func(c *cluster) { c.Catalog.Spec.VerifyManifest = false }},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.nodes == nil {
				test.nodes = nodes
			}
			if test.annotation == "" {
				test.annotation = "-"
			}
			c := verifying(t, test.annotation, test.nodes...)
			c.settle()
			for _, then := range test.then {
				then(c)
				c.settle()
			}
			got := c.state()
			if strings.HasPrefix(test.name, "no longer") { // the images of architectures stay
				got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "source fedora-") })
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if got := c.condition(Deployed); got != test.deployed {
				t.Errorf("%s: %s, want %s", Deployed, got, test.deployed)
			}
			if got := c.condition(ManifestVerified); got != test.verified {
				t.Errorf("%s: %s, want %s", ManifestVerified, got, test.verified)
			}
		})
	}
}

// TestManifestsFail makes random changes and reads. A read that fails removes no DataImportCron.
func TestManifestsFail(t *testing.T) {
	answers := [][]string{{"amd64"}, {"amd64", "arm64"}, {"arm64", "s390x"}, {"ppc64le"}}
	lists := []string{"-", "-", "amd64", "amd64,arm64"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // the same sequences each time
		c := verifying(t, "-", "amd64", "arm64", "s390x")
		for range 8 {
			switch r.IntN(5) {
			case 0:
				annotated := image("fedora", lists[r.IntN(len(lists))])
				c.Catalog.Spec.DataImportCronTemplates[0].Annotations = annotated.Annotations
			case 1:
				c.url(fmt.Sprintf("docker://registry.example/%d", r.IntN(3)))
			default:
				c.reads(answers[r.IntN(len(answers))]...)
			}
			if r.IntN(3) > 0 {
				c.settle()
			}
		}
		c.settle()
		if r.IntN(2) == 0 {
			c.restarts()
			c.settle()
		}
		before := sortedNames(c.Crons)
		c.fails(len(c.Manifests) == 0)
		c.settle()
		if gone := without(before, sortedNames(c.Crons)); len(gone) > 0 {
			t.Fatalf("seed %d: %v were removed:\n%s", seed, gone, strings.Join(c.history, "\n"))
		}
	}
}

// TestClaimsOfManifests: an entry without an annotation can get the names of all architectures.
func TestClaimsOfManifests(t *testing.T) {
	c := catalogOf(image("fedora", "-"))
	c.Name = "site"
	if ClaimsOf(c, nil).Names[0].Suffixed {
		t.Error("an image that is imported once uses names with suffixes")
	}
	c.Spec.VerifyManifest = true
	if claims := ClaimsOf(c, nil); len(claims.Names) != 1 || !claims.Names[0].Suffixed {
		t.Errorf("an image whose manifest is read: %+v", claims.Names)
	}
	other := catalogOf(image("fedora-arm64", "-"))
	other.Name = "other"
	if found := Conflicts(other, nil, []Claims{ClaimsOf(c, nil)}); len(found) == 0 {
		t.Error("no conflict with the name of an architecture")
	}
	long := catalogOf(image(strings.Repeat("a", 57), "-"))
	if errs := Validate(long); len(errs) > 0 {
		t.Error(errs)
	}
	long.Spec.VerifyManifest = true
	if errs := Validate(long); len(errs) == 0 || !strings.Contains(errs[0].Error(), "suffix of an architecture") {
		t.Errorf("a long name: %v", errs)
	}
}
