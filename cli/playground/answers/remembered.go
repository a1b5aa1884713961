package answers

import (
	"io/fs"
	"maps"
	"strings"
	"sync"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// remembered keeps the last result of suites or of lint, because most changes of a text are in files that they do not read. It is safe
// for concurrent use.
type remembered[T any] struct {
	mutex sync.Mutex
	last  *result[T]
}

// result is a result, and what it was made of.
type result[T any] struct {
	value T
	// options are those of the question.
	options string
	// names are those of all files, because a result depends on whether a file exists.
	names map[string]bool
	// texts are those of the files that were read.
	texts map[string]string
}

// get returns the result for files. load reads all policies and suites of a folder, and returns a function that evaluates them.
// A result is kept if the function reports that it is complete.
func (r *remembered[T]) get(files []File, options string, load func(fs.FS) func() (T, bool)) T {
	r.mutex.Lock()
	last := r.last
	r.mutex.Unlock()
	if last != nil && last.holds(files, options) {
		return last.value
	}
	made := &result[T]{options: options, names: map[string]bool{}, texts: map[string]string{}}
	for _, f := range files {
		made.names[f.Name] = true
		if mentions(f) {
			made.texts[f.Name] = f.Text
		}
	}
	reads := &recorder{folder: folder(files)}
	evaluate := load(reads)
	reads.opened = made.texts // load opens all files, to find those with policies and suites
	var complete bool
	if made.value, complete = evaluate(); complete {
		r.mutex.Lock()
		r.last = made
		r.mutex.Unlock()
	}
	return made.value
}

// holds reports whether a question with these files has the result.
func (r *result[T]) holds(files []File, options string) bool {
	names := map[string]bool{}
	for _, f := range files {
		names[f.Name] = true
		text, read := r.texts[f.Name]
		if read && text != f.Text || !read && mentions(f) {
			return false
		}
	}
	return options == r.options && maps.Equal(names, r.names)
}

// mentions reports whether a file can have a policy, a suite or another object that lint reads.
func mentions(f File) bool { return strings.Contains(f.Text, policyv1alpha1.GroupVersion.Group) }

// recorder notes the texts of the files of a folder that are opened. It is used by one goroutine.
type recorder struct {
	folder

	// opened has the texts by the names of the files; nil if nothing is noted.
	opened map[string]string
}

// Open implements fs.FS.
func (r *recorder) Open(name string) (fs.File, error) {
	if r.opened != nil {
		for _, f := range r.folder {
			if f.Name == name {
				r.opened[name] = f.Text
			}
		}
	}
	return r.folder.Open(name)
}
