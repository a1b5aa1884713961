package files

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Permissions of files in archives.
const (
	Plain      fs.FileMode = 0o644
	Executable fs.FileMode = 0o755
)

// Entry is a file of an archive. Its content is that of the file at Path, or else Content.
type Entry struct {
	Name    string
	Mode    fs.FileMode
	Path    string
	Content []byte
}

// copyTo writes the content of an entry.
func (e Entry) copyTo(writer io.Writer) error {
	if e.Path == "" {
		_, err := writer.Write(e.Content)
		return err
	}
	file, err := os.Open(e.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(writer, file)
	return err
}

func (e Entry) size() (int64, error) {
	if e.Path == "" {
		return int64(len(e.Content)), nil
	}
	info, err := os.Stat(e.Path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// WriteTar writes an archive without compression.
func WriteTar(path string, entries []Entry, at time.Time) error {
	return create(path, func(file io.Writer) error { return writeTar(file, entries, at) })
}

// WriteTarGz writes a compressed archive.
func WriteTarGz(path string, entries []Entry, at time.Time) error {
	return create(path, func(file io.Writer) error {
		compressed := gzip.NewWriter(file) // without a name and a time
		return errors.Join(writeTar(compressed, entries, at), compressed.Close())
	})
}

func writeTar(writer io.Writer, entries []Entry, at time.Time) error {
	archive := tar.NewWriter(writer)
	for _, entry := range entries {
		size, err := entry.size()
		if err != nil {
			return fmt.Errorf("reading %s: %w", entry.Name, err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: entry.Name, Mode: int64(entry.Mode), Size: size, ModTime: at, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("adding %s: %w", entry.Name, err)
		}
		if err := entry.copyTo(archive); err != nil {
			return fmt.Errorf("adding %s: %w", entry.Name, err)
		}
	}
	return archive.Close()
}

// WriteZip writes a zip archive, which Windows opens without further programs.
func WriteZip(path string, entries []Entry, at time.Time) error {
	return create(path, func(file io.Writer) error {
		archive := zip.NewWriter(file)
		for _, entry := range entries {
			header := &zip.FileHeader{Name: entry.Name, Method: zip.Deflate, Modified: at.UTC()}
			header.SetMode(entry.Mode)
			writer, err := archive.CreateHeader(header)
			if err == nil {
				err = entry.copyTo(writer)
			}
			if err != nil {
				return fmt.Errorf("adding %s: %w", entry.Name, err)
			}
		}
		return archive.Close()
	})
}

func create(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}

// Folder returns the files below a folder in the order of their names, each with prefix before its name.
func Folder(folder, prefix string) ([]Entry, error) {
	var entries []Entry
	err := filepath.WalkDir(folder, func(path string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		entries = append(entries, Entry{Name: prefix + filepath.ToSlash(name), Mode: Plain, Path: path})
		return nil
	})
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries, err
}
