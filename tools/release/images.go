package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/virtward/virtward/tools/release/files"
	"github.com/virtward/virtward/tools/release/images"
	"github.com/virtward/virtward/tools/release/sbom"
)

// descriptions of the images.
var descriptions = map[string]string{
	"virtward":               "The webhooks and controllers of Virtward",
	"virtward-apiserver":     "The API of VM templates of Virtward",
	"virtward-node-labeller": "The labels of nodes of Virtward",
	"virtward-node-tuner":    "The node hook of Virtward",
	"virtward-import-server": "The server of disks of Virtward, which the pods of imports run",
	"virtward-export-server": "The server of OVAs of Virtward, which the pods of exports run",
}

// layoutSuffix ends the names of files with images.
const layoutSuffix = ".oci.tar"

// image returns what an image is made of.
func (b *build) image(program string) images.Program {
	paths := map[string]string{}
	for _, p := range b.platforms {
		if p.os == "linux" {
			paths[p.arch] = b.program(program, p)
		}
	}
	return images.Program{Name: program, Paths: paths, Created: b.at, Labels: map[string]string{
		"org.opencontainers.image.title":       program,
		"org.opencontainers.image.description": descriptions[program],
		"org.opencontainers.image.version":     b.version,
		"org.opencontainers.image.revision":    b.commit,
		"org.opencontainers.image.created":     b.at.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}}
}

// writeImages writes one OCI layout for each image, with all architectures.
func (b *build) writeImages(context.Context) error {
	for _, program := range servers {
		index, err := images.Index(b.image(program), b.architectures())
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		file := program + "_" + b.version + layoutSuffix
		if err := images.WriteLayout(b.file(file), index, b.version, b.at); err != nil {
			return err
		}
		b.refer(file, b.repository+"/"+program, b.version, digest)
		var parts []*sbom.Part
		for _, architecture := range b.architectures() {
			part, err := b.part(program, platform{"linux", architecture})
			if err != nil {
				return err
			}
			parts = append(parts, part)
		}
		b.artifacts = append(b.artifacts, artifact{file, parts})
	}
	return nil
}

// refer adds an image or a chart of the registry.
func (b *build) refer(file, name, tag string, digest v1.Hash) {
	b.references = append(b.references, reference{
		File: file, Name: name, Tag: tag, Digest: digest.String(), Statement: filepath.Base(file) + statementSuffix,
	})
}

// digestOf is the digest of an image.
func (b *build) digestOf(program string) string {
	for _, r := range b.references {
		if strings.HasSuffix(r.Name, "/"+program) {
			return r.Digest
		}
	}
	return ""
}

// imagesCommand builds the images of a version that is not released: into a folder, as an archive for kind and k3s, or into a
// registry.
func imagesCommand(ctx context.Context, args []string, out io.Writer) error {
	b := build{compile: true}
	architectures := list{"amd64", "arm64", "s390x"}
	var tag, archive string
	var publish bool
	set := flag.NewFlagSet("images", flag.ContinueOnError)
	set.StringVar(&b.root, "root", ".", "the folder of the repository")
	set.StringVar(&b.version, "version", "", "the version of the programs")
	set.StringVar(&b.repository, "repository", "", "the repository of the images")
	set.StringVar(&b.out, "out", "", "the folder for OCI layouts; empty writes none")
	set.StringVar(&b.programs, "programs", "", "the folder for the programs")
	set.StringVar(&tag, "tag", "", "the tag of the images")
	set.StringVar(&archive, "archive", "", "the archive to write, with the first architecture; empty writes none")
	set.BoolVar(&publish, "push", false, "push the images")
	set.Var(&architectures, "architectures", "the architectures of the images")
	if err := set.Parse(args); err != nil {
		return err
	}
	for _, architecture := range architectures {
		b.platforms = append(b.platforms, platform{"linux", architecture})
	}
	var err error
	if b.source, err = readSource(ctx, b.root, true); err != nil {
		return err
	}
	if err := b.compilePrograms(ctx); err != nil {
		return err
	}
	archived := map[name.Tag]v1.Image{}
	for _, program := range servers {
		reference, err := name.NewTag(b.repository + "/" + program + ":" + tag)
		if err != nil {
			return err
		}
		if archive != "" {
			if archived[reference], err = images.Image(b.image(program), architectures[0]); err != nil {
				return err
			}
			continue
		}
		index, err := images.Index(b.image(program), architectures)
		if err != nil {
			return err
		}
		if b.out != "" {
			if err := os.MkdirAll(b.out, 0o755); err != nil {
				return err
			}
			if err := images.WriteLayout(b.file(program+layoutSuffix), index, tag, b.at); err != nil {
				return err
			}
		}
		if publish {
			if err := remote.WriteIndex(reference, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
				return fmt.Errorf("pushing %s: %w", reference, err)
			}
			fmt.Fprintln(out, "pushed", reference)
		}
	}
	if archive != "" {
		return tarball.MultiWriteToFile(archive, archived)
	}
	return nil
}

// writeMaterials writes the bills of materials of all artifacts.
func (b *build) writeMaterials(context.Context) error {
	for _, a := range b.artifacts {
		digest, err := files.SHA256(b.file(a.file))
		if err != nil {
			return err
		}
		part := &sbom.Part{Kind: sbom.File, Name: a.file, Version: b.version, SHA256: digest, Parts: a.parts}
		for suffix, write := range map[string]func(*sbom.Part, time.Time) ([]byte, error){".spdx.json": sbom.SPDX, ".cdx.json": sbom.CycloneDX} {
			content, err := write(part, b.at)
			if err != nil {
				return fmt.Errorf("describing %s: %w", a.file, err)
			}
			if err := os.WriteFile(b.file(a.file+suffix), content, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
