package workspace

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"
)

// overlay is a file system whose open documents replace files. It has regular files and directories only: opening a pipe
// would wait.
type overlay struct {
	fsys fs.FS
	open map[string]Open
}

var errIrregular = errors.New("must be a regular file or a directory")

// Open implements fs.FS.
func (o overlay) Open(name string) (fs.File, error) {
	if document, ok := o.open[name]; ok {
		return &memoryFile{Reader: strings.NewReader(document.Content), info: memoryInfo{name: path.Base(name), size: int64(len(document.Content))}}, nil
	}
	if o.fsys == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	info, err := fs.Stat(o.fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errIrregular}
	}
	return o.fsys.Open(name)
}

// memoryFile is an open document as a file.
type memoryFile struct {
	*strings.Reader
	info memoryInfo
}

// Stat implements fs.File.
func (f *memoryFile) Stat() (fs.FileInfo, error) { return f.info, nil }

// Close implements fs.File.
func (f *memoryFile) Close() error { return nil }

type memoryInfo struct {
	name string
	size int64
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) Mode() fs.FileMode  { return 0o444 }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return false }
func (i memoryInfo) Sys() any           { return nil }
