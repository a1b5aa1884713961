package policytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/manifests"
)

// Bounds of a suite.
const (
	maxSuite = 4 << 20
	maxTests = 1_000
	// maxCases is the number of cases of one test.
	maxCases   = 1_000
	maxObjects = 1_000
)

// Suite is a suite that was read and is valid.
type Suite struct {
	Spec
	// File is the name of the file, as it was given.
	File string

	document manifests.Document
	files    *files
}

// Load reads the suites of files, and of all files below directories. It skips files and directories whose names begin
// with a dot, suites with problems, and other objects.
func Load(fsys fs.FS, paths ...string) ([]*Suite, []Problem) {
	var suites []*Suite
	var problems []Problem
	read := &files{fsys: fsys, read: map[string]content{}}
	seen := map[string]bool{}
	for _, name := range paths {
		found, err := filesBehind(fsys, name)
		if err != nil {
			problems = append(problems, inFile(name, plain(err)))
			continue
		}
		before, again := len(suites)+len(problems), seen[name]
		for _, file := range found {
			if seen[file] {
				continue
			}
			seen[file] = true
			some, wrong := read.suites(file, file == name)
			suites, problems = append(suites, some...), append(problems, wrong...)
		}
		if before == len(suites)+len(problems) && !again {
			problems = append(problems, inFile(name, "has no suite: no object of the kind "+Kind+" of "+policyv1alpha1.GroupVersion.String()))
		}
	}
	return suites, problems
}

// filesBehind returns a file, or all files below a directory, sorted by name.
func filesBehind(fsys fs.FS, name string) ([]string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var found []string
	err = fs.WalkDir(fsys, name, func(file string, entry fs.DirEntry, err error) error {
		hidden := file != name && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && hidden:
			return fs.SkipDir
		case !entry.IsDir() && !hidden && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file)):
			found = append(found, file)
		}
		return nil
	})
	return found, err
}

// plain returns the text of an error without the name of the system call.
func plain(err error) string {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		err = wrong.Err
	}
	return err.Error()
}

// files caches the files that were read.
type files struct {
	fsys fs.FS
	read map[string]content
}

type content struct {
	*manifests.Content
	err error
}

// file reads the objects of a file, once. It returns an error if one of them cannot be read.
func (f *files) file(name string) ([]manifests.Document, error) {
	found, problems := f.parts(name)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return found, nil
}

// parts reads the objects of a file, once. The problems are about documents that cannot be read.
func (f *files) parts(name string) ([]manifests.Document, []Problem) {
	known, ok := f.read[name]
	if !ok {
		known.Content, known.err = f.parse(name)
		f.read[name] = known
	}
	if known.err != nil {
		return nil, []Problem{inFile(name, plain(known.err))}
	}
	var problems []Problem
	for _, u := range known.Unreadable {
		problem := inFile(name, strings.TrimPrefix(u.Error(), name+": "))
		problem.Line, problem.Column = u.Line, u.Column
		problems = append(problems, problem)
	}
	return known.Documents, problems
}

func (f *files) parse(name string) (*manifests.Content, error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := manifests.ReadParts(context.Background(), name, file)
	if err != nil {
		return nil, err
	}
	return content.Strictly(), nil
}

// directory reads the objects of a file, or of those of a directory.
func (f *files) directory(name string) ([]manifests.Document, error) {
	names, err := filesBehind(f.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, plain(err))
	}
	var all []manifests.Document
	for _, file := range names {
		found, err := f.file(file)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// suites reads the suites of a file. If the file was not named itself, it may be of any format, such as the template of
// a chart.
func (f *files) suites(name string, named bool) ([]*Suite, []Problem) {
	if !named && !f.mentions(name, []string{Kind}) {
		return nil, nil
	}
	found, problems := f.parts(name)
	suites, wrong := f.suitesOf(name, found)
	return suites, append(problems, wrong...)
}

// suitesOf returns the suites of documents.
func (f *files) suitesOf(name string, found []manifests.Document) (suites []*Suite, problems []Problem) {
	for _, d := range found {
		if d.Object.GetKind() != Kind || d.Object.GroupVersionKind().Group != policyv1alpha1.GroupVersion.Group {
			continue
		}
		s, wrong := newSuite(f, name, d)
		if problems = append(problems, wrong...); s != nil {
			suites = append(suites, s)
		}
	}
	return suites, problems
}

// mentions reports whether a file could have an object of one of these kinds of Virtward.
func (f *files) mentions(name string, kinds []string) bool {
	file, err := f.fsys.Open(name)
	if err != nil {
		return true // reading it reports the error
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSuite))
	return err != nil || bytes.Contains(data, []byte(policyv1alpha1.GroupVersion.Group)) &&
		slices.ContainsFunc(kinds, func(kind string) bool { return bytes.Contains(data, []byte(kind)) })
}

// newSuite decodes a suite. It returns nil if there are problems.
func newSuite(f *files, name string, d manifests.Document) (*Suite, []Problem) {
	s := &Suite{File: name, document: d, files: f}
	if version := d.Object.GetAPIVersion(); version != policyv1alpha1.GroupVersion.String() {
		return nil, []Problem{s.problem("apiVersion", fmt.Sprintf("%s must be %s", version, policyv1alpha1.GroupVersion))}
	}
	problems := decode(d, &s.Spec)
	if len(problems) == 0 {
		problems = s.check()
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// problem returns a problem of a field of the suite.
func (s *Suite) problem(field, message string) Problem { return at(s.document, field, message) }
