package policy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/manifests"
)

// disk is the file system, with names as on the command line: absolute, or relative to the current directory, also with
// .. in them. Files that the command line does not name, but a suite or a symbolic link does, are read only inside of its directories:
// see manifests.Inside.
type disk struct {
	// read has what was read before: standard input, URLs and kustomizations.
	read map[string][]byte
	// named are the names of the command line.
	named map[string]bool
	// directories are those that other names must be inside of.
	directories []string
}

// newDisk returns a disk for the names of the command line.
func newDisk(names []string) *disk {
	d := &disk{read: map[string][]byte{}, named: map[string]bool{}, directories: []string{repositoryOf(".")}}
	for _, name := range names {
		if name == manifests.Stdin || manifests.IsURL(name) {
			continue
		}
		d.named[name] = true
		directory := name
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			directory = filepath.Dir(name)
		}
		d.directories = append(d.directories, directory, repositoryOf(directory))
	}
	return d
}

// repositoryOf returns the root of the git repository of a directory, or the directory if there is none.
func repositoryOf(directory string) string {
	absolute, err := filepath.Abs(directory)
	if err != nil {
		return directory
	}
	for root := absolute; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, ".git")); err == nil {
			return root
		}
		if root == filepath.Dir(root) {
			return directory
		}
	}
}

// Open implements fs.FS.
func (d *disk) Open(name string) (fs.File, error) {
	if data, known := d.read[name]; known {
		return memory{path.Base(name), bytes.NewReader(data), int64(len(data))}, nil
	}
	if d.named[name] {
		return os.Open(name)
	}
	file, err := manifests.Inside(name, d.directories...)
	if err != nil {
		return nil, err
	}
	return os.Open(file)
}

// OpenBeyond implements policytest.Beyond. It opens a file that can have policies, and no link, hidden file or directory.
func (d *disk) OpenBeyond(name string) (fs.File, error) {
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		return nil, errors.New("it is not a .yaml, .yml or .json file: name it on the command line")
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file, but a link or a directory: name it on the command line")
	}
	file, err := manifests.Inside(name, string(filepath.Separator))
	if err != nil {
		return nil, err
	}
	return os.Open(file)
}

// rendered begins the name of the file of a kustomization.
const rendered = "kustomization "

// isPath reports whether a name is one of the file system.
func isPath(name string) bool {
	return name != manifests.Name(manifests.Stdin) && !manifests.IsURL(name) && !strings.HasPrefix(name, rendered)
}

// memory is a file that was read before.
type memory struct {
	name string
	*bytes.Reader
	size int64
}

// The methods of fs.File and fs.FileInfo.
func (m memory) Stat() (fs.FileInfo, error) { return m, nil }
func (m memory) Close() error               { return nil }
func (m memory) Name() string               { return m.name }
func (m memory) Size() int64                { return m.size }
func (m memory) Mode() fs.FileMode          { return 0o400 }
func (m memory) ModTime() time.Time         { return time.Time{} }
func (m memory) IsDir() bool                { return false }
func (m memory) Sys() any                   { return nil }

// paths are the files that lint and test read: arguments, and the flags of kubectl.
type paths struct {
	arguments []string
	sources   options.Sources
}

// addFlags adds --filename and --kustomize. Directories are read with their subdirectories, so --recursive changes nothing.
func (p *paths) addFlags(cmd *cobra.Command, words string) {
	p.sources.AddFileFlags(cmd, words)
	cmd.Flags().Lookup("recursive").Usage = "Read subdirectories, which is the default here"
}

// validate requires a file.
func (p *paths) validate(cmd *cobra.Command, arguments []string, what string) error {
	p.arguments = arguments
	switch {
	case len(arguments) == 0 && !p.sources.HasFiles():
		return options.Usagef("add a file or a directory with %s: see %s --help", what, cmd.CommandPath())
	case len(arguments) > 0 && p.sources.HasFiles():
		return options.Usagef("name files as arguments or with -f or -k, not both%s", options.SeeHelp(cmd))
	}
	return p.sources.ValidateFiles(cmd)
}

// open returns the file system and the names in it.
func (p *paths) open(ctx context.Context, stdin io.Reader) (*disk, []string, error) {
	given := slices.Concat(p.arguments, p.sources.Filenames)
	d := newDisk(given)
	var names []string
	for _, name := range given {
		var err error
		shown := manifests.Name(name)
		switch {
		case name == manifests.Stdin:
			d.read[shown], err = io.ReadAll(io.LimitReader(stdin, manifests.MaxFile+1))
		case manifests.IsURL(name):
			d.read[shown], err = manifests.Fetch(ctx, name)
		}
		if err != nil {
			return nil, nil, err
		}
		names = append(names, shown)
	}
	if dir := p.sources.Kustomize; dir != "" {
		text, err := options.Render(dir)
		if err != nil {
			return nil, nil, err
		}
		name := rendered + dir
		if d.read[name], err = io.ReadAll(text); err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	return d, names, nil
}
