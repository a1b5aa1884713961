package appliance

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

// Data is the content of a file.
type Data interface {
	io.ReaderAt
	Size() int64
}

// member is a file of the package.
type member struct {
	name string
	data Data
	// offset is where it begins in the archive.
	offset int64
}

// source is the opened package.
type source struct {
	format  string // OVA or OVF
	members []member
	// sibling opens a file beside a bare descriptor; nil for none.
	sibling func(name string) (Data, error)
}

// The formats of packages.
const (
	FormatOVA = "OVA"
	FormatOVF = "OVF"
)

// here begins names of files that tar writes for a folder.
const here = "./"

// tarBlock is the size of a header of tar in bytes.
const tarBlock = 512

// maxManifest bounds a manifest and a certificate, and maxBundles all message bundles together, in bytes: their messages are kept.
const maxManifest, maxBundles = 1 << 20, 1 << 20

// maxEntries bounds the entries of an archive, with folders.
const maxEntries = 2 * ovf.MaxFiles

func rejection(reason ovf.Reason, element, message, remedy string) *ovf.Rejection {
	return &ovf.Rejection{Reason: reason, Element: texts.Shorten(element, 256), Message: message, Remedy: remedy}
}

// open indexes a package. The error is a *ovf.Rejection, or one of reading.
func open(name string, data Data, sibling func(string) (Data, error), remote bool) (*source, error) {
	head := make([]byte, min(data.Size(), 64<<10))
	if _, err := io.ReadFull(io.NewSectionReader(data, 0, data.Size()), head); err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	if looksLikeXML(head) {
		return &source{format: FormatOVF, members: []member{{path.Base(strings.ReplaceAll(name, `\`, "/")), data, 0}}, sibling: sibling}, nil
	}
	if kind := virtualimages.Inspect(head, nil).Compressed; kind != "" {
		remedy := "decompress it first" + map[string]string{"xz": ": xz -d FILE", "zip": ": unzip FILE"}[kind]
		if remote {
			remedy = "download and decompress it first: a compressed archive is not read by ranges"
		}
		return nil, rejection(ovf.NotAnArchive, name, "the file is compressed with "+kind, remedy)
	}
	s := &source{format: FormatOVA}
	return s, s.index(data)
}

// looksLikeXML reports whether a file begins as XML does, in UTF-8 or UTF-16.
func looksLikeXML(head []byte) bool {
	text := strings.TrimLeft(strings.TrimPrefix(string(head[:min(len(head), 256)]), "\xef\xbb\xbf"), " \t\r\n")
	return slices.ContainsFunc([]string{"<", "\xff\xfe", "\xfe\xff", "\x00<"}, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}

// index reads the headers of an archive.
func (s *source) index(data Data) error {
	section := io.NewSectionReader(data, 0, data.Size())
	reader := tar.NewReader(section)
	seen := map[string]bool{}
	for entries := 0; ; entries++ {
		header, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF) && entries > 0:
			return nil
		case errors.Is(err, io.EOF), errors.Is(err, tar.ErrHeader), err != nil && data.Size() < tarBlock:
			return rejection(ovf.NotAnArchive, "", "the file is neither a tar archive nor an OVF descriptor, or is damaged", "name an OVA or an OVF")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return rejection(ovf.Truncated, "", "the archive ends in the middle of a file", "download it again")
		case err != nil:
			return fmt.Errorf("reading the archive: %w", err)
		case entries == maxEntries:
			return tooMany(header)
		}
		if r := checkMember(header); r != nil {
			return r
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		name := strings.TrimPrefix(header.Name, here)
		switch {
		case seen[name]:
			return rejection(ovf.DuplicateMember, name, "the archive has the file twice", "remove one of them")
		case len(s.members) == ovf.MaxFiles:
			return rejection(ovf.LimitExceeded, name, "the archive has more than 1000 files", "remove files")
		}
		seen[name] = true
		at, err := section.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if header.Size > data.Size()-at {
			return rejection(ovf.Truncated, name, "the archive ends in the middle of the file", "download it again")
		}
		s.members = append(s.members, member{name, io.NewSectionReader(data, at, header.Size), at})
	}
}

func tooMany(h *tar.Header) *ovf.Rejection {
	return rejection(ovf.LimitExceeded, h.Name, "the archive has more than 2000 entries", "remove files and folders")
}

// checkMember rejects what is neither a plain file nor a folder, and names that leave the folder of the package.
func checkMember(h *tar.Header) *ovf.Rejection {
	name := h.Name
	unsafe := func(message string) *ovf.Rejection {
		return rejection(ovf.UnsafeMember, name, message, "pack the files again without it")
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeXGlobalHeader {
		return unsafe("the archive has a link, a device, a FIFO or a sparse file")
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return unsafe("the archive has a sparse file")
		}
	}
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	switch found := ovf.CheckHref(name, name); {
	case found == nil:
		return nil
	case found.Reason == ovf.LimitExceeded:
		return rejection(ovf.LimitExceeded, name, "the name of a file has more than 1024 bytes", "shorten it")
	case found.Reason == ovf.RemoteReference:
		return nil // a colon is a character of a name
	}
	return unsafe("the name of the file is empty, absolute, leaves the folder, or has a backslash or a control character")
}

// find is the file of an exact name, with or without ./ in front of it. A bare descriptor has the files beside it. The error is one of reading.
// The file is nil if it does not exist.
func (s *source) find(name string) (*member, error) {
	plain := strings.TrimPrefix(name, here)
	for i := range s.members {
		if s.members[i].name == plain {
			return &s.members[i], nil
		}
	}
	if s.sibling == nil {
		return nil, nil
	}
	data, err := s.sibling(plain)
	if data == nil || err != nil {
		return nil, err
	}
	return &member{name: plain, data: data}, nil
}

// withExtension are the files whose names have an extension, in any case.
func (s *source) withExtension(extension string) []member {
	return slices.DeleteFunc(slices.Clone(s.members), func(m member) bool { return !strings.EqualFold(path.Ext(m.name), extension) })
}

// companion is the file beside the descriptor that has another extension, or nil.
func (s *source) companion(descriptor, extension string) (*member, error) {
	name := strings.TrimSuffix(descriptor, path.Ext(descriptor)) + extension
	if found, err := s.find(name); found != nil || err != nil {
		return found, err
	}
	if others := s.withExtension(extension); len(others) > 0 {
		return &others[0], nil
	}
	return nil, nil
}

// content reads a small file completely. The error is a *ovf.Rejection, or one of reading.
func content(m member, limit int64, what string) ([]byte, error) {
	if m.data.Size() > limit {
		return nil, rejection(ovf.LimitExceeded, m.name, fmt.Sprintf("the %s has more than %d MiB", what, limit>>20), "reduce its size")
	}
	data := make([]byte, m.data.Size())
	if n, err := m.data.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("reading %s: %w", texts.Shorten(m.name, 256), err)
	}
	return data, nil
}
