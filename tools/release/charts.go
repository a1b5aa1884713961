package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/tools/release/chart"
	"github.com/virtward/virtward/tools/release/images"
	"github.com/virtward/virtward/tools/release/sbom"
)

// chartSuffix ends the names of packaged charts.
const chartSuffix = ".tgz"

const chartName = "virtward"

// charts of a release.
var charts = []string{chartName, "virtward-common-templates"}

// writeCharts packages the charts. The chart of Virtward names the images of this release by their digests.
func (b *build) writeCharts(context.Context) error {
	for _, name := range charts {
		packaged := chart.Chart{Folder: filepath.Join(b.root, "charts", name), Version: b.chartVersion()}
		var parts []*sbom.Part
		if name == chartName {
			var err error
			if packaged.Annotations, err = b.annotations(); err != nil {
				return err
			}
			packaged.Values = b.pins()
			parts = b.imageParts()
		}
		file := name + "-" + b.chartVersion() + chartSuffix
		if _, err := packaged.Write(b.file(file), b.at); err != nil {
			return err
		}
		image, err := readChart(b.file(file))
		if err != nil {
			return err
		}
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		b.refer(file, b.repository+"/charts/"+name, b.chartVersion(), digest)
		b.artifacts = append(b.artifacts, artifact{file, parts})
	}
	return nil
}

// pins are the values of the chart that name the images.
func (b *build) pins() map[string]string {
	return map[string]string{
		"image.repository":                          b.repository + "/virtward",
		"image.digest":                              b.digestOf("virtward"),
		"templates.server.image.repository":         b.repository + "/virtward-apiserver",
		"templates.server.image.digest":             b.digestOf("virtward-apiserver"),
		"nodes.labeller.image.repository":           b.repository + "/virtward-node-labeller",
		"nodes.labeller.image.digest":               b.digestOf("virtward-node-labeller"),
		"nodes.tuner.image.repository":              b.repository + "/virtward-node-tuner",
		"nodes.tuner.image.digest":                  b.digestOf("virtward-node-tuner"),
		"templates.imports.server.image.repository": b.repository + "/virtward-import-server",
		"templates.imports.server.image.digest":     b.digestOf("virtward-import-server"),
		"templates.exports.server.image.repository": b.repository + "/virtward-export-server",
		"templates.exports.server.image.digest":     b.digestOf("virtward-export-server"),
	}
}

// imageParts are the images that the chart installs.
func (b *build) imageParts() (parts []*sbom.Part) {
	for _, name := range servers {
		algorithm, digest, _ := strings.Cut(b.digestOf(name), ":")
		parts = append(parts, &sbom.Part{
			Kind: sbom.Container, Name: b.repository + "/" + name, Version: b.version, SHA256: digest,
			URL: "pkg:oci/" + name + "@" + algorithm + "%3A" + digest + "?repository_url=" + b.repository + "/" + name,
		})
	}
	return parts
}

// annotations of Artifact Hub: https://artifacthub.io/docs/topics/annotations/helm/
func (b *build) annotations() (map[string]string, error) {
	type image struct {
		Name      string   `yaml:"name"`
		Image     string   `yaml:"image"`
		Platforms []string `yaml:"platforms"`
	}
	type change struct {
		Kind        string `yaml:"kind"`
		Description string `yaml:"description"`
	}
	var list []image
	for _, name := range servers {
		one := image{Name: name, Image: b.repository + "/" + name + "@" + b.digestOf(name)}
		for _, architecture := range b.architectures() {
			one.Platforms = append(one.Platforms, "linux/"+architecture)
		}
		list = append(list, one)
	}
	var changes []change
	for _, section := range b.changes {
		for _, subject := range section.subjects {
			changes = append(changes, change{section.kind, subject})
		}
	}
	described, err := yaml.Marshal(list)
	if err != nil {
		return nil, err
	}
	changed, err := yaml.Marshal(changes[:min(len(changes), mostChanges)])
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"artifacthub.io/images":     string(described),
		"artifacthub.io/changes":    string(changed),
		"artifacthub.io/prerelease": fmt.Sprint(strings.Contains(b.version, "-")),
	}, nil
}

// mostChanges bounds the changes that the chart lists. All are in the changelog.
const mostChanges = 50

// readChart returns a packaged chart as a registry stores it.
func readChart(file string) (v1.Image, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	metadata, err := metadataOf(content)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Base(file), err)
	}
	title, _ := metadata["name"].(string)
	version, _ := metadata["version"].(string)
	description, _ := metadata["description"].(string)
	return images.Chart(metadata, content, map[string]string{
		"org.opencontainers.image.title": title, "org.opencontainers.image.version": version, "org.opencontainers.image.description": description,
	})
}

// metadataOf returns the Chart.yaml of a packaged chart.
func metadataOf(packaged []byte) (map[string]any, error) {
	plain, err := gzip.NewReader(bytes.NewReader(packaged))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(plain)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the archive has no Chart.yaml")
		}
		if err != nil {
			return nil, err
		}
		if path.Base(header.Name) != "Chart.yaml" {
			continue
		}
		var metadata map[string]any
		err = yaml.NewDecoder(archive).Decode(&metadata)
		return metadata, err
	}
}

const (
	namespace = "virtward-system"
	// oldestKubernetes is the version that the manifests are rendered for.
	oldestKubernetes = "1.32.0"
)

// writeBundle renders the chart for those who do not use Helm: with the namespace, and without the Jobs that only Helm starts.
func (b *build) writeBundle(ctx context.Context) error {
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	command := exec.CommandContext(ctx, b.helm, "template", chartName, b.file(chartName+"-"+b.chartVersion()+chartSuffix),
		"--namespace", namespace, "--kube-version", oldestKubernetes, "--no-hooks", "--include-crds")
	command.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + filepath.Join(home, "none")}
	var complaints bytes.Buffer
	command.Stderr = &complaints
	rendered, err := command.Output()
	if err != nil {
		return fmt.Errorf("helm template: %w\n%s", err, complaints.String())
	}
	bundle := fmt.Sprintf("# Virtward %s without Helm: kubectl apply --server-side --filename %s\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n%s",
		b.version, bundleFile, namespace, rendered)
	b.artifacts = append(b.artifacts, artifact{bundleFile, b.imageParts()})
	return os.WriteFile(b.file(bundleFile), []byte(bundle), 0o644)
}
