package restorecheck

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/manifests"
)

// limits are the bounds of a backup.
type limits struct {
	// bytes bounds what is read of an archive or of all files, without compression.
	bytes int64
	// entries bounds the files and folders, and objects the templates and exceptions.
	entries, objects int
}

func defaults() limits {
	return limits{bytes: manifests.MaxFiles, entries: 500_000, objects: 10_000}
}

func (l limits) tooLarge() error {
	return fmt.Errorf("%w %d MiB without compression", errTooLarge, l.bytes>>20)
}

func (l limits) tooMany() error {
	return fmt.Errorf("it must have at most %d files and folders", l.entries)
}

// maxNotes bounds what is noted of files that cannot be read.
const maxNotes = 100

// backup is what was read.
type backup struct {
	// templates and exceptions are the objects of the backup, by namespace and name, each as often as it differs.
	templates, exceptions map[string][]*unstructured.Unstructured
	// notes say what could not be read.
	notes   []string
	objects int
	limits  limits
	// seen has the digests of the objects, so that equal ones are found in the time of one.
	seen map[[sha256.Size]byte]bool
}

func newBackup(l limits) *backup {
	return &backup{limits: l, templates: map[string][]*unstructured.Unstructured{}, exceptions: map[string][]*unstructured.Unstructured{}, seen: map[[sha256.Size]byte]bool{}}
}

// readBackup reads a folder, or an archive: tar, or tar with gzip.
func readBackup(ctx context.Context, name string) (*backup, error) {
	b := newBackup(defaults())
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	if info.IsDir() {
		err = b.readFolder(ctx, name)
	} else {
		var file *os.File
		if file, err = os.Open(name); err == nil {
			defer file.Close()
			err = b.readArchive(ctx, file)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the backup: %w", err)
	}
	return b, nil
}

// readFolder reads the files of a folder. It follows no link: a root does not open what is outside.
func (b *backup) readFolder(ctx context.Context, name string) error {
	root, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	defer root.Close()
	left, entries := b.limits.bytes, 0
	return fs.WalkDir(root.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case entries == b.limits.entries:
			return b.limits.tooMany()
		}
		if entries++; !entry.Type().IsRegular() || !isRelevant(at) {
			return nil
		}
		file, err := root.Open(at)
		if err != nil {
			return err
		}
		defer file.Close()
		return b.readFile(ctx, at, file, &left)
	})
}

// readArchive reads the regular files of an archive. Their names are used in messages only.
func (b *backup) readArchive(ctx context.Context, r io.Reader) error {
	buffered := bufio.NewReader(r)
	if magic, err := buffered.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return fmt.Errorf("it is not an archive with gzip: %w", err)
		}
		defer unzipped.Close()
		buffered = bufio.NewReader(unzipped)
	}
	bounded := &boundedReader{r: buffered, left: b.limits.bytes}
	files, left := tar.NewReader(bounded), b.limits.bytes
	for entries := 0; ; entries++ {
		header, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTooLarge):
			return b.limits.tooLarge()
		case err != nil:
			return fmt.Errorf("it is neither a folder nor an archive of the format tar: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		case entries == b.limits.entries:
			return b.limits.tooMany()
		}
		if header.Typeflag != tar.TypeReg || !isRelevant(header.Name) {
			continue
		}
		if err := b.readFile(ctx, header.Name, files, &left); err != nil {
			return err
		}
		if bounded.exceeded {
			return b.limits.tooLarge()
		}
	}
}

var errTooLarge = errors.New("it must have at most")

// boundedReader returns an error after a number of bytes.
type boundedReader struct {
	r        io.Reader
	left     int64
	exceeded bool
}

// Read implements io.Reader.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.exceeded = true
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// isRelevant reports whether a file can have objects that are compared. Tools of the form of Velero have a folder for each resource
// below the folder resources: resources/RESOURCE.GROUP/….
func isRelevant(name string) bool {
	switch path.Ext(name) {
	case ".json", ".yaml", ".yml":
	default:
		return false
	}
	steps := strings.Split(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/")
	at := slices.Index(steps, "resources")
	if at < 0 || at+3 > len(steps) || !slices.ContainsFunc(steps[at+2:], func(step string) bool { return step == "namespaces" || step == "cluster" }) {
		return true
	}
	return slices.Contains([]string{apikinds.Templates.GroupVersionResource().GroupResource().String(), apikinds.PolicyExceptions.GroupVersionResource().GroupResource().String()}, steps[at+1])
}

// readFile adds the objects of a file. One that cannot be read is noted.
func (b *backup) readFile(ctx context.Context, name string, r io.Reader, left *int64) error {
	counted := &countedReader{r: r}
	content, err := manifests.ReadParts(ctx, name, counted)
	if *left -= counted.n; *left < 0 {
		return b.limits.tooLarge()
	}
	if err != nil {
		return err
	}
	for i := range content.Unreadable {
		b.note(content.Unreadable[i].Error())
	}
	for i := range content.Documents {
		if err := b.add(content.Documents[i].Object); err != nil {
			return err
		}
	}
	return nil
}

type countedReader struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (b *backup) note(text string) {
	switch {
	case len(b.notes) < maxNotes:
		b.notes = append(b.notes, text)
	case len(b.notes) == maxNotes:
		b.notes = append(b.notes, "more files cannot be read")
	}
}

// add adds an object, unless it is equal to one before: tools write an object once for each version.
func (b *backup) add(o *unstructured.Unstructured) error {
	into := b.templates
	switch kind := o.GroupVersionKind(); {
	case kind.Kind == apikinds.VirtualMachineTemplate && kind.Group == apikinds.Templates.Group:
	case kind.Kind == apikinds.VirtualMachinePolicyException && kind.Group == apikinds.PolicyExceptions.Group:
		into = b.exceptions
	default:
		return nil
	}
	key := o.GetNamespace() + "/" + o.GetName()
	if o.GetNamespace() == "" || o.GetName() == "" {
		b.note(fmt.Sprintf("%s %s: it has no namespace or no name", o.GetKind(), key))
		return nil
	}
	o.SetManagedFields(nil)
	written, err := json.Marshal([]any{o.GetKind(), key, o.GetUID(), o.Object["spec"], o.Object["status"]})
	if err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), key, err)
	}
	digest := sha256.Sum256(written)
	if b.seen[digest] {
		return nil
	}
	b.seen[digest] = true
	if b.objects++; b.objects > b.limits.objects {
		return fmt.Errorf("it must have at most %d templates and exceptions", b.limits.objects)
	}
	into[key] = append(into[key], o)
	return nil
}
