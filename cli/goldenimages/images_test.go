package goldenimages_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
)

const (
	catalogsPath = "/apis/image.virtward.io/v1alpha1/goldenimagecatalogs"
	importerPath = "/apis/cdi.kubevirt.io/v1beta1/namespaces/images/"
	cronsPath    = importerPath + "dataimportcrons"
	sourcesPath  = importerPath + "datasources"
	volumesPath  = importerPath + "datavolumes"
)

var longAgo = metav1.NewTime(time.Now().Add(-49 * time.Hour))

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: longAgo}
}

func entry(name, architectures string) v1alpha1.DataImportCronTemplate {
	url := "docker://registry.example/" + name
	e := v1alpha1.DataImportCronTemplate{ObjectMeta: metav1.ObjectMeta{Name: name + "-cron"}, Spec: &cdiv1beta1.DataImportCronSpec{ManagedDataSource: name}}
	if architectures != "" {
		e.Annotations = map[string]string{v1alpha1.ArchitecturesAnnotation: architectures}
	}
	e.Spec.Template.Spec.Source = &cdiv1beta1.DataVolumeSource{Registry: &cdiv1beta1.DataVolumeSourceRegistry{URL: &url}}
	return e
}

// deployed is the state of an image. Each import has a line ARCHITECTURE STATUS REASON MESSAGE.
func deployed(name, byDefault string, imports ...string) v1alpha1.Image {
	image := v1alpha1.Image{Name: name + "-cron", DataSource: name, DefaultArchitecture: byDefault, Conditions: []metav1.Condition{condition("Deployed", "True", "Deployed", "")}}
	for _, line := range imports {
		words := strings.SplitN(line, " ", 4)
		suffix := strings.TrimSuffix("-"+words[0], "-")
		if words[0] != "" {
			image.Architectures = append(image.Architectures, words[0])
		}
		image.Imports = append(image.Imports, v1alpha1.Import{
			Architecture: words[0], DataImportCron: name + "-cron" + suffix, DataSource: name + suffix,
			Conditions: []metav1.Condition{condition("Imported", words[1], words[2], words[3])},
		})
	}
	return image
}

func undeployed(name, reason, message string) v1alpha1.Image {
	return v1alpha1.Image{Name: name + "-cron", DataSource: name, Conditions: []metav1.Condition{condition("Deployed", "False", reason, message)}}
}

// site is a catalog with an image in each state.
func site() *v1alpha1.GoldenImageCatalog {
	c := &v1alpha1.GoldenImageCatalog{ObjectMeta: metav1.ObjectMeta{Name: "site", Generation: 2}}
	c.Spec.Namespace = "images"
	c.Spec.RemovalDelay = &metav1.Duration{Duration: time.Hour}
	c.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{
		entry("fedora", "amd64,arm64,s390x,ppc64le"), entry("debian", "amd64,arm64,s390x"), entry("windows", "amd64"), entry("legacy", ""),
		entry("ubuntu", "amd64"), entry("off", "amd64"), entry("power", "ppc64le"), entry("new", "amd64"),
	}
	c.Spec.CommonImages = true
	common := deployed("common", "amd64", "amd64 True Imported ")
	common.OriginalArchitectures = []string{"amd64", "s390x"}
	c.Status = v1alpha1.GoldenImageCatalogStatus{
		ObservedGeneration: 2,
		Nodes: v1alpha1.NodeArchitectures{
			WorkloadArchitectures:     []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 2}, {Architecture: "arm64", Nodes: 3}, {Architecture: "s390x"}},
			ControlPlaneArchitectures: []v1alpha1.ArchitectureCount{{Architecture: "amd64", Nodes: 1}},
			UnknownArchitectures:      []v1alpha1.ArchitectureCount{{Architecture: "riscv64", Nodes: 1}},
			DefaultArchitecture:       "amd64",
		},
		Absent:     []v1alpha1.AbsentArchitecture{{Architecture: "s390x", Since: metav1.NewTime(time.Now().Add(-30 * time.Minute))}},
		Conditions: []metav1.Condition{condition("Ready", "False", "Pending", "DataSource debian-arm64: the pull fails")},
		Images: []v1alpha1.Image{
			deployed("fedora", "amd64", "amd64 True Imported ", "arm64 False Pending the image is not imported yet", "s390x True Imported "),
			deployed("debian", "amd64", "amd64 True Imported ", "arm64 False ImagePullFailed no image found for\nlinux/arm64"),
			deployed("windows", "amd64", "amd64 False Unschedulable 0/5 nodes are available"),
			deployed("legacy", "", " True Imported "),
			common,
			undeployed("ubuntu", "NameTaken", `the DataSource "ubuntu" exists and does not belong to the catalog; the annotation image.virtward.io/catalog on it permits the catalog to manage it`),
			undeployed("off", "Disabled", "the annotation dataimportcrontemplate.kubevirt.io/enable is not true"),
			undeployed("power", "UnsupportedArchitectures", "no node has an architecture of the image"),
		},
	}
	return c
}

// cluster has the catalog, and CDI's objects of some images.
func cluster(t *testing.T, all ...*v1alpha1.GoldenImageCatalog) map[string]string {
	t.Helper()
	catalogs := &v1alpha1.GoldenImageCatalogList{TypeMeta: metav1.TypeMeta{APIVersion: "image.virtward.io/v1alpha1", Kind: "GoldenImageCatalogList"}}
	for _, c := range all {
		c.TypeMeta = metav1.TypeMeta{APIVersion: "image.virtward.io/v1alpha1", Kind: "GoldenImageCatalog"}
		catalogs.Items = append(catalogs.Items, *c)
	}
	source := func(name, ready, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":%q,"namespace":"images"},"spec":{"source":%s},"status":{"conditions":[{"type":"Ready","status":%q,"reason":"NoSource","message":"no source"}]}}`, name, spec, ready)
	}
	cron := func(name, status string) string {
		return fmt.Sprintf(`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataImportCron","metadata":{"name":%q,"namespace":"images"},"spec":{"managedDataSource":"x","schedule":"","template":{"metadata":{},"spec":{}}},"status":%s}`, name, status)
	}
	volume := func(name, of, progress string) string {
		return fmt.Sprintf(`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolume","metadata":{"name":%q,"namespace":"images","labels":{"cdi.kubevirt.io/dataImportCron":%q}},"spec":{},"status":{"phase":"ImportInProgress","progress":%q}}`, name, of, progress)
	}
	list := func(kind string, items ...string) string {
		return fmt.Sprintf(`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"%sList","items":[%s]}`, kind, strings.Join(items, ","))
	}
	to := func(name string) string { return fmt.Sprintf(`{"dataSource":{"namespace":"images","name":%q}}`, name) }
	return map[string]string{
		catalogsPath: encoded(t, catalogs),
		sourcesPath: list("DataSource", source("fedora", "True", to("fedora-amd64")), source("fedora-amd64", "True", "{}"), source("fedora-s390x", "True", "{}"), source("debian", "True", to("debian-amd64")),
			source("windows", "False", to("windows-arm64")), source("ubuntu", "True", "{}"), source("power-arm64", "True", "{}"), source("legacy", "True", "{}")),
		cronsPath: list("DataImportCron", cron("fedora-cron-amd64", `{"lastImportTimestamp":"`+time.Now().Add(-5*time.Hour).UTC().Format(time.RFC3339)+`"}`),
			cron("fedora-cron-arm64", `{"currentImports":[{"DataVolumeName":"fedora-arm64-new","Digest":"x"}]}`), cron("debian-cron-arm64", `{}`), cron("windows-cron-amd64", "{}")),
		volumesPath: list("DataVolume", volume("fedora-arm64-old", "fedora-cron-arm64", "99.0%"), volume("fedora-arm64-new", "fedora-cron-arm64", "42.71%")),
	}
}

func encoded(t *testing.T, object any) string {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func run(t *testing.T, objects map[string]string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append(append([]string{"golden"}, args...), "--kubeconfig", clitest.APIServer(t, objects))...)
}

// TestGolden compares what the commands print.
func TestGolden(t *testing.T) {
	objects := cluster(t, site())
	for name, args := range map[string][]string{
		"list": {"list"}, "list-wide": {"list", "-o", "wide"}, "list-name": {"list", "-o", "name"}, "status": {"status", "site"},
		"why-ready": {"why", "fedora"}, "why-failed": {"why", "debian-cron"}, "why-unschedulable": {"why", "windows"}, "why-once": {"why", "legacy"}, "why-once-suffix": {"why", "legacy-arm64"},
		"why-taken": {"why", "ubuntu"}, "why-disabled": {"why", "off"}, "why-unsupported": {"why", "power"}, "why-new": {"why", "new"}, "why-importing": {"why", "fedora-arm64"},
		"why-common": {"why", "common"}, "why-missing": {"why", "windows-arm64"}, "why-unlisted": {"why", "windows-s390x"}, "why-absent": {"why", "debian-s390x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, objects, args...)
			clitest.Golden(t, name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.Out, got.ErrOut, got.Code))
		})
	}
}

// verifying is a catalog that reads manifests.
func verifying() *v1alpha1.GoldenImageCatalog {
	c := site()
	c.Spec.VerifyManifest, c.Spec.CommonImages = true, false
	c.Spec.DataImportCronTemplates = []v1alpha1.DataImportCronTemplate{entry("fedora", ""), entry("debian", "amd64,arm64"), entry("legacy", "")}
	verified := func(image v1alpha1.Image, status, reason, message string) v1alpha1.Image {
		image.Conditions = append(image.Conditions, condition("ManifestVerified", status, reason, message))
		return image
	}
	filled := verified(deployed("fedora", "amd64", "amd64 True Imported "), "True", "Verified", "the manifest has [amd64 s390x]")
	filled.OriginalArchitectures = []string{"amd64", "s390x"}
	c.Status.Images = []v1alpha1.Image{
		filled,
		verified(deployed("debian", "amd64", "amd64 True Imported ", "arm64 True Imported "), "False", "ArchitecturesMissing", "the entry lists [arm64], which the manifest does not have: it has [amd64]"),
		verified(deployed("legacy", "", " True Imported "), "Unknown", "CredentialsForbidden", "Virtward may not read the Secret"),
	}
	return c
}

// TestManifests: architectures come from the manifest if the entry lists none, and why says what the manifest has.
func TestManifests(t *testing.T) {
	objects := cluster(t, verifying())
	for name, args := range map[string][]string{
		"manifest-list": {"list"}, "manifest-filled": {"why", "fedora"}, "manifest-missing": {"why", "fedora-arm64"}, "manifest-differs": {"why", "debian"}, "manifest-unknown": {"why", "legacy"},
	} {
		got := run(t, objects, args...)
		clitest.Golden(t, name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.Out, got.ErrOut, got.Code))
	}
}

// TestUnread is what users see who may read the catalog, and nothing of CDI.
func TestUnread(t *testing.T) {
	objects := cluster(t, site())
	for _, path := range []string{cronsPath, sourcesPath, volumesPath} {
		objects[path] = clitest.Forbidden
	}
	for name, args := range map[string][]string{"unread-list": {"list"}, "unread-why": {"why", "fedora"}} {
		got := run(t, objects, args...)
		clitest.Golden(t, name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.Out, got.ErrOut, got.Code))
	}
	delete(objects, cronsPath)
	if got := run(t, objects, "list"); got.ErrOut != "note: the cluster has no CDI (cdi.kubevirt.io), which imports images\n" || got.Code != clitest.ExitOK {
		t.Errorf("without CDI: %+v", got)
	}
}

func TestObjects(t *testing.T) {
	type listed struct {
		Images []struct {
			Catalog, Entry, DataSource, DefaultArchitecture, Reason string
			Imports                                                 []struct{ Architecture, State, Progress, Reason, DataImportCron string }
		}
	}
	for output, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": func(b []byte, o any) error { return yaml.Unmarshal(b, o) }} {
		var all listed
		got := run(t, cluster(t, site()), "list", "-o", output)
		clitest.Decode(t, decode, got.Out, &all)
		if len(all.Images) != 9 {
			t.Fatalf("%s: %+v", output, all)
		}
		fedora := all.Images[2]
		if fedora.DataSource != "fedora" || fedora.DefaultArchitecture != "amd64" || len(fedora.Imports) != 3 || fedora.Imports[1].State != "Importing" || fedora.Imports[1].Progress != "42%" || fedora.Imports[1].DataImportCron != "fedora-cron-arm64" {
			t.Errorf("%s: %+v", output, fedora)
		}
	}
	empty := run(t, cluster(t), "list", "-o", "json")
	if strings.Join(strings.Fields(empty.Out), "") != `{"images":[]}` {
		t.Errorf("no image: %s", empty.Out)
	}
}

func TestExits(t *testing.T) {
	ready, other := site(), site()
	ready.Status.Conditions = []metav1.Condition{condition("Ready", "True", "Imported", "")}
	other.Name = "other"
	behind := site()
	behind.Generation = 3
	broken := cluster(t, site())
	broken[cronsPath] = `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataImportCronList","items":[{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataImportCron","metadata":{"name":"x"},"spec":7}]}`
	without := maps.Clone(cluster(t, site()))
	delete(without, catalogsPath)
	for name, test := range map[string]struct {
		objects map[string]string
		args    []string
		code    int
		want    string
	}{
		"a catalog that is ready":     {cluster(t, ready), []string{"status"}, clitest.ExitOK, "GoldenImageCatalog site, namespace images\n"},
		"one that is not":             {cluster(t, ready, other), []string{"status"}, clitest.ExitFailed, "error: not ready: other\n"},
		"one that is behind":          {cluster(t, behind), []string{"status"}, clitest.ExitFailed, "Virtward has not read the last change of the catalog yet."},
		"no catalog":                  {cluster(t), []string{"status"}, clitest.ExitOK, "No GoldenImageCatalogs found.\n"},
		"no image":                    {cluster(t), []string{"list"}, clitest.ExitOK, "No golden images found.\n"},
		"no such catalog":             {cluster(t, site()), []string{"status", "main"}, clitest.ExitFailed, `error: there is no GoldenImageCatalog "main"`},
		"catalogs are not installed":  {without, []string{"list"}, clitest.ExitFailed, "install the chart of Virtward with goldenImages.enabled=true"},
		"another namespace":           {cluster(t, site()), []string{"list", "-n", "shop"}, clitest.ExitOK, "No golden images found."},
		"an unknown image":            {cluster(t, site()), []string{"why", "suse"}, clitest.ExitFailed, `error: no catalog has an image "suse": the images are common, debian, fedora, legacy, new, off, power, ubuntu, windows` + "\n"},
		"an image of two catalogs":    {cluster(t, site(), other), []string{"why", "fedora"}, clitest.ExitUsage, `several catalogs have an image "fedora": add --catalog other or --catalog site`},
		"one of them":                 {cluster(t, site(), other), []string{"why", "fedora", "--catalog", "other"}, clitest.ExitOK, "GoldenImageCatalog other"},
		"why without a name":          {cluster(t), []string{"why"}, clitest.ExitUsage, "name one image: see kubectl virtward golden why --help"},
		"a name that is given twice":  {cluster(t), []string{"status", "a", "--catalog", "b"}, clitest.ExitUsage, "name the catalog once"},
		"two catalogs":                {cluster(t), []string{"status", "a", "b"}, clitest.ExitUsage, "accepts at most one catalog"},
		"an unknown output":           {cluster(t), []string{"list", "-o", "text"}, clitest.ExitUsage, `unknown output "text"`},
		"an argument of list":         {cluster(t), []string{"list", "fedora"}, clitest.ExitUsage, "takes no arguments"},
		"an object that is not valid": {broken, []string{"list"}, clitest.ExitFailed, "reading dataimportcrons x"},
		"an unknown command":          {nil, []string{"show"}, clitest.ExitUsage, "see kubectl virtward golden --help"},
	} {
		got := run(t, test.objects, test.args...)
		if got.Code != test.code || !strings.Contains(got.Out+got.ErrOut, test.want) {
			t.Errorf("%s: %d\n%s%s", name, got.Code, got.Out, got.ErrOut)
		}
	}
}

func TestCompletion(t *testing.T) {
	config := clitest.APIServer(t, cluster(t, site()))
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"why", "--kubeconfig", config, "fed"}, "fedora\nfedora-amd64\nfedora-arm64\nfedora-s390x\n:4\n"},
		{[]string{"why", "--kubeconfig", config, "fedora", ""}, ":4\n"},
		{[]string{"status", "--kubeconfig", config, ""}, "site\n:4\n"},
		{[]string{"list", "--kubeconfig", config, "--catalog", ""}, "site\n:4\n"},
		{[]string{"list", "-o", ""}, "table\nwide\nyaml\njson\nname\n:4\n"},
		{[]string{"why", "--server", "http://127.0.0.1:1", ""}, ":4\n"},
	} {
		got := clitest.Call(t, "", append([]string{"__complete", "golden"}, c.words...)...)
		if got.Code != clitest.ExitOK || got.Out != c.want {
			t.Errorf("%v: %d %q, want %q", c.words, got.Code, got.Out, c.want)
		}
	}
}
