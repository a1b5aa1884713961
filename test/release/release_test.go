package release

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/ports"
)

const (
	root    = "../.."
	version = "v0.1.0"
)

// programs of a release for Linux.
var programs = []string{"kubectl-virtward", "kubectl-virtward-conformance", "virtward", "virtward-apiserver", "virtward-node-labeller", "virtward-node-tuner", "virtward-import-server", "virtward-export-server"}

// dist is a release in a folder, for a registry on loopback.
type dist struct {
	folder, address string
}

func (d *dist) repository() string { return d.address + "/virtward" }

func (d *dist) file(name string) string { return filepath.Join(d.folder, name) }

func (d *dist) read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(d.file(name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// tool returns a program of bin/. It is part of what the test reads, so that Go does not cache the result of another one.
func tool(t *testing.T, parts ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{root, "bin"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		if testing.Short() {
			t.Skipf("%v: make %s", err, file)
		}
		t.Fatalf("%v: make %s", err, file)
	}
	return file
}

// build makes a release from programs that are built already.
func build(t *testing.T, programs, platforms string) *dist {
	t.Helper()
	d := &dist{folder: filepath.Join(t.TempDir(), "dist"), address: ports.Address(t)}
	run(t, tool(t, "tools", "release"), "build", "-root", root, "-version", version, "-dirty", "-compile=false", "-programs", programs,
		"-platforms", platforms, "-out", d.folder, "-helm", tool(t, "tools", "helm"),
		"-repository", d.repository(), "-url", "http://"+d.address+"/download")
	return d
}

// built are the programs of bin/ in the folder of this platform.
func built(t *testing.T) (folder, platform string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the images are for Linux")
	}
	folder = t.TempDir()
	platform = runtime.GOOS + "_" + runtime.GOARCH
	if err := os.Mkdir(filepath.Join(folder, platform), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		if err := os.Symlink(tool(t, name), filepath.Join(folder, platform, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder, runtime.GOOS + "/" + runtime.GOARCH
}

// run runs a program, and returns what it prints.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, output)
	}
	return string(output)
}

// serve serves the release until the test ends.
func (d *dist) serve(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, tool(t, "tools", "release"), "serve", "-listen", d.address, d.folder)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "serving the release") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return
		}
	}
	t.Fatal("the release is not served")
}

// imageCount is the number of images, and pinned of those that the chart installs. There are two charts.
const imageCount, pinned = 6, 6

// references are the images and charts of the release. The images are first, and those that the chart installs by default before
// those of nodes.
func (d *dist) references(t *testing.T) (references []struct{ File, Name, Tag, Digest string }) {
	t.Helper()
	if err := json.Unmarshal(d.read(t, "references.json"), &references); err != nil {
		t.Fatal(err)
	}
	if len(references) != imageCount+2 {
		t.Fatalf("the release has %d images and charts, want %d", len(references), imageCount+2)
	}
	return references
}

// TestRelease makes a release of the programs in bin/, and reads each file as its user does.
func TestRelease(t *testing.T) {
	folder, platform := built(t)
	d := build(t, folder, platform)
	d.serve(t)
	t.Run("checksums", func(t *testing.T) { testChecksums(t, d) })
	t.Run("archive", func(t *testing.T) { testInstructions(t, d) })
	t.Run("krew", func(t *testing.T) { testKrew(t, d, []string{platform}) })
	t.Run("materials", func(t *testing.T) { testMaterials(t, d) })
	t.Run("chart", func(t *testing.T) { testChart(t, d) })
	t.Run("provenance", func(t *testing.T) { testProvenance(t, d) })
	t.Run("changelog", func(t *testing.T) { testChangelog(t, d) })
}

// testChecksums: sha256sum verifies the list, and notices a byte that changes.
func testChecksums(t *testing.T, d *dist) {
	check := func() error {
		command := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "checksums.txt")
		command.Dir = d.folder
		return command.Run()
	}
	if err := check(); err != nil {
		t.Errorf("sha256sum --check: %v", err)
	}
	name := d.file("install.yaml")
	restore := flip(t, name)
	if check() == nil {
		t.Error("sha256sum accepts a changed byte")
	}
	restore()
}

// flip changes one byte in the middle of a file, and returns what changes it back.
func flip(t *testing.T, name string) func() {
	t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	at := info.Size() / 2
	old := make([]byte, 1)
	if _, err := file.ReadAt(old, at); err != nil {
		t.Fatal(err)
	}
	write := func(file *os.File, value byte) {
		if _, err := file.WriteAt([]byte{value}, at); err != nil {
			t.Fatal(err)
		}
	}
	write(file, old[0]^1)
	return func() {
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		write(file, old[0])
	}
}

// commands are the indented lines of a section of the instructions.
func (d *dist) commands(t *testing.T, section string) (commands []string) {
	t.Helper()
	_, text, found := strings.Cut("\n"+string(d.read(t, "INSTALL.md")), "\n"+section+"\n")
	if !found {
		t.Fatalf("the instructions have no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n#")
	for _, line := range regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, line[1])
	}
	return commands
}

// testInstructions runs the printed commands that need no cluster.
func testInstructions(t *testing.T, d *dist) {
	commands := d.commands(t, "# Install Virtward "+version)
	if len(commands) != 3 {
		t.Fatalf("the installation has %d commands, want 3: %q", len(commands), commands)
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	published := strings.NewReplacer(d.repository(), "registry.example.com/virtward", "http://"+d.address+"/download", "https://downloads.example.com/virtward", " --plain-http", "")
	for _, command := range commands {
		if shown := published.Replace(command); runtime.GOARCH == "amd64" && !strings.Contains(string(readme), "    "+shown+"\n") {
			t.Errorf("README.md does not show %q", shown)
		}
	}
	bin := t.TempDir()
	run(t, "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(commands[0], "/usr/local/bin", bin))
	if got, want := run(t, filepath.Join(bin, "kubectl-virtward"), "version"), run(t, tool(t, "kubectl-virtward"), "version"); got != want {
		t.Errorf("the program of the archive says %q, want %q", got, want)
	}
	// Helm reads the chart from the registry, and renders what the manifests without Helm have.
	install := strings.Fields(commands[1])
	if install[0] != "helm" || install[1] != "install" {
		t.Fatalf("the second command is %q", commands[1])
	}
	words := slices.DeleteFunc(install[2:], func(word string) bool { return word == "--wait" || word == "--create-namespace" })
	command := exec.CommandContext(t.Context(), tool(t, "tools", "helm"), append([]string{"template", "--no-hooks", "--kube-version", "1.32.0"}, words...)...)
	command.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	var complaints bytes.Buffer
	command.Stderr = &complaints
	rendered, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, complaints.String())
	}
	if !strings.HasSuffix(string(d.read(t, "install.yaml")), string(rendered)) {
		t.Error("install.yaml is not what Helm renders of the chart in the registry")
	}
	for _, r := range d.references(t)[:2] {
		if want := r.Name + "@" + r.Digest; !strings.Contains(string(rendered), want) {
			t.Errorf("the chart does not install %s", want)
		}
	}
	if found := regexp.MustCompile(`(?m)^\s*(?:- )?image: "?([^"\s]+)`).FindAllStringSubmatch(string(rendered), -1); len(found) == 0 {
		t.Error("the chart installs no image")
	} else {
		for _, image := range found {
			if !strings.Contains(image[1], "@sha256:") {
				t.Errorf("the chart installs %s without a digest", image[1])
			}
		}
	}
}

// testKrew compares the manifest with the documented schema of krew.
func testKrew(t *testing.T, d *dist, platforms []string) {
	var plugin struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Metadata   struct{ Name string } `json:"metadata"`
		Spec       struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector struct {
					MatchLabels map[string]string `json:"matchLabels"`
				}
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(d.read(t, "virtward.krew.yaml"), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.APIVersion != "krew.googlecontainertools.github.io/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata.Name != "virtward" {
		t.Errorf("the manifest is %s %s %s", plugin.APIVersion, plugin.Kind, plugin.Metadata.Name)
	}
	if plugin.Spec.Version != version || plugin.Spec.ShortDescription == "" || len(plugin.Spec.ShortDescription) > 50 || strings.ContainsAny(plugin.Spec.ShortDescription, "\n.") {
		t.Errorf("version %s, short description %q", plugin.Spec.Version, plugin.Spec.ShortDescription)
	}
	var got []string
	for _, p := range plugin.Spec.Platforms {
		got = append(got, p.Selector.MatchLabels["os"]+"/"+p.Selector.MatchLabels["arch"])
		archive := path.Base(p.URI)
		if !strings.Contains(string(d.read(t, "checksums.txt")), p.SHA256+"  "+archive+"\n") {
			t.Errorf("the digest of %s is not that of its file", archive)
		}
		var packed []string
		if strings.HasSuffix(archive, ".tar.gz") {
			packed = contents(t, d.file(archive))
		} else {
			packed = strings.Fields(run(t, "unzip", "-Z1", d.file(archive)))
		}
		for _, f := range p.Files {
			if !slices.Contains(packed, f.From) {
				t.Errorf("%s has no %s", archive, f.From)
			}
		}
		if !slices.Contains(packed, p.Bin) {
			t.Errorf("%s has no %s", archive, p.Bin)
		}
	}
	if !slices.Equal(got, platforms) {
		t.Errorf("the manifest has the platforms %q, want %q", got, platforms)
	}
}

// contents are the names of an archive's files.
func contents(t *testing.T, name string) (names []string) {
	t.Helper()
	archive := open(t, name)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func open(t *testing.T, name string) *tar.Reader {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return tar.NewReader(plain)
}

// testMaterials: both documents of the CLI have the modules that its program has.
func testMaterials(t *testing.T, d *dist) {
	info, err := buildinfo.ReadFile(tool(t, "kubectl-virtward"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go"), "pkg:golang/" + info.Path + "@" + version}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		want = append(want, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	}
	slices.Sort(want)
	archive := fmt.Sprintf("kubectl-virtward_%s_%s_%s.tar.gz", version, runtime.GOOS, runtime.GOARCH)

	var spdx struct {
		SPDXVersion string
		Packages    []struct {
			ExternalRefs []struct{ ReferenceLocator string }
		}
	}
	var cyclonedx struct {
		SpecVersion string
		Components  []struct{ PURL string }
	}
	for name, into := range map[string]any{archive + ".spdx.json": &spdx, archive + ".cdx.json": &cyclonedx} {
		if err := json.Unmarshal(d.read(t, name), into); err != nil {
			t.Fatal(err)
		}
	}
	var inSPDX, inCycloneDX []string
	for _, p := range spdx.Packages {
		for _, r := range p.ExternalRefs {
			inSPDX = append(inSPDX, r.ReferenceLocator)
		}
	}
	for _, c := range cyclonedx.Components {
		inCycloneDX = append(inCycloneDX, c.PURL)
	}
	for name, got := range map[string][]string{"SPDX " + spdx.SPDXVersion: inSPDX, "CycloneDX " + cyclonedx.SpecVersion: inCycloneDX} {
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %d modules, want %d:\n%q\n%q", name, len(got), len(want), got, want)
		}
	}
	// Each artifact has both.
	for line := range strings.Lines(string(d.read(t, "checksums.txt"))) {
		name := strings.Fields(line)[1]
		if !strings.HasSuffix(name, "gz") && !strings.HasSuffix(name, ".oci.tar") {
			continue
		}
		for _, suffix := range []string{".spdx.json", ".cdx.json"} {
			if _, err := os.Stat(d.file(name + suffix)); err != nil {
				t.Error(err)
			}
		}
	}
}

// testChart: the chart keeps the comments of values.yaml, and has the annotations of Artifact Hub.
func testChart(t *testing.T, d *dist) {
	packed := map[string]string{}
	archive := open(t, d.file("virtward-0.1.0.tgz"))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		packed[strings.TrimPrefix(header.Name, "virtward/")] = string(content)
	}
	source, err := os.ReadFile(filepath.Join(root, "charts", "virtward", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, after := strings.Split(string(source), "\n"), strings.Split(packed["values.yaml"], "\n")
	changed := 0
	for i, line := range before {
		if line != after[i] {
			changed++
		}
	}
	if changed != 2*pinned || len(before) != len(after) {
		t.Errorf("the packaged values.yaml differs in %d lines, want the %d that pin the images", changed, 2*pinned)
	}
	var chart struct {
		Version, AppVersion string
		Annotations         map[string]string
	}
	if err := yaml.Unmarshal([]byte(packed["Chart.yaml"]), &chart); err != nil {
		t.Fatal(err)
	}
	if chart.Version != "0.1.0" || chart.AppVersion != "0.1.0" || chart.Annotations["artifacthub.io/prerelease"] != "false" {
		t.Errorf("version %s of %s, prerelease %s", chart.Version, chart.AppVersion, chart.Annotations["artifacthub.io/prerelease"])
	}
	var images []struct {
		Name, Image string
		Platforms   []string
	}
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/images"]), &images); err != nil {
		t.Fatal(err)
	}
	for i, r := range d.references(t)[:imageCount] {
		if images[i].Image != r.Name+"@"+r.Digest || !slices.Contains(images[i].Platforms, "linux/"+runtime.GOARCH) {
			t.Errorf("the annotation has %v, want %s@%s", images[i], r.Name, r.Digest)
		}
	}
	var changes []struct{ Kind, Description string }
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/changes"]), &changes); err != nil || len(changes) == 0 {
		t.Errorf("the annotation has %d changes: %v", len(changes), err)
	}
}

// testProvenance: the statement names each file and each object of the registry, with the commit.
func testProvenance(t *testing.T, d *dist) {
	var statement struct {
		Type      string `json:"_type"`
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters   map[string]any
				ResolvedDependencies []struct{ Digest map[string]string }
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
		PredicateType string
		Subject       []struct {
			Name   string
			Digest map[string]string
		}
	}
	if err := json.Unmarshal(d.read(t, "provenance.intoto.json"), &statement); err != nil {
		t.Fatal(err)
	}
	if statement.Type != "https://in-toto.io/Statement/v1" || statement.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("a statement of type %s about %s", statement.Type, statement.PredicateType)
	}
	commit := strings.TrimSpace(run(t, "git", "-C", root, "rev-parse", "HEAD"))
	if got := statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != commit {
		t.Errorf("the commit is %s, want %s", got, commit)
	}
	digests := map[string]string{}
	for _, s := range statement.Subject {
		digests[s.Name] = s.Digest["sha256"]
	}
	for line := range strings.Lines(string(d.read(t, "checksums.txt"))) {
		if words := strings.Fields(line); digests[words[1]] != words[0] {
			t.Errorf("the provenance has the digest %q of %s, want %s", digests[words[1]], words[1], words[0])
		}
	}
	for _, r := range d.references(t) {
		if "sha256:"+digests[r.Name] != r.Digest {
			t.Errorf("the provenance has the digest %q of %s, want %s", digests[r.Name], r.Name, r.Digest)
		}
	}
}

// testChangelog: the changes are subjects of commits, under the heading of their kind.
func testChangelog(t *testing.T, d *dist) {
	page := string(d.read(t, "CHANGELOG.md"))
	for _, want := range []string{"# Changes of " + version + "\n", "\n## Added\n\n- ", "\n## Changed\n\n- "} {
		if !strings.Contains(page, want) {
			t.Errorf("the changelog lacks %q", want)
		}
	}
	if found := regexp.MustCompile(`(?m)^- (Test|Merge|Lint) .*$`).FindString(page); found != "" {
		t.Errorf("the changelog has %q, which concerns developers only", found)
	}
}

// TestArguments: what cannot be released is rejected before anything is written.
func TestArguments(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{`-version must be a semantic version with a leading v, such as v0.1.0, not "0.1.0"`, []string{"-version", "0.1.0"}},
		{"-repository and -url are required, because they have no default", []string{"-version", version}},
		{`unknown platform "plan9/amd64"`, []string{"-version", version, "-repository", "a/b", "-url", "c", "-platforms", "plan9/amd64"}},
	} {
		out := filepath.Join(t.TempDir(), "dist")
		output, err := exec.CommandContext(t.Context(), tool(t, "tools", "release"), append([]string{"build", "-out", out}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(output), c.want) {
			t.Errorf("%v: %v\n%s\nwant: %s", c.args, err, output, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%v: a folder is written", c.args)
		}
	}
}
