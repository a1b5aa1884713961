package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/limits/parallel"
)

// Sizes in bytes.
const (
	// MaxFile is the size of one file.
	MaxFile = 16 << 20
	// MaxFiles is the size of all files together.
	MaxFiles = 512 << 20
)

// Stdin is the name of standard input on the command line.
const Stdin = "-"

// Document is an object of a file, or of the cluster.
type Document struct {
	// Source is the name of the file, or "standard input", or "cluster".
	Source string
	// File is the path of the file; empty for standard input and the cluster.
	File string
	// Index counts the documents of the file, from 1; it is 0 in the cluster.
	Index int
	// Object as it was written.
	Object *unstructured.Unstructured

	// Repeated are the fields that the text sets more than once, at most 100.
	Repeated []Repeated

	// text is the text of the document, and base is the path in it to the object.
	text *text
	base []string
}

// Location returns the location for messages: vm.yaml: document 2.
func (d Document) Location() string {
	if d.Index == 0 {
		return d.Source
	}
	return fmt.Sprintf("%s: document %d", d.Source, d.Index)
}

// ReadAll reads files, directories, URLs and standard input in parallel, and keeps their order. Of a directory, it reads
// the files that end in .yaml, .yml and .json, sorted by name, and those of its subdirectories if recursive is true. It
// returns the error of the first document that cannot be read. It stops when the context is done.
func ReadAll(ctx context.Context, names []string, recursive bool, stdin io.Reader) ([]Document, error) {
	content, err := ReadEach(ctx, names, recursive, stdin)
	if err != nil {
		return nil, err
	}
	return content.Complete()
}

// ReadEach is ReadAll, and returns all documents that can be read, and those that cannot. It returns an error only if a
// name names no file, or a directory without manifests.
func ReadEach(ctx context.Context, names []string, recursive bool, stdin io.Reader) (*Content, error) {
	files, err := expandAll(names, recursive)
	if err != nil {
		return nil, err
	}
	found := make([]*Content, len(files))
	var bytes atomic.Int64
	err = parallel.Each(ctx, len(files), func(i int) (err error) {
		found[i], err = readNamed(ctx, files[i].name, files[i].directory, stdin, &bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := &Content{}
	for _, content := range found {
		all.Documents = append(all.Documents, content.Documents...)
		all.Unreadable = append(all.Unreadable, content.Unreadable...)
	}
	return all, nil
}

// listed is a file, and the directory in which it was found; empty for a file of the command line.
type listed struct{ name, directory string }

// expandAll lists the files of names.
func expandAll(names []string, recursive bool) ([]listed, error) {
	var files []listed
	for _, name := range names {
		if name == Stdin || IsURL(name) {
			files = append(files, listed{name: name})
			continue
		}
		more, err := expand(name, recursive)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// readNamed reads a file, a URL, or standard input. directory is that of a listed file. bytes is the size of all files that were read.
func readNamed(ctx context.Context, name, directory string, stdin io.Reader, bytes *atomic.Int64) (*Content, error) {
	if name == Stdin {
		return read(ctx, Document{Source: Name(name)}, stdin, bytes)
	}
	if IsURL(name) {
		body, err := fetch(ctx, name)
		if err != nil {
			return unreadableFile(Document{Source: shown(name)}, err), nil
		}
		defer body.Close()
		return read(ctx, Document{Source: shown(name)}, body, bytes)
	}
	in := Document{Source: name, File: name}
	file, err := openFound(name, directory)
	if err != nil {
		return unreadableFile(in, err), nil
	}
	defer file.Close()
	return read(ctx, in, file, bytes)
}

// Name returns the name of a file in messages.
func Name(file string) string {
	switch {
	case file == Stdin:
		return "standard input"
	case IsURL(file):
		return shown(file)
	}
	return file
}

// expand returns a file, or the files of a directory.
func expand(name string, recursive bool) ([]listed, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, unreadable(name, err)
	}
	if !info.IsDir() {
		return []listed{{name: name}}, nil
	}
	var files []listed
	err = filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != name && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && isManifest(path):
			files = append(files, listed{path, name})
		}
		return nil
	})
	if err != nil {
		return nil, unreadable(name, err)
	}
	if len(files) == 0 {
		hint := ""
		if !recursive {
			hint = ": use -R to read its subdirectories"
		}
		return nil, fmt.Errorf("%s: the directory holds no .yaml, .yml or .json files%s", name, hint)
	}
	return files, nil
}

func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// unreadable returns an error with the name of the file, and without that of the system call.
func unreadable(name string, err error) error { return fmt.Errorf("%s: %w", name, plainly(err)) }

// plainly returns an error of the file system without the name of the file and the system call.
func plainly(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Read reads the documents of one file: YAML documents, or a sequence of JSON objects. It returns the items of lists,
// and skips empty documents. It returns the error of the first document that cannot be read.
func Read(source string, r io.Reader) ([]Document, error) {
	content, err := ReadParts(context.Background(), source, r)
	if err != nil {
		return nil, err
	}
	return content.Complete()
}

// ReadParts is Read, and returns all documents that can be read, and those that cannot.
func ReadParts(ctx context.Context, source string, r io.Reader) (*Content, error) {
	return read(ctx, Document{Source: source}, r, new(atomic.Int64))
}

// read reads the documents of a file. They are in the given one. bytes is the size of all files that were read. An error
// is about all of them.
func read(ctx context.Context, in Document, r io.Reader, bytes *atomic.Int64) (*Content, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return unreadableFile(in, err), nil
	}
	if len(data) > MaxFile {
		return unreadableFile(in, fmt.Errorf("must be no larger than %d MiB", MaxFile>>20)), nil
	}
	if bytes.Add(int64(len(data))) > MaxFiles {
		return nil, fmt.Errorf("the files together must be no larger than %d MiB", MaxFiles>>20)
	}
	chunks := split(utf8Of(data))
	parsed := make([][]value, len(chunks))
	if err := parallel.Each(ctx, len(chunks), func(i int) error {
		parsed[i] = parse(chunks[i])
		return nil
	}); err != nil {
		return nil, err
	}
	content := &Content{}
	for _, values := range parsed {
		for i := range values {
			in.Index++
			content.add(in, &values[i])
		}
	}
	return content, nil
}
