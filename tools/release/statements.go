package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/virtward/virtward/tools/release/files"
)

// Types of in-toto and of cosign.
const (
	statementType   = "https://in-toto.io/Statement/v1"
	provenanceType  = "https://slsa.dev/provenance/v1"
	signPredicate   = "https://sigstore.dev/cosign/sign/v1"
	statementSuffix = ".intoto.json"
)

// statement is what a signature says of artifacts.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance says how the artifacts were built: https://slsa.dev/spec/v1.0/provenance
type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string         `json:"buildType"`
	ExternalParameters   map[string]any `json:"externalParameters"`
	ResolvedDependencies []material     `json:"resolvedDependencies"`
}

type material struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

type runDetails struct {
	Builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	} `json:"builder"`
	Metadata struct {
		InvocationID string `json:"invocationId"`
		StartedOn    string `json:"startedOn"`
		FinishedOn   string `json:"finishedOn"`
	} `json:"metadata"`
}

// writeReferences writes what is in the registry, and what is signed of it.
func (b *build) writeReferences(context.Context) error {
	for _, r := range b.references {
		signed := []subject{{Digest: digestSet(r.Digest)}}
		if err := b.writeJSON(r.Statement, statement{statementType, signed, signPredicate, struct{}{}}); err != nil {
			return err
		}
	}
	return b.writeJSON(referencesFile, b.references)
}

// writeProvenance writes how everything was built. It has the time of the build, so no checksum is of it.
func (b *build) writeProvenance(context.Context) error {
	var subjects []subject
	for _, r := range b.references {
		subjects = append(subjects, subject{r.Name, digestSet(r.Digest)})
	}
	names, err := filesOf(b.out)
	if err != nil {
		return err
	}
	for _, name := range names {
		digest, err := files.SHA256(b.file(name))
		if err != nil {
			return err
		}
		subjects = append(subjects, subject{name, map[string]string{"sha256": digest}})
	}
	return b.writeJSON(provenanceFile, statement{statementType, subjects, provenanceType, b.provenance()})
}

func digestSet(digest string) map[string]string {
	algorithm, value, _ := strings.Cut(digest, ":")
	return map[string]string{algorithm: value}
}

func (b *build) provenance() provenance {
	var platforms []string
	for _, p := range b.platforms {
		platforms = append(platforms, p.os+"/"+p.arch)
	}
	end := time.Now().UTC()
	made := provenance{BuildDefinition: buildDefinition{
		BuildType: "https://virtward.io/builds/make-release/v1",
		ExternalParameters: map[string]any{
			"version": b.version, "repository": b.repository, "url": b.url, "platforms": platforms,
		},
		ResolvedDependencies: []material{
			{URI: "git+https://github.com/virtward/virtward", Digest: map[string]string{"gitCommit": b.commit}},
			{URI: "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")},
		},
	}}
	made.RunDetails.Builder.ID = b.builder
	made.RunDetails.Builder.Version = map[string]string{"go": runtime.Version()}
	made.RunDetails.Metadata.InvocationID = fmt.Sprintf("%x", sha256.Sum256([]byte(b.commit+b.begin.Format(time.RFC3339Nano))))[:16]
	made.RunDetails.Metadata.StartedOn = b.begin.Format(time.RFC3339)
	made.RunDetails.Metadata.FinishedOn = end.Format(time.RFC3339)
	return made
}
