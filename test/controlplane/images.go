package controlplane

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// unpack returns the program of an image for this architecture, which it pulls as a container runtime does: the digests of all
// content are verified. An image is pulled once.
func (c *ControlPlane) unpack(ctx context.Context, image string) (string, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", fmt.Errorf("the image %s: %w", image, err)
	}
	pulled, err := remote.Image(reference, remote.WithContext(ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return "", fmt.Errorf("pulling %s: %w", image, err)
	}
	digest, err := pulled.Digest()
	if err != nil {
		return "", fmt.Errorf("pulling %s: %w", image, err)
	}
	config, err := pulled.ConfigFile()
	if err != nil {
		return "", fmt.Errorf("pulling %s: %w", image, err)
	}
	if len(config.Config.Entrypoint) != 1 {
		return "", fmt.Errorf("the image %s has the entrypoint %q, want one program", image, config.Config.Entrypoint)
	}
	entrypoint := config.Config.Entrypoint[0]
	target := c.home.file("images", digest.Hex, path.Base(entrypoint))
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return "", err
	}
	content := mutate.Extract(pulled)
	defer content.Close()
	if err := extract(content, strings.TrimPrefix(entrypoint, "/"), target); err != nil {
		return "", fmt.Errorf("unpacking %s from %s: %w", entrypoint, image, err)
	}
	return target, nil
}

// extract writes one file of an archive to target, which exists only when it is complete.
func extract(content io.Reader, name, target string) error {
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if err != nil {
			return err
		}
		if header.Name != name {
			continue
		}
		file, err := os.CreateTemp(filepath.Dir(target), "unpacking-")
		if err != nil {
			return err
		}
		_, err = io.Copy(file, archive) //nolint:gosec // an image of the test
		if err := errors.Join(err, file.Chmod(0o700), file.Close()); err != nil {
			return err
		}
		return os.Rename(file.Name(), target)
	}
}
