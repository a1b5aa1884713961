package answers

import (
	"io/fs"
	"slices"
	"strings"
	"time"
)

// root is the name of a folder in itself.
const root = "."

// folder is the file system of files without subdirectories.
type folder []File

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	if name == root {
		return &opened{Reader: strings.NewReader(""), info: info{name: root, directory: true}}, nil
	}
	for _, file := range f {
		if file.Name == name {
			return &opened{Reader: strings.NewReader(file.Text), info: info{name: name, size: int64(len(file.Text))}}, nil
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) {
	if name != root {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	var all []fs.DirEntry
	for _, file := range f {
		all = append(all, fs.FileInfoToDirEntry(info{name: file.Name, size: int64(len(file.Text))}))
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

// opened is an open file.
type opened struct {
	*strings.Reader
	info info
}

// Stat implements fs.File.
func (o *opened) Stat() (fs.FileInfo, error) { return o.info, nil }

// Close implements fs.File.
func (o *opened) Close() error { return nil }

// info implements fs.FileInfo.
type info struct {
	name      string
	size      int64
	directory bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.directory }
func (i info) Sys() any           { return nil }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode {
	if i.directory {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
