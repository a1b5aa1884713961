package artifacts_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/sources/artifacts/artifactstest"
)

const web = `apiVersion: template.kubevirt.io/v1beta1
kind: VirtualMachineTemplate
metadata:
  name: web
  namespace: templates
spec:
  parameters:
  - name: NAME
    required: true
  virtualMachine:
    metadata:
      name: ${NAME}
    spec:
      runStrategy: Halted
      template:
        spec:
          architecture: amd64
          domain:
            devices: {}
          volumes:
          - name: root
            persistentVolumeClaim:
              claimName: web-root
          - name: logs
            persistentVolumeClaim:
              claimName: web-logs
`

// work is a folder with templates and disks.
type work struct {
	dir      string
	server   *artifactstest.Registry
	root     []byte
	logs     []byte
	arm      []byte
	registry string
}

func newWork(t *testing.T) *work {
	t.Helper()
	w := &work{dir: t.TempDir(), server: artifactstest.New(t), root: make([]byte, 3<<20+512), logs: make([]byte, 1<<20), arm: make([]byte, 1<<20)}
	w.registry = "oci://" + w.server.Host
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(w.root[:1<<20])
	_, _ = random.Read(w.root[len(w.root)-100:])
	_, _ = random.Read(w.arm[:1<<19])
	w.file(t, "web.yaml", []byte(web))
	w.file(t, "arm.yaml", []byte(strings.Replace(web, "amd64", "arm64", 1)))
	w.file(t, "root.raw", w.root)
	w.file(t, "logs.raw", w.logs)
	w.file(t, "arm.raw", w.arm)
	t.Setenv("DOCKER_CONFIG", w.dir)
	return w
}

func (w *work) file(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *work) read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// call runs template, in words of which DIR is the folder and REG the registry.
func (w *work) call(t *testing.T, words string) clitest.Result {
	t.Helper()
	return clitest.Call(t, "", append([]string{"template"}, strings.Fields(strings.NewReplacer("DIR", w.dir, "REG", w.registry).Replace(words))...)...)
}

func (w *work) ok(t *testing.T, words string) clitest.Result {
	t.Helper()
	got := w.call(t, words)
	if got.Code != clitest.ExitOK {
		t.Fatalf("%s: %d: %s", words, got.Code, got.ErrOut)
	}
	return got
}

// names are the files of a folder.
func (w *work) names(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, folder))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

const both = "push DIR/web.yaml DIR/arm.yaml REG/templates/web:v1 --created 2026-11-01T12:00:00Z --disk amd64/root=DIR/root.raw --disk amd64/logs=DIR/logs.raw --disk arm64/root=DIR/arm.raw --disk arm64/logs=DIR/logs.raw"

// TestRoundTrip: two architectures with two disks each are equal afterwards; also by digest, over connections that break, and after
// a copy.
func TestRoundTrip(t *testing.T) {
	w := newWork(t)
	got := w.ok(t, both)
	_, digest, found := strings.Cut(strings.TrimSpace(got.Out), "digest: ")
	if !found || !strings.HasPrefix(got.Out, "pushed "+w.registry+"/templates/web:v1\n") || got.ErrOut != "" {
		t.Fatalf("%s%s", got.Out, got.ErrOut)
	}
	w.server.Requests()
	if again := w.ok(t, both); again.Out != got.Out {
		t.Errorf("a second push: %s", again.Out)
	}
	for _, request := range w.server.Requests() {
		if strings.HasPrefix(request, "PATCH") {
			t.Errorf("a blob is sent again: %s", request)
		}
	}
	w.server.BreakAfter.Store(800_000)
	if got := w.ok(t, "pull REG/templates/web:v1 --platform amd64 --to DIR/amd"); got.Out != "pulled "+w.registry+"/templates/web:v1\ndigest: "+digest+"\n"+w.dir+"/amd/root.raw\n"+w.dir+"/amd/logs.raw\n"+w.dir+"/amd/web.yaml\n" {
		t.Error(got.Out)
	}
	w.ok(t, "pull REG/templates/web@"+digest+" --platform arm64 --to DIR/arm")
	other := artifactstest.New(t)
	if got := w.ok(t, "copy REG/templates/web:v1 oci://"+other.Host+"/mirror:v1"); !strings.HasSuffix(got.Out, "digest: "+digest+"\n") {
		t.Error(got.Out)
	}
	w.ok(t, "pull oci://"+other.Host+"/mirror:v1 --platform arm64 --to DIR/copied")
	for name, want := range map[string][]byte{"amd/root.raw": w.root, "amd/logs.raw": w.logs, "arm/root.raw": w.arm, "arm/logs.raw": w.logs, "copied/root.raw": w.arm} {
		if !bytes.Equal(w.read(t, name), want) {
			t.Errorf("%s differs", name)
		}
	}
	if got := string(w.read(t, "amd/web.yaml")); got != strings.Replace(web, "  namespace: templates\n", "", 1) {
		t.Errorf("the template is\n%s", got)
	}
	if names := w.names(t, "amd"); names != "logs.raw root.raw web.yaml" {
		t.Error(names)
	}
	list := w.ok(t, "list --from REG/templates/web")
	if fields := strings.Fields(list.Out); len(fields) != 10 || fields[5] != "v1" || fields[6] != "VirtualMachineTemplate" || fields[7] != "amd64,arm64" || fields[8] != "2026-11-01T12:00:00Z" || fields[9] != digest {
		t.Error(list.Out)
	}
	if got := w.ok(t, "referrers REG/templates/web:v1"); got.Out != "" || !strings.Contains(got.ErrOut, "Nothing refers to") {
		t.Errorf("%s%s", got.Out, got.ErrOut)
	}
}

// TestOVA: an OVA file is pushed and pulled as it is.
func TestOVA(t *testing.T) {
	w := newWork(t)
	w.file(t, "appliance.ova", w.root)
	w.ok(t, "push DIR/appliance.ova REG/appliance:v1")
	w.ok(t, "pull REG/appliance:v1 --to DIR/to")
	if !bytes.Equal(w.read(t, "to/appliance.ova"), w.root) || w.names(t, "to") != "appliance.ova" {
		t.Error(w.names(t, "to"))
	}
	if got := w.ok(t, "list --from REG/appliance"); !strings.Contains(got.Out, " OVA ") {
		t.Error(got.Out)
	}
}

// TestInterrupted: a pull that ended continues with what it received, and no file has its name before.
func TestInterrupted(t *testing.T) {
	w := newWork(t)
	w.ok(t, "push DIR/web.yaml REG/web:v1 --disk root=DIR/root.raw --disk logs=DIR/logs.raw")
	w.server.DenyRanges.Store(true) // so that the connection cannot be continued
	w.server.BreakAfter.Store(600_000)
	got := w.call(t, "pull REG/web:v1 --to DIR/to")
	if got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "root.raw") {
		t.Fatalf("%d %s", got.Code, got.ErrOut)
	}
	if names := w.names(t, "to"); !strings.HasSuffix(names, ".layer") || strings.Contains(names, " ") {
		t.Error(names)
	}
	w.server.DenyRanges.Store(false)
	w.server.BreakAfter.Store(0)
	w.server.Requests()
	w.ok(t, "pull REG/web:v1 --to DIR/to")
	resumed := false
	for _, request := range w.server.Requests() {
		resumed = resumed || strings.Contains(request, " bytes=600000-")
	}
	if !resumed || !bytes.Equal(w.read(t, "to/root.raw"), w.root) || w.names(t, "to") != "logs.raw root.raw web.yaml" {
		t.Error(resumed, w.names(t, "to"))
	}
	if got := w.call(t, "pull REG/web:v1 --to DIR/to"); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "root.raw exists: use --overwrite") {
		t.Errorf("%d %s", got.Code, got.ErrOut)
	}
	w.ok(t, "pull REG/web:v1 --to DIR/to --overwrite")
	// What was received of another layer is not believed.
	w.ok(t, "pull REG/web:v1 --to DIR/again")
	if names := w.names(t, "again"); names != "logs.raw root.raw web.yaml" {
		t.Error(names)
	}
}

func TestCredentials(t *testing.T) {
	w := newWork(t)
	w.server.User, w.server.Password = "u", "p"
	const push = "push DIR/web.yaml REG/web:v1 --created none --disk root=DIR/root.raw --disk logs=DIR/logs.raw"
	if got := w.call(t, push); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, "401 Unauthorized") {
		t.Errorf("%d %s", got.Code, got.ErrOut)
	}
	w.file(t, "config.json", []byte(`{"auths":{"`+w.server.Host+`":{"username":"u","password":"p"}}}`))
	w.ok(t, push)
	w.file(t, "config.json", []byte(`{}`))
	words := append([]string{"template"}, strings.Fields(strings.NewReplacer("DIR", w.dir, "REG", w.registry).Replace("pull REG/web:v1 --to DIR/to --username u --password-stdin"))...)
	if got := clitest.Call(t, "p\n", words...); got.Code != clitest.ExitOK {
		t.Errorf("%d %s", got.Code, got.ErrOut)
	}
}

func TestUsage(t *testing.T) {
	w := newWork(t)
	w.file(t, "disk.vhdx", append([]byte("vhdxfile"), make([]byte, 1<<16)...))
	w.file(t, "pod.yaml", []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"))
	w.ok(t, both)
	for words, says := range map[string]string{
		"push DIR/web.yaml":                                              "name at least one file",
		"push DIR/web.yaml REG/web":                                      "name a tag or a digest",
		"push DIR/web.yaml oci://web:v1":                                 "names no registry",
		"push DIR/web.yaml REG/web:v1 --disk root":                       "write VOLUME=FILE",
		"push DIR/web.yaml REG/web:v1 --disk x=DIR/root.raw":             `no volume "x" with a PersistentVolumeClaim or a DataVolume: it has root, logs`,
		"push DIR/web.yaml REG/web:v1 --disk s390x/root=DIR/root.raw":    `no file is for the architecture "s390x"`,
		"push DIR/web.yaml REG/web:v1 --disk root=DIR/a --disk root=b":   "two files",
		"push DIR/web.yaml DIR/arm.yaml REG/web:v1 --disk root=DIR/a":    "write ARCHITECTURE/root=",
		"push DIR/web.yaml DIR/a.ova REG/web:v1":                         "name no other file",
		"push DIR/web.yaml REG/web:v1 --created yesterday":               "is not a time",
		"push DIR/web.yaml DIR/arm.yaml REG/web:v1 --architecture arm64": "--architecture is for one file",
		"pull REG/web:v1":                                       "name a directory with --to",
		"pull --to DIR/x":                                       "name one reference",
		"pull REG/templates/web:v1 --to DIR/x":                  "several architectures: choose one of amd64, arm64: use --platform",
		"pull REG/templates/web:v1 --to DIR/x --platform s390x": `no "s390x": choose one of amd64, arm64`,
		"pull REG/web:v1 --to DIR/x --username u":               "--username and --password-stdin belong together",
		"copy REG/web:v1":                                       "name two references",
		"referrers web":                                         "does not begin with oci://",
		"list --from REG/web:v1":                                "name a repository, without a tag",
		"list --from REG/web -A":                                "have no namespace",
	} {
		if got := w.call(t, words); got.Code != clitest.ExitUsage || !strings.Contains(got.ErrOut, says) {
			t.Errorf("%s: %d %s", words, got.Code, got.ErrOut)
		}
	}
	for words, says := range map[string]string{
		"push DIR/web.yaml REG/web:v1 --disk root=DIR/disk.vhdx --disk logs=DIR/logs.raw": "convert it with qemu-img convert -O raw",
		"push DIR/web.yaml REG/web:v1 --disk root=DIR/absent":                             "no such file",
		"push DIR/pod.yaml REG/web:v1":                                                    "neither a VirtualMachine of kubevirt.io",
		"push DIR/web.yaml DIR/web.yaml REG/web:v1":                                       "two manifests for amd64",
		"pull REG/absent:v1 --to DIR/x":                                                   "NAME_UNKNOWN",
		"pull REG/templates/web:v2 --to DIR/x --ca-file DIR/absent":                       "no such file",
	} {
		if got := w.call(t, words); got.Code != clitest.ExitFailed || !strings.Contains(got.ErrOut, says) {
			t.Errorf("%s: %d %s", words, got.Code, got.ErrOut)
		}
	}
	if names := w.names(t, "x"); names != "" {
		t.Error(names)
	}
	if got := w.call(t, "push DIR/web.yaml REG/part:v1 --disk root=DIR/root.raw"); got.Code != clitest.ExitOK || !strings.Contains(got.ErrOut, "warning: "+w.dir+"/web.yaml: no disk of the volume logs is pushed") {
		t.Errorf("%d %s", got.Code, got.ErrOut)
	}
}

// TestHostile: a pull of a malicious artifact keeps nothing.
func TestHostile(t *testing.T) {
	w := newWork(t)
	compressed := func(raw []byte) []byte {
		var out bytes.Buffer
		c, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	object, err := oci.NewObject([]byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"db"},"spec":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name  string
		layer []byte
		// change edits the manifest, which has the layer.
		before, after string
		config        string
		says          string
	}{
		{"a bomb", compressed(make([]byte, 64<<20)), "", "", "", "more raw bytes than the size"},
		{"a short disk", compressed(make([]byte, 100)), "", "", "", "before the size of the disk"},
		{"no zstd", make([]byte, 1000), "", "", "", "not valid zstd"},
		{"another file", nil, "", "", "", "not valid zstd"},
		{"a path", compressed(make([]byte, 1<<20)), `"root"`, `"../../root"`, "", "not a name of a disk"},
		{"an absolute path", compressed(make([]byte, 1<<20)), `"root"`, `"/root"`, "", "not a name of a disk"},
		{"a path as the title", compressed(make([]byte, 1<<20)), `"root.raw.zst"`, `"../root"`, "", "title"},
		{"another host", compressed(make([]byte, 1<<20)), `"annotations"`, `"urls":["http://127.0.0.1/"],"annotations"`, "", "only from the registry"},
		{"an image of a container", compressed(make([]byte, 1<<20)), "vnd.kubevirt.disk.raw+zstd", "vnd.oci.image.layer.v1.tar", "", "layers[0].mediaType"},
		{"a huge disk", compressed(make([]byte, 1<<20)), `"1Mi"`, `"65Ti"`, "", "at most"},
		{"another object", compressed(make([]byte, 1<<20)), "", "", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`, "neither a VirtualMachine"},
		{"a path as the name of the object", compressed(make([]byte, 1<<20)), "", "", `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachine","metadata":{"name":"../../db"}}`, "config.metadata.name"},
		{"a size that is not true", compressed(make([]byte, 1<<20)), `"size":`, `"size":1`, "", ""},
	} {
		reference, err := name.ParseReference(w.server.Host + "/hostile:v" + string(rune('a'+i)))
		if err != nil {
			t.Fatal(err)
		}
		content := c.layer
		if content == nil {
			content = []byte(web)
		}
		disk, err := oci.Measure("root", io.LimitReader(bytes.NewReader(make([]byte, 1<<20)), 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		layer := static.NewLayer(content, types.MediaType(oci.MediaTypeDisk))
		hash, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		packed, err := oci.Pack(object, []oci.Descriptor{disk})
		if err != nil {
			t.Fatal(err)
		}
		manifest := string(packed.Manifest.Content)
		replace := func(before, after string) { manifest = strings.Replace(manifest, before, after, 1) }
		replace(disk.Digest.String(), hash.String())
		replace(`"size":`+number(disk.Size), `"size":`+number(int64(len(content))))
		config := static.NewLayer(packed.Config.Content, types.MediaType(packed.Config.MediaType))
		if c.config != "" {
			config = static.NewLayer([]byte(c.config), types.MediaType(packed.Config.MediaType))
			changed, err := config.Digest()
			if err != nil {
				t.Fatal(err)
			}
			replace(packed.Config.Digest.String(), changed.String())
			replace(`"size":`+number(packed.Config.Size), `"size":`+number(int64(len(c.config))))
		}
		if c.before != "" {
			replace(c.before, c.after)
		}
		for _, l := range []v1.Layer{layer, config} {
			if err := remote.WriteLayer(reference.Context(), l, remote.WithTransport(http.DefaultTransport)); err != nil {
				t.Fatal(err)
			}
		}
		if err := remote.Put(reference, document(manifest)); err != nil {
			t.Fatal(err)
		}
		folder := "hostile" + string(rune('a'+i))
		got := w.call(t, "pull REG/hostile:v"+string(rune('a'+i))+" --to DIR/"+folder)
		if got.Code == clitest.ExitOK || !strings.Contains(got.ErrOut, c.says) {
			t.Errorf("%s: %d %s", c.name, got.Code, got.ErrOut)
		}
		if names := w.names(t, folder); names != "" && c.says != "" {
			t.Errorf("%s: it keeps %s", c.name, names)
		}
	}
}

func number(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

// document is a manifest that is written as it is.
type document string

func (d document) RawManifest() ([]byte, error) { return []byte(d), nil }
func (d document) MediaType() (types.MediaType, error) {
	return types.OCIManifestSchema1, nil
}
