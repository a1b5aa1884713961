package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the one that images run as: nonroot of the images that others call static or distroless.
const user = "65532"

// files of the base image, folders before what is in them.
var files = []struct {
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
	{header: tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}},
}

// base is the base image for platforms. Its digest depends on nothing but this file.
func base(platforms []v1.Platform) (v1.ImageIndex, error) {
	layer, err := fileSystem()
	if err != nil {
		return nil, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, platform := range platforms {
		image, err := imageFor(platform, layer)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &platform},
		})
	}
	return index, nil
}

func imageFor(platform v1.Platform, layer v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       user + ":" + user,
			WorkingDir: "/",
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// fileSystem is the layer with the files.
func fileSystem() (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, file := range files {
		header := file.header
		header.Size = int64(len(file.content))
		header.ModTime = time.Unix(0, 0)
		if err := writer.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("writing %s: %w", header.Name, err)
		}
		if _, err := io.WriteString(writer, file.content); err != nil {
			return nil, fmt.Errorf("writing %s: %w", header.Name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
