package restorecheck

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// entry is a file of an archive.
type entry struct {
	name, content string
	kind          byte
	link          string
}

func archive(t testing.TB, zipped bool, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	for _, e := range entries {
		kind := e.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		if err := files.WriteHeader(&tar.Header{Name: e.name, Typeflag: kind, Linkname: e.link, Size: int64(len(e.content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if !zipped {
		return out.Bytes()
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	if _, err := w.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return small.Bytes()
}

func templateText(name string) string {
	return fmt.Sprintf(`{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"namespace":"images","name":%q,"uid":"u"},"spec":{}}`, name)
}

// files are a backup in the form of Velero, with a list of kubectl beside it.
func files() []entry {
	const velero = "resources/virtualmachinetemplates.template.kubevirt.io/"
	return []entry{
		{name: "metadata/version", content: "1.1.0"},
		{name: velero + "namespaces/images/fedora.json", content: templateText("fedora")},
		{name: velero + "v1beta1-preferredversion/namespaces/images/fedora.json", content: templateText("fedora")},
		{name: "resources/virtualmachines.kubevirt.io/namespaces/images/broken.json", content: "{"}, // it is not read
		{name: "all.yaml", content: "apiVersion: v1\nkind: List\nitems:\n- " + templateText("debian") + "\n---\napiVersion: policy.virtward.io/v1alpha1\nkind: VirtualMachinePolicyException\nmetadata: {namespace: a, name: b}\n"},
		{name: "broken.yaml", content: "a: [\n"},
		{name: "notes.txt", content: "{"},
	}
}

func (b *backup) keys() (all []string) {
	for key, objects := range b.templates {
		all = append(all, fmt.Sprint("template ", key, " ", len(objects)))
	}
	for key, objects := range b.exceptions {
		all = append(all, fmt.Sprint("exception ", key, " ", len(objects)))
	}
	return all
}

func TestReadBackup(t *testing.T) {
	folder := t.TempDir()
	for _, e := range files() {
		name := filepath.Join(folder, "backup", e.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(e.content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Links are not followed: to a file, and to a folder.
	outside := filepath.Join(folder, "outside")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "secret.yaml"), []byte(templateText("secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link.yaml": filepath.Join(outside, "secret.yaml"), "linked": outside} {
		if err := os.Symlink(to, filepath.Join(folder, "backup", link)); err != nil {
			t.Fatal(err)
		}
	}
	links := []entry{
		{name: "link.yaml", kind: tar.TypeSymlink, link: filepath.Join(outside, "secret.yaml")},
		{name: "hard.yaml", kind: tar.TypeLink, link: "../../outside/secret.yaml"},
		{name: "../../outside/secret.yaml", content: "{"},
	}
	for name, zipped := range map[string]bool{"backup.tar": false, "backup.tgz": true} {
		if err := os.WriteFile(filepath.Join(folder, name), archive(t, zipped, append(files(), links...)...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, notes := range map[string]int{"backup": 1, "backup.tar": 2, "backup.tgz": 2} {
		t.Run(name, func(t *testing.T) {
			b, err := readBackup(t.Context(), filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, key := range b.keys() {
				got[key] = true
			}
			want := map[string]bool{"template images/fedora 1": true, "template images/debian 1": true, "exception a/b 1": true}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if len(b.notes) != notes || !strings.HasPrefix(b.notes[0], "broken.yaml: ") {
				t.Errorf("notes %q", b.notes)
			}
		})
	}
	if content, err := os.ReadFile(filepath.Join(outside, "secret.yaml")); err != nil || string(content) != templateText("secret") {
		t.Errorf("the file outside has changed: %v, %s", err, content)
	}
}

// TestBackupBounds: an archive that is small until it is unzipped, and one with too many objects.
func TestBackupBounds(t *testing.T) {
	read := func(data []byte) error {
		_, err := readArchiveOf(t, data)
		return err
	}
	if err := read([]byte("text")); err == nil || !strings.Contains(err.Error(), "it is neither a folder nor an archive of the format tar") {
		t.Errorf("the error is %v", err)
	}
	if err := read([]byte{0x1f, 0x8b, 1, 2}); err == nil || !strings.Contains(err.Error(), "it is not an archive with gzip") {
		t.Errorf("the error is %v", err)
	}
	bounded := &boundedReader{r: strings.NewReader("0123456789"), left: 4}
	var out bytes.Buffer
	if _, err := out.ReadFrom(bounded); !errors.Is(err, errTooLarge) || out.String() != "0123" {
		t.Errorf("the error is %v after %q", err, &out)
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	header := archive(t, false, entry{name: "a.bin"})[:512]
	copy(header[124:136], fmt.Sprintf("%011o\x00", small.bytes*4))
	for i := range 8 { // the checksum, with spaces in its place
		header[148+i] = ' '
	}
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	if _, err := w.Write(header); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range small.bytes>>20 + 1 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := read(bomb.Bytes()); !errors.Is(err, errTooLarge) {
		t.Errorf("%d bytes that become more than %d: %v", bomb.Len(), small.bytes, err)
	}
	if _, err := readArchiveOf(t, archive(t, true, make([]entry, small.entries+1)...)); err == nil || err.Error() != "it must have at most 50 files and folders" {
		t.Errorf("%d entries: %v", small.entries+1, err)
	}
	var many strings.Builder
	for i := range small.objects + 1 {
		many.WriteString(templateText(fmt.Sprint("t", i)))
	}
	b, err := readArchiveOf(t, archive(t, true, entry{name: "many.json", content: many.String()}))
	if want := fmt.Sprintf("it must have at most %d templates and exceptions", small.objects); err == nil || err.Error() != want {
		t.Errorf("%d objects: %v", b.objects, err)
	}
}

// small are limits that a test reaches soon.
var small = limits{bytes: 4 << 20, entries: 50, objects: 100}

func readArchiveOf(t testing.TB, data []byte) (*backup, error) {
	b := newBackup(small)
	return b, b.readArchive(t.Context(), bytes.NewReader(data))
}

// FuzzReadArchive: no archive causes a panic, or an object without a name; and what is read can be compared.
func FuzzReadArchive(f *testing.F) {
	f.Add(archive(f, false, files()...))
	f.Add(archive(f, true, files()...))
	o := templateObject(f, "old", "a", approved(f))
	written, err := yaml.Marshal(o.Object)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(archive(f, false, entry{name: "../../a.yaml", content: string(written)}, entry{name: "b.yaml", content: strings.ReplaceAll(string(written), "digest", "dige\x1b")}))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := readArchiveOf(t, data)
		if err != nil {
			return
		}
		for key, objects := range b.templates {
			namespace, name, found := strings.Cut(key, "/")
			if !found || namespace == "" || name == "" {
				t.Errorf("the name %q", key)
			}
			if row := compareTemplate(namespace, name, objects, objects[0]); row != nil && row.State == SameDigest && objects[0].GetUID() == "" {
				t.Error("a template without a UID can be approved")
			}
		}
		for key, objects := range b.exceptions {
			compareException("", key, objects, objects[0], objects[0].GetCreationTimestamp().Time)
		}
	})
}
