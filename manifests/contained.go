package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The errors of files that only another file names.
var (
	// ErrOutside is the error of a file outside of the directories that the command line names.
	ErrOutside = errors.New("it is outside of the current directory and of the directories that you name: name it on the command line")
	// ErrHidden is the error of a file whose name, or that of its directory, begins with a dot, such as .git.
	ErrHidden = errors.New("its name, or that of its directory, begins with a dot: name it on the command line")
)

// Inside returns the path of a file that another file names, or that is found in a directory, with all symbolic links resolved. The
// authors of these files are not those of the command line, and the content of a file can be part of an error. So the file must be
// below one of the directories, and there in no directory whose name begins with a dot; two dots are names of Kubernetes' volumes. The
// error is ErrOutside or ErrHidden, or says that the file does not exist.
func Inside(name string, directories ...string) (string, error) {
	file, err := resolved(name)
	if err != nil {
		return "", err
	}
	why := ErrOutside
	for _, directory := range directories {
		root, err := resolved(directory)
		if err != nil {
			continue // nothing is below it
		}
		below, err := filepath.Rel(root, file)
		if err != nil || below == ".." || strings.HasPrefix(below, ".."+string(filepath.Separator)) {
			continue
		}
		if !hidden(below) {
			return file, nil
		}
		why = ErrHidden
	}
	return "", why
}

// hidden reports whether a step of a path begins with one dot.
func hidden(path string) bool {
	return slices.ContainsFunc(strings.Split(path, string(filepath.Separator)), func(step string) bool {
		return len(step) > 1 && step[0] == '.' && step[1] != '.'
	})
}

// resolved returns an absolute path without symbolic links.
func resolved(name string) (string, error) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// OpenFound opens a file that was found in a directory; an empty one for a file of the command line. A symbolic link must lead to a
// file inside of it, or of the current directory.
func OpenFound(file, directory string) (*os.File, error) {
	opened, err := openFound(file, directory)
	if err != nil {
		return nil, unreadable(file, err)
	}
	return opened, nil
}

func openFound(file, directory string) (*os.File, error) {
	info, err := os.Lstat(file)
	if directory == "" || err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return os.Open(file)
	}
	target, err := Inside(file, directory, ".")
	switch {
	case errors.Is(err, ErrOutside), errors.Is(err, ErrHidden):
		return nil, fmt.Errorf("the target of the symbolic link: %w", err)
	case err != nil:
		return nil, err
	}
	return os.Open(target)
}
