package virtualimages_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/cli/clitest"
)

const (
	path = "/apis/kupenstack.io/v1alpha1/namespaces/team/virtualimages"
	src  = "--src=https://example.com/fedora.qcow2"
)

func call(t *testing.T, server string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append(append([]string{"image"}, args...), "--server", server, "-n", "team")...)
}

// object is an image with conditions, each as TYPE STATUS REASON MESSAGE.
func object(t *testing.T, change func(*v1alpha1.VirtualImage), conditions ...string) string {
	t.Helper()
	image := &v1alpha1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "fedora", UID: "u"}}
	image.APIVersion, image.Kind = "kupenstack.io/v1alpha1", "VirtualImage"
	image.Spec = v1alpha1.VirtualImageSpec{Src: "https://example.com/fedora.qcow2", Format: v1alpha1.FormatQCOW2}
	for _, c := range conditions {
		words := strings.SplitN(c, " ", 4)
		image.Status.Conditions = append(image.Status.Conditions, metav1.Condition{Type: words[0], Status: metav1.ConditionStatus(words[1]), Reason: words[2], Message: words[3]})
	}
	if change != nil {
		change(image)
	}
	written, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// TestPrinted compares the object that --dry-run=client prints without a cluster.
func TestPrinted(t *testing.T) {
	const printed = "apiVersion: kupenstack.io/v1alpha1\nkind: VirtualImage\nmetadata:\n  name: fedora\n  namespace: team\nspec:\n  format: qcow2\n  src: https://example.com/fedora.qcow2\n"
	sum := "sha256:" + strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"smallest":           {[]string{src}, printed},
		"format":             {[]string{src, "--format=raw"}, strings.Replace(printed, "qcow2", "raw", 1)},
		"compressed":         {[]string{"--src=https://example.com/Disk.RAW.xz?version=2"}, strings.NewReplacer("format: qcow2", "format: raw", "fedora.qcow2", "Disk.RAW.xz?version=2").Replace(printed)},
		"zero is not absent": {[]string{src, "--min-disk=0"}, strings.Replace(printed, "  src", "  minDisk: 0\n  src", 1)},
		"every field": {
			[]string{src, "--container-format=bare", "--class=cluster", "--cluster-copy=Always", "--storage=10Gi", "--storage-class=fast", "--access-mode=ReadWriteMany,ReadOnlyMany", "--volume-mode=Block", "--checksum=" + sum, "--secret=s", "--cert-config-map=c", "--min-disk=10", "--min-ram=2048"},
			"apiVersion: kupenstack.io/v1alpha1\nkind: VirtualImage\nmetadata:\n  name: fedora\n  namespace: team\nspec:\n  certConfigMap: c\n  checksum: " + sum + "\n  clusterCopy: Always\n  containerFormat: bare\n  format: qcow2\n  imageClassName: cluster\n  minDisk: 10\n  minRam: 2048\n  secretRef: s\n  src: https://example.com/fedora.qcow2\n" +
				"  storage:\n    accessModes:\n    - ReadWriteMany\n    - ReadOnlyMany\n    resources:\n      requests:\n        storage: 10Gi\n    storageClassName: fast\n    volumeMode: Block\n",
		},
	} {
		got := call(t, "http://127.0.0.1:1", append([]string{"create", "fedora", "--dry-run=client", "-o", "yaml"}, c.args...)...)
		if got.Code != clitest.ExitOK || got.Out != c.want || got.ErrOut != "" {
			t.Errorf("%s: %d\n%s%s", name, got.Code, got.Out, got.ErrOut)
		}
	}
	if got := call(t, "http://127.0.0.1:1", "create", "fedora", src, "--dry-run=client"); got.Out != "virtualimage.kupenstack.io/fedora created (dry run)\n" {
		t.Errorf("%+v", got)
	}
}

// files writes files for uploads, and returns their folder.
func files(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	qcow2 := make([]byte, 512)
	copy(qcow2, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(qcow2[24:], 5<<30+1)
	for name, data := range map[string][]byte{
		"disk.img": qcow2, "zeros.img": make([]byte, 1<<20), "zeros.raw.gz": []byte("\x1f\x8b\x08\x00"), "zeros.gz": []byte("\x1f\x8b\x08\x00"), "disk.raw.zst": []byte("\x28\xb5\x2f\xfd\x00"),
		"page.qcow2": []byte("<html>"), "ca.crt": []byte("x"), "empty.raw": nil,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder + "/"
}

// TestUploadPrinted compares the objects of uploads: the header of the file states their format and their size.
func TestUploadPrinted(t *testing.T) {
	folder := files(t)
	const printed = "apiVersion: kupenstack.io/v1alpha1\nkind: VirtualImage\nmetadata:\n  name: fedora\n  namespace: team\nspec:\n  format: FORMAT\n  storage:\n    resources:\n      requests:\n        storage: SIZE\n  upload: {}\n"
	for name, c := range map[string]struct {
		args         []string
		format, size string
	}{
		"header":               {[]string{"--file", folder + "disk.img"}, "qcow2", "5121Mi"},
		"raw":                  {[]string{"--file", folder + "zeros.img"}, "raw", "1Mi"},
		"compressed":           {[]string{"--file", folder + "zeros.raw.gz", "--storage", "20Gi"}, "raw", "20Gi"},
		"compressed otherwise": {[]string{"--file", folder + "zeros.gz", "--storage", "20Gi", "--format", "qcow2"}, "qcow2", "20Gi"},
		"larger":               {[]string{"--file", folder + "disk.img", "--storage", "10Gi", "--checksum", "sha256:30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58"}, "", ""},
	} {
		got := call(t, "http://127.0.0.1:1", append([]string{"upload", "fedora", "--dry-run=client", "-o", "yaml"}, c.args...)...)
		if c.format == "" { // another checksum
			if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "--checksum: "+folder+"disk.img has sha256:") {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if want := strings.NewReplacer("FORMAT", c.format, "SIZE", c.size).Replace(printed); got.Code != clitest.ExitOK || got.Out != want {
			t.Errorf("%s: %d\n%s%s", name, got.Code, got.Out, got.ErrOut)
		}
	}
	got := call(t, "http://127.0.0.1:1", "upload", "fedora", "--dry-run=client", "-o", "json", "--file", folder+"disk.img", "--min-disk", "10")
	if !strings.Contains(got.Out, `"minDisk": 10`) || strings.Contains(got.Out, "storage") {
		t.Errorf("%+v", got)
	}
}

// TestUploadFlags: a file that CDI rejects is an error before the cluster is connected to.
func TestUploadFlags(t *testing.T) {
	folder := files(t)
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"name one image":                                 {clitest.ExitUsage, []string{}},
		"--file is required: the file to upload":         {clitest.ExitUsage, []string{"fedora"}},
		"no such file":                                   {clitest.ExitFailed, []string{"fedora", "--file", folder + "absent"}},
		"NAME \"Fedora\"":                                {clitest.ExitUsage, []string{"Fedora", "--file", folder + "disk.img"}},
		"the file is HTML or XML":                        {clitest.ExitFailed, []string{"fedora", "--file", folder + "page.qcow2"}},
		"the file is empty":                              {clitest.ExitFailed, []string{"fedora", "--file", folder + "empty.raw"}},
		"the file has the format qcow2, not raw":         {clitest.ExitFailed, []string{"fedora", "--file", folder + "disk.img", "--format=raw"}},
		"compressed with zstd: use gzip or xz":           {clitest.ExitFailed, []string{"fedora", "--file", folder + "disk.raw.zst", "--format=raw"}},
		"--format is required":                           {clitest.ExitUsage, []string{"fedora", "--file", folder + "zeros.gz"}},
		"--storage is required":                          {clitest.ExitUsage, []string{"fedora", "--file", folder + "zeros.raw.gz"}},
		"--storage 5Gi: the disk has 5368709121":         {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--storage=5Gi"}},
		"--min-disk 5: the disk has 5368709121":          {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--min-disk=5"}},
		"--timeout -1s":                                  {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--timeout=-1s"}},
		"--wait and --dry-run exclude each other":        {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--wait", "--dry-run=client"}},
		"--uploadproxy-ca: open":                         {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--uploadproxy-ca", folder + "absent"}},
		"the upload proxy's authorities are not PEM":     {clitest.ExitFailed, []string{"fedora", "--file", folder + "disk.img", "--uploadproxy-url=https://cdi.example.com", "--uploadproxy-ca", folder + "ca.crt"}},
		"reading the cdiconfig config: ":                 {clitest.ExitFailed, []string{"fedora", "--file", folder + "disk.img"}},
		"--checksum: must be":                            {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--checksum=md5:1"}},
		"--format ami: it has no disk that virtual mach": {clitest.ExitUsage, []string{"fedora", "--file", folder + "disk.img", "--format=ami"}},
	} {
		s := clitest.NewScripted(t, nil)
		got := call(t, s.URL, append([]string{"upload"}, c.args...)...)
		if got.Code != c.code || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%v: %d %s, want %s", c.args, got.Code, got.ErrOut, want)
		}
		for _, request := range s.Requests {
			if !strings.HasPrefix(request, "GET ") {
				t.Errorf("%v: %s", c.args, request)
			}
		}
	}
}

// TestFlags: errors of the command line name the flag.
func TestFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"name one image: see kubectl virtward image create --help": {"create", src},
		"NAME \"Fedora\"":            {"create", "Fedora", src},
		"NAME \"aaaaaaaaaa":          {"create", strings.Repeat("a", 64), src},
		"--src is required":          {"create", "fedora"},
		"--src: must be a URL":       {"create", "fedora", "--src=file:///fedora.qcow2"},
		"--src: must not contain":    {"create", "fedora", "--src=https://me:secret@example.com/fedora.qcow2"},
		"--format is required":       {"create", "fedora", "--src=https://example.com/fedora.img"},
		`unknown value of --format`:  {"create", "fedora", src, "--format=img"},
		"--container-format \"tar\"": {"create", "fedora", src, "--container-format=tar"},
		"--min-disk -1":              {"create", "fedora", src, "--min-disk=-1"},
		"--min-ram -1":               {"create", "fedora", src, "--min-ram=-1"},
		"--checksum: must be":        {"create", "fedora", src, "--checksum=md5:1"},
		"--storage ten":              {"create", "fedora", src, "--storage=ten"},
		"--storage 0":                {"create", "fedora", src, "--storage=0"},
		"--access-mode \"Any\"":      {"create", "fedora", src, "--access-mode=Any"},
		"--cluster-copy \"Maybe\"":   {"create", "fedora", src, "--cluster-copy=Maybe"},
		"--volume-mode \"File\"":     {"create", "fedora", src, "--volume-mode=File"},
		"--timeout needs --wait":     {"create", "fedora", src, "--timeout=1s"},
		"--timeout -1s":              {"create", "fedora", src, "--wait", "--timeout=-1s"},
		"--wait and --dry-run":       {"create", "fedora", src, "--wait", "--dry-run=server"},
		"--dry-run \"maybe\"":        {"create", "fedora", src, "--dry-run=maybe"},
		`unknown output "table"`:     {"create", "fedora", src, "-o", "table"},
		"name images or use -A":      {"usage", "fedora", "-A"},
		`unknown output "name"`:      {"usage", "-o", "name"},
		"see kubectl virtward image": {"show"},
	} {
		got := clitest.Call(t, "", append([]string{"image"}, args...)...)
		if got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%v: %d %s, want %s", args, got.Code, got.ErrOut, want)
		}
	}
}

const invalid = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"VirtualImage.kupenstack.io \"fedora\" is invalid","details":{"name":"fedora","causes":[
	{"reason":"FieldValueInvalid","field":"spec.src","message":"Invalid value: must be a URL"},{"reason":"FieldValueInvalid","field":"spec.minDisk","message":"Invalid value: too large"}]}}`

func TestCreate(t *testing.T) {
	created := object(t, nil)
	for name, c := range map[string]struct {
		answers     map[string]clitest.Answer
		args        []string
		code        int
		out, errOut string
	}{
		"created":        {map[string]clitest.Answer{"POST " + path: {Code: 201, Body: created}}, nil, 0, "virtualimage.kupenstack.io/fedora created\n", ""},
		"name":           {map[string]clitest.Answer{"POST " + path: {Code: 201, Body: created}}, []string{"-o", "name"}, 0, "virtualimage.kupenstack.io/fedora\n", ""},
		"server dry run": {map[string]clitest.Answer{"POST " + path + " dry": {Code: 201, Body: created}}, []string{"--dry-run=server"}, 0, "virtualimage.kupenstack.io/fedora created (server dry run)\n", ""},
		"flags of fields": {
			map[string]clitest.Answer{"POST " + path: {Code: 422, Body: invalid}},
			nil, 1, "",
			"error: creating VirtualImage team/fedora: --src: Invalid value: must be a URL; --min-disk: Invalid value: too large\n",
		},
		"a field without a flag": {
			map[string]clitest.Answer{"POST " + path: {Code: 422, Body: strings.Replace(invalid, "spec.src", "spec.other", 1)}},
			nil, 1, "",
			"error: creating VirtualImage team/fedora: VirtualImage.kupenstack.io \"fedora\" is invalid\n",
		},
		"not permitted": {map[string]clitest.Answer{"POST " + path: {Code: 403, Body: clitest.Forbidden}}, nil, 1, "", "error: creating VirtualImage team/fedora: you may not\n"},
		"not installed": {nil, nil, 1, "", "error: creating VirtualImage team/fedora: the cluster has no VirtualImages: install the chart of Virtward\n"},
	} {
		script := map[string][]clitest.Answer{}
		for key, answer := range c.answers {
			script[key] = []clitest.Answer{answer}
		}
		s := clitest.NewScripted(t, script)
		got := call(t, s.URL, append([]string{"create", "fedora", src}, c.args...)...)
		if got.Code != c.code || got.Out != c.out || got.ErrOut != c.errOut {
			t.Errorf("%s: %d %q %q", name, got.Code, got.Out, got.ErrOut)
		}
		if want := `{"apiVersion":"kupenstack.io/v1alpha1","kind":"VirtualImage","metadata":{"name":"fedora","namespace":"team"},"spec":{"format":"qcow2","src":"https://example.com/fedora.qcow2"}}`; len(s.Requests) != 1 || !strings.HasSuffix(s.Requests[0], want) {
			t.Errorf("%s: requests %q", name, s.Requests)
		}
	}
}

// TestWait: the command ends with the import, and writes a line for each change.
func TestWait(t *testing.T) {
	t.Parallel()
	importing := object(t, func(i *v1alpha1.VirtualImage) { i.Status.Progress = "42%" }, "Imported False Importing x", "Ready False Importing CDI imports the image")
	ready := object(t, func(i *v1alpha1.VirtualImage) { i.Status.Ready, i.Status.Size = true, "5.37gb" }, "Ready True Ready x")
	failed := func(imported, ready string) string {
		return object(t, nil, "Imported False "+imported+" x", "Ready False "+ready+" no such file")
	}
	deleting := object(t, func(i *v1alpha1.VirtualImage) {
		i.DeletionTimestamp, i.Finalizers = &metav1.Time{Time: time.Now()}, []string{"a"}
	})
	ok := func(bodies ...string) (all []clitest.Answer) {
		for _, body := range bodies {
			all = append(all, clitest.Answer{Code: http.StatusOK, Body: body})
		}
		return all
	}
	for name, c := range map[string]struct {
		answers     []clitest.Answer
		args        []string
		code        int
		out, errOut string
	}{
		"ready": {
			append(ok(object(t, nil), importing), append([]clitest.Answer{{Code: 500, Body: "{}"}}, ok(importing, ready)...)...), nil, 0,
			"virtualimage.kupenstack.io/fedora ready (5.37gb)\n", "Importing: CDI imports the image (42%)\n",
		},
		"as an object":       {ok(ready), []string{"-o", "name"}, 0, "virtualimage.kupenstack.io/fedora\n", ""},
		"failed":             {ok(failed("ImportFailed", "SourceNotFound")), nil, 1, "", "error: VirtualImage team/fedora: SourceNotFound: no such file\n"},
		"no class":           {ok(failed("ClassNotFound", "ClassNotFound")), nil, 1, "", "error: VirtualImage team/fedora: ClassNotFound: no such file\n"},
		"not guarded":        {ok(failed("NotGuarded", "NotGuarded")), nil, 1, "", "error: VirtualImage team/fedora: NotGuarded: no such file\n"},
		"a name that exists": {ok(failed("NameTaken", "NameTaken")), nil, 1, "", "error: VirtualImage team/fedora: NameTaken: no such file\n"},
		"it is tried again":  {ok(failed("Retrying", "Retrying"), ready), nil, 0, "virtualimage.kupenstack.io/fedora ready (5.37gb)\n", "Retrying: no such file\n"},
		"being deleted":      {ok(deleting), nil, 1, "", "error: VirtualImage team/fedora: it is being deleted\n"},
		"deleted":            {nil, nil, 1, "", "error: VirtualImage team/fedora: it was deleted\n"},
		"another image":      {ok(strings.Replace(ready, `"uid":"u"`, `"uid":"v"`, 1)), nil, 1, "", "error: VirtualImage team/fedora: it was deleted\n"},
		"may not read":       {[]clitest.Answer{{Code: 403, Body: clitest.Forbidden}}, nil, 1, "", "error: VirtualImage team/fedora: you may not\n"},
		"too slow":           {ok(importing), []string{"--timeout=1500ms"}, 1, "", "Importing: CDI imports the image (42%)\nerror: VirtualImage team/fedora is not ready after 1.5s, and the import continues: Importing: CDI imports the image (42%)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clitest.NewScripted(t, map[string][]clitest.Answer{"POST " + path: {{Code: 201, Body: object(t, nil)}}, "GET " + path + "/fedora": c.answers})
			got := call(t, s.URL, append([]string{"create", "fedora", src, "--wait"}, c.args...)...)
			if got.Code != c.code || got.Out != c.out || got.ErrOut != c.errOut {
				t.Errorf("%d %q %q", got.Code, got.Out, got.ErrOut)
			}
		})
	}
}

// some are images in different states.
func some(t *testing.T) map[string]string {
	t.Helper()
	many := func(i *v1alpha1.VirtualImage) {
		i.Status.Ready, i.Status.Size, i.Status.ImageClassName = true, "5.37gb", "cluster"
		i.Status.Usage.InUse = true
		for n := range 20 {
			i.Status.Usage.VirtualMachines = append(i.Status.Usage.VirtualMachines, fmt.Sprintf("team/web-%02d", n))
		}
		i.Status.Usage.VirtualMachines = append(i.Status.Usage.VirtualMachines, "and 480 more")
		i.Status.Usage.Templates = []string{"vm-templates/fedora"}
	}
	deleted := func(i *v1alpha1.VirtualImage) {
		i.Name, i.UID, i.DeletionTimestamp = "debian", "d", &metav1.Time{Time: time.Unix(1_700_000_000, 0)}
		i.Status.Ready, i.Status.Usage.InUse, i.Status.Usage.VirtualMachines = true, true, []string{"team/db\x1b[2J"}
	}
	three, none := int32(3), int32(0)
	stored := func(i *v1alpha1.VirtualImage) {
		i.Namespace, i.Name, i.UID = "shop", "stored", "s"
		i.Status.Ready, i.Status.Usage.InUse, i.Status.Usage.Cloud = true, true, &v1alpha1.VirtualImageCloudUsage{Servers: &three, Volumes: &none}
	}
	partly := func(i *v1alpha1.VirtualImage) {
		i.Namespace, i.Name, i.UID, i.Status.Ready = "shop", "partly", "p", true
	}
	blank := func(i *v1alpha1.VirtualImage) { i.Namespace, i.Name, i.UID = "shop", "new", "n" }
	images := []string{
		object(t, deleted, "InUse True InUse x", "Deleting True InUse the deletion waits for those that use the image: team/db"), object(t, many, "InUse True InUse x"), object(t, blank),
		object(t, stored, "InUse True InUse x", "CloudUsersCounted True AllProjects x"), object(t, partly, "InUse False NotInUse x", "CloudUsersCounted False NotListed servers are not counted: Nova answers 404 Not Found"),
	}
	listed := func(items ...string) string {
		return `{"apiVersion":"kupenstack.io/v1alpha1","kind":"VirtualImageList","metadata":{},"items":[` + strings.Join(items, ",") + `]}`
	}
	return map[string]string{
		"/apis/kupenstack.io/v1alpha1/virtualimages": listed(images...), path: listed(images[:2]...), path + "/fedora": images[1],
		"/apis/kupenstack.io/v1alpha1/namespaces/empty/virtualimages": listed(),
	}
}

func TestUsage(t *testing.T) {
	config := clitest.APIServer(t, some(t))
	for name, args := range map[string][]string{
		"usage": {"-n", "team"}, "usage-one": {"fedora", "-n", "team"}, "usage-all": {"-A"}, "usage-wide": {"-A", "-o", "wide"}, "usage-json": {"fedora", "-n", "team", "-o", "json"},
		"usage-empty": {"-n", "empty"},
	} {
		got := clitest.Call(t, "", append([]string{"image", "usage", "--kubeconfig", config}, args...)...)
		clitest.Golden(t, name+".txt", fmt.Sprintf("%s%sexit code %d\n", got.Out, got.ErrOut, got.Code))
	}
	var all struct {
		Images []struct {
			Name   string
			UsedBy []string
		}
	}
	got := clitest.Call(t, "", "image", "usage", "-A", "-o", "yaml", "--kubeconfig", config)
	clitest.Decode(t, func(b []byte, o any) error { return yaml.Unmarshal(b, o) }, got.Out, &all)
	if len(all.Images) != 5 || len(all.Images[1].UsedBy) != 21 {
		t.Errorf("%+v", all)
	}
}

// TestAbsent: an image that does not exist is not a cluster without VirtualImages.
func TestAbsent(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"virtualimages \"rhel\" not found","details":{"name":"rhel","group":"kupenstack.io","kind":"virtualimages"}}`: `error: VirtualImage team/rhel: virtualimages "rhel" not found` + "\n",
		"404 page not found\n": "error: VirtualImage team/rhel: the cluster has no VirtualImages: install the chart of Virtward\n",
	} {
		s := clitest.NewScripted(t, map[string][]clitest.Answer{"GET " + path + "/rhel": {{Code: http.StatusNotFound, Body: body}}})
		if got := call(t, s.URL, "usage", "rhel"); got.Code != clitest.ExitFailed || got.ErrOut != want {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}

func TestCompletion(t *testing.T) {
	objects := maps.Clone(some(t))
	config := clitest.APIServer(t, objects)
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"usage", "--kubeconfig", config, "-n", "team", ""}, "debian\nfedora\n:4\n"},
		{[]string{"usage", "--kubeconfig", config, "-n", "team", "fedora", ""}, "debian\n:4\n"},
		{[]string{"create", "x", "--kubeconfig", config, "-n", "team", "--class", ""}, "cluster\n:4\n"},
		{[]string{"create", "x", "--format", ""}, "raw\nqcow2\niso\nvdi\nami\nari\naki\nvhd\nvmdk\n:4\n"},
		{[]string{"create", "x", "--dry-run", ""}, "none\nclient\nserver\n:4\n"},
		{[]string{"usage", "--server", "http://127.0.0.1:1", ""}, ":4\n"},
	} {
		got := clitest.Call(t, "", append([]string{"__complete", "image"}, c.words...)...)
		if got.Code != clitest.ExitOK || got.Out != c.want {
			t.Errorf("%v: %d %q, want %q", c.words, got.Code, got.Out, c.want)
		}
	}
}
