package images

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the one that images run as: nonroot of the images that others call static or distroless.
const user = "65532"

// bin is the folder of the program. It is in the PATH.
const bin = "usr/local/bin/"

// base are the files of each image, folders before what is in them.
var base = []struct {
	header  tar.Header
	content string
}{
	{header: tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}},
	{
		header: tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644},
		content: "root:x:0:0:root:/:/sbin/nologin\n" +
			"nonroot:x:" + user + ":" + user + ":nonroot:/tmp:/sbin/nologin\n",
	},
	{
		header:  tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644},
		content: "root:x:0:\nnonroot:x:" + user + ":\n",
	},
	{header: tar.Header{Name: "etc/ssl/", Typeflag: tar.TypeDir, Mode: 0o755}},
	{header: tar.Header{Name: "etc/ssl/certs/", Typeflag: tar.TypeDir, Mode: 0o755}},
	{header: tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Typeflag: tar.TypeReg, Mode: 0o644}, content: authorities()},
	{header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
}

// authorities are the certificates in PEM that Mozilla trusts, for images that are read from public servers. Those with conditions, which
// PEM cannot express, are left out.
func authorities() string {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return text.String()
}

// Program is a program of an image.
type Program struct {
	Name string
	// Paths are the files, by architecture.
	Paths map[string]string
	// Labels describe the images and their index.
	Labels map[string]string
	// Created is the time of the images and of the program in them.
	Created time.Time
}

// Index returns the images of a program for architectures, in this order.
func Index(program Program, architectures []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		image, err := Image(program, architecture)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	annotated, _ := mutate.Annotations(index, program.Labels).(v1.ImageIndex)
	return annotated, nil
}

// Image returns the image of a program for one architecture.
func Image(program Program, architecture string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: architecture,
		Created:      v1.Time{Time: program.Created},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user + ":" + user,
			WorkingDir: "/",
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Entrypoint: []string{"/" + bin + program.Name},
			Labels:     program.Labels,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring the image of %s for %s: %w", program.Name, architecture, err)
	}
	system, err := layer(writeBase)
	if err != nil {
		return nil, err
	}
	binary, err := layer(func(archive *tar.Writer) error {
		return writeProgram(archive, program.Name, program.Paths[architecture], program.Created)
	})
	if err != nil {
		return nil, fmt.Errorf("packing %s for %s: %w", program.Name, architecture, err)
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: system, History: v1.History{Created: v1.Time{Time: program.Created}, CreatedBy: "root file system"}},
		mutate.Addendum{Layer: binary, History: v1.History{Created: v1.Time{Time: program.Created}, CreatedBy: program.Name}},
	)
	if err != nil {
		return nil, err
	}
	annotated, _ := mutate.Annotations(image, program.Labels).(v1.Image)
	return annotated, nil
}

func writeBase(archive *tar.Writer) error {
	for _, file := range base {
		header := file.header
		header.Size = int64(len(file.content))
		header.ModTime = time.Unix(0, 0)
		if err := archive.WriteHeader(&header); err != nil {
			return fmt.Errorf("writing %s: %w", header.Name, err)
		}
		if _, err := io.WriteString(archive, file.content); err != nil {
			return fmt.Errorf("writing %s: %w", header.Name, err)
		}
	}
	return nil
}

func writeProgram(archive *tar.Writer, name, path string, at time.Time) error {
	for folder := range pathsTo(bin) {
		if err := archive.WriteHeader(&tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: at}); err != nil {
			return err
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: bin + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content)), ModTime: at}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}

// pathsTo yields a folder and those above it, the highest first.
func pathsTo(folder string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i, letter := range folder {
			if letter == '/' && !yield(folder[:i+1]) {
				return
			}
		}
	}
}

func layer(write func(*tar.Writer) error) (v1.Layer, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	if err := write(archive); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
