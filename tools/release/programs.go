package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/virtward/virtward/tools/release/files"
	"github.com/virtward/virtward/tools/release/sbom"
)

// artifact is a file that users install, and what is in it.
type artifact struct {
	file  string
	parts []*sbom.Part
}

// program is the path of a program for a platform.
func (b *build) program(name string, p platform) string {
	return filepath.Join(b.programs, p.String(), name+suffix(p))
}

func suffix(p platform) string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// names are the programs for a platform.
func names(p platform) []string {
	if p.os == "linux" {
		return append(append([]string{}, clients...), servers...)
	}
	return clients
}

// compilePrograms compiles with the flags of the Makefile, and without the paths and the state of this machine.
func (b *build) compilePrograms(ctx context.Context) error {
	for _, p := range b.platforms {
		if b.compile {
			if err := b.compileFor(ctx, p); err != nil {
				return err
			}
		}
		for _, name := range names(p) {
			if _, err := os.Stat(b.program(name, p)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *build) compileFor(ctx context.Context, p platform) error {
	folder, err := filepath.Abs(filepath.Join(b.programs, p.String()))
	if err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version=" + b.version, "-o", folder + "/"}
	for _, name := range names(p) {
		args = append(args, "./cmd/"+name)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = b.root
	command.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOTOOLCHAIN=local")
	command.Stderr = os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("compiling for %s: %w", p, err)
	}
	return nil
}

// writeArchives writes one archive for each program of the CLI and platform.
func (b *build) writeArchives(context.Context) error {
	license := files.Entry{Name: "LICENSE", Mode: files.Plain, Path: filepath.Join(b.root, "LICENSE")}
	for _, p := range b.platforms {
		for _, name := range clients {
			entries := []files.Entry{{Name: name + suffix(p), Mode: files.Executable, Path: b.program(name, p)}, license}
			file, write := b.archive(name, p), files.WriteTarGz
			if p.os == "windows" {
				write = files.WriteZip
			}
			if err := write(b.file(file), entries, b.at); err != nil {
				return err
			}
			part, err := b.part(name, p)
			if err != nil {
				return err
			}
			b.artifacts = append(b.artifacts, artifact{file, []*sbom.Part{part}})
		}
	}
	return nil
}

// archive is the file of a program of the CLI.
func (b *build) archive(name string, p platform) string {
	extension := ".tar.gz"
	if p.os == "windows" {
		extension = ".zip"
	}
	return name + "_" + b.version + "_" + p.String() + extension
}

// part reads what is in a program.
func (b *build) part(name string, p platform) (*sbom.Part, error) {
	path := b.program(name, p)
	digest, err := files.SHA256(path)
	if err != nil {
		return nil, err
	}
	return sbom.ReadProgram(name+suffix(p), b.version, path, digest)
}
