package main

import (
	"context"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/virtward/virtward/tools/release/files"
)

// description of the CLI, in the words of krew.
const description = `Virtward completes, validates and evaluates virtual machines of KubeVirt at admission. This plugin gives the
same results on manifests, tests policies, reports what a change of a running virtual machine needs, and
operates Virtward in a cluster.
`

// krewPlugin is the manifest of a plugin: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type krewPlugin struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   krewName `yaml:"metadata"`
	Spec       krewSpec `yaml:"spec"`
}

type krewName struct {
	Name string `yaml:"name"`
}

type krewSpec struct {
	Version          string         `yaml:"version"`
	Homepage         string         `yaml:"homepage"`
	ShortDescription string         `yaml:"shortDescription"`
	Description      string         `yaml:"description"`
	Platforms        []krewPlatform `yaml:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `yaml:"selector"`
	URI      string       `yaml:"uri"`
	SHA256   string       `yaml:"sha256"`
	Files    []krewFiles  `yaml:"files"`
	Bin      string       `yaml:"bin"`
}

type krewSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type krewFiles struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// writeKrew writes the manifest with which krew installs the CLI.
func (b *build) writeKrew(context.Context) error {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.io/v1alpha2", Kind: "Plugin", Metadata: krewName{"virtward"},
		Spec: krewSpec{
			Version: b.version, Homepage: "https://github.com/virtward/virtward",
			ShortDescription: "Validate virtual machines, policies and changes", Description: description,
		},
	}
	for _, p := range b.platforms {
		file, bin := b.archive(clients[0], p), clients[0]+suffix(p)
		digest, err := files.SHA256(b.file(file))
		if err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": p.os, "arch": p.arch}},
			URI:      b.url + "/" + file, SHA256: digest, Bin: bin,
			Files: []krewFiles{{From: bin, To: "."}, {From: "LICENSE", To: "."}},
		})
	}
	content, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return os.WriteFile(b.file(krewFile), content, 0o644)
}
