package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of a folder.
const (
	// MaxFile is the size of a file in bytes; larger ones are skipped.
	MaxFile = 1 << 20
	// MaxFiles is the number of manifests of a folder.
	MaxFiles = 2_000
	// MaxBytes is the size of all relevant manifests in bytes.
	MaxBytes = 16 << 20
	// maxEntries is the number of files and directories that are visited.
	maxEntries = 50_000
)

// Folder has the manifests of a folder, as they were at the last Scan.
type Folder struct {
	fsys  fs.FS
	files map[string]*File
}

// NewFolder returns a folder without files. Its file system must not lead out of it.
func NewFolder(fsys fs.FS) *Folder { return &Folder{fsys: fsys, files: map[string]*File{}} }

// Scan reads new and changed files. It skips hidden directories, symbolic links, and files that are not YAML or JSON. The note
// names the bound that leaves files out; it is empty if none does.
func (f *Folder) Scan(ctx context.Context) (note string, err error) {
	found, entries, total := map[string]*File{}, 0, int64(0)
	err = fs.WalkDir(f.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		entries++
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return skipped(entry)
		case entries > maxEntries:
			note = fmt.Sprintf("the folder has more than %d files and directories: the others are not read", maxEntries)
			return fs.SkipAll
		case entry.IsDir():
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !isManifest(name):
			return nil
		}
		file, size := f.read(ctx, name, entry)
		if file == nil {
			return ctx.Err()
		}
		if file.Relevant {
			total += size
		}
		if len(found) >= MaxFiles || total > MaxBytes {
			note = fmt.Sprintf("the folder has more than %d manifests, or more than %d MiB of them: the others are not read", MaxFiles, MaxBytes>>20)
			return fs.SkipAll
		}
		found[name] = file
		return nil
	})
	if err != nil {
		return "", err
	}
	f.files = found
	return note, nil
}

// skipped skips what cannot be read.
func skipped(entry fs.DirEntry) error {
	if entry != nil && entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// read parses a file, unless it is known. It returns nil for one that is too large or cannot be read.
func (f *Folder) read(ctx context.Context, name string, entry fs.DirEntry) (*File, int64) {
	info, err := entry.Info()
	if err != nil || info.Size() > MaxFile {
		return nil, 0
	}
	if known := f.files[name]; known != nil && known.info.Size() == info.Size() && known.info.ModTime().Equal(info.ModTime()) {
		return known, info.Size()
	}
	opened, err := f.fsys.Open(name)
	if err != nil {
		return nil, 0
	}
	defer opened.Close()
	content, err := io.ReadAll(io.LimitReader(opened, MaxFile))
	if err != nil {
		return nil, 0
	}
	file, err := Parse(ctx, name, string(content))
	if err != nil {
		return nil, 0
	}
	file.info = info
	return file, info.Size()
}

// Snapshot is a folder at one time. It never changes.
type Snapshot struct {
	overlay
	files map[string]*File
}

// Open is an open document.
type Open struct {
	*File
	Content string
}

// Snapshot returns the folder with open documents, by their names in the folder.
func (f *Folder) Snapshot(open map[string]Open) *Snapshot {
	s := &Snapshot{overlay: overlay{fsys: f.fsys, open: open}, files: maps.Clone(f.files)}
	for name, o := range open {
		s.files[name] = o.File
	}
	return s
}

// File returns a file, or nil.
func (s *Snapshot) File(name string) *File { return s.files[name] }

// Near returns the relevant files, sorted by how near they are to one of them: it, those of its directory, then those of
// directories with the longest common path.
func (s *Snapshot) Near(name string) []*File {
	var all []*File
	for _, f := range s.files {
		if f.Relevant {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *File) int {
		if d := distance(a.Name, name) - distance(b.Name, name); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// distance counts the directories between two files; a file is nearer to itself than to any other one.
func distance(a, b string) int {
	if a == b {
		return -1
	}
	from, to := strings.Split(path.Dir(a), "/"), strings.Split(path.Dir(b), "/")
	common := 0
	for common < len(from) && common < len(to) && from[common] == to[common] {
		common++
	}
	return len(from) + len(to) - 2*common
}
