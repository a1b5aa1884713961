package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/virtward/virtward/tools/release/files"
)

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// platforms are those of the CLI. Those of Linux have images too.
var platforms = []string{
	"linux/amd64", "linux/arm64", "linux/s390x", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

// Programs of the CLI and of the images.
var (
	clients = []string{"kubectl-virtward", "kubectl-virtward-conformance"}
	servers = []string{"virtward", "virtward-apiserver", "virtward-node-labeller", "virtward-node-tuner", "virtward-import-server", "virtward-export-server"}
)

// Files of a release that other steps read.
const (
	checksumsFile    = "checksums.txt"
	referencesFile   = "references.json"
	bundleFile       = "install.yaml"
	krewFile         = "virtward.krew.yaml"
	changelogFile    = "CHANGELOG.md"
	instructionsFile = "INSTALL.md"
	provenanceFile   = "provenance.intoto.json"
)

// build is a release that is built.
type build struct {
	source

	// version has a leading v; that of charts has none.
	version string
	// repository is where images and charts are pushed, and url is where the files are downloaded from.
	repository, url string
	// out is the folder of the release; programs has a folder for each platform.
	out, programs string
	compile       bool
	platforms     []platform
	helm, builder string
	begin         time.Time

	// artifacts are the files that users install, with what is in them.
	artifacts []artifact
	// references are the images and charts in the registry.
	references []reference
	// changes since the release before, by kind.
	changes []changes
}

// reference is an image or a chart in a registry.
type reference struct {
	// File is its file in the folder of the release.
	File string `json:"file"`
	// Name is its repository, and Tag names it there.
	Name string `json:"name"`
	Tag  string `json:"tag"`
	// Digest is that of its manifest.
	Digest string `json:"digest"`
	// Statement is the file that is signed for it.
	Statement string `json:"statement"`
}

// steps of a build, in order.
var steps = []struct {
	name string
	run  func(*build, context.Context) error
}{
	{"the programs", (*build).compilePrograms},
	{"the archives of the CLI", (*build).writeArchives},
	{"the images", (*build).writeImages},
	{"the changelog", (*build).writeChangelog},
	{"the charts", (*build).writeCharts},
	{"the manifests without Helm", (*build).writeBundle},
	{"the manifest for krew", (*build).writeKrew},
	{"the bills of materials", (*build).writeMaterials},
	{"the instructions", (*build).writeInstructions},
	{"the list of references", (*build).writeReferences},
	{"the checksums", (*build).writeChecksums},
	{"the provenance", (*build).writeProvenance},
}

var validVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func buildCommand(ctx context.Context, args []string, out io.Writer) error {
	b := build{begin: time.Now().UTC()}
	names := list(platforms)
	var dirty bool
	set := flag.NewFlagSet("build", flag.ContinueOnError)
	set.StringVar(&b.root, "root", ".", "the folder of the repository")
	set.StringVar(&b.version, "version", "", "the version, such as v0.1.0")
	set.StringVar(&b.repository, "repository", "", "where images and charts are pushed, such as registry.example.com/virtward")
	set.StringVar(&b.url, "url", "", "where the files are downloaded from")
	set.StringVar(&b.out, "out", "dist", "the folder to write; it is emptied")
	set.StringVar(&b.programs, "programs", "", "the folder for the programs, or with -compile=false that has them")
	set.BoolVar(&b.compile, "compile", true, "compile the programs")
	set.BoolVar(&dirty, "dirty", false, "build files that are not committed, for a trial")
	set.StringVar(&b.helm, "helm", "helm", "the program Helm, which renders "+bundleFile)
	set.StringVar(&b.builder, "builder", "https://virtward.io/builders/local", "the identity of the builder, for the provenance")
	set.Var(&names, "platforms", "operating systems and architectures")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch {
	case !validVersion.MatchString(b.version):
		return fmt.Errorf("-version must be a semantic version with a leading v, such as v0.1.0, not %q", b.version)
	case b.repository == "" || b.url == "":
		return fmt.Errorf("-repository and -url are required, because they have no default")
	}
	var err error
	if b.platforms, err = parsePlatforms(names); err != nil {
		return err
	}
	if b.source, err = readSource(ctx, b.root, dirty); err != nil {
		return err
	}
	return b.run(ctx, out)
}

func parsePlatforms(names []string) (parsed []platform, err error) {
	for _, name := range names {
		if !slices.Contains(platforms, name) {
			return nil, fmt.Errorf("unknown platform %q: the platforms are %s", name, strings.Join(platforms, ", "))
		}
		system, architecture, _ := strings.Cut(name, "/")
		parsed = append(parsed, platform{system, architecture})
	}
	return parsed, nil
}

func (b *build) run(ctx context.Context, out io.Writer) error {
	if err := os.RemoveAll(b.out); err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	if b.programs == "" {
		b.programs = filepath.Join(b.out, "..", "programs")
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.run(b, ctx); err != nil {
			return fmt.Errorf("making %s: %w", step.name, err)
		}
		fmt.Fprintf(out, "  %-30s %.1fs\n", step.name, time.Since(begin).Seconds())
	}
	return nil
}

// chartVersion is the version without its leading v.
func (b *build) chartVersion() string { return strings.TrimPrefix(b.version, "v") }

// architectures are those of the images.
func (b *build) architectures() (names []string) {
	for _, p := range b.platforms {
		if p.os == "linux" {
			names = append(names, p.arch)
		}
	}
	return names
}

func (b *build) file(name string) string { return filepath.Join(b.out, name) }

// writeChecksums lists all files that are written so far.
func (b *build) writeChecksums(context.Context) error {
	names, err := filesOf(b.out)
	if err != nil {
		return err
	}
	sums, err := files.Checksums(b.out, names)
	if err != nil {
		return err
	}
	return os.WriteFile(b.file(checksumsFile), sums, 0o644)
}

func filesOf(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (b *build) writeJSON(name string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return os.WriteFile(b.file(name), append(content, '\n'), 0o644)
}
