package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files of a release.
const (
	checksumsFile   = "checksums.txt"
	publicKeyFile   = "cosign.pub"
	bundleSuffix    = ".sigstore.json"
	statementSuffix = ".intoto.json"
	provenanceFile  = "provenance.intoto.json"
)

// artifactSuffixes end the names of files that have a signature of their own. The list of checksums covers all other files.
var artifactSuffixes = []string{".tar.gz", ".zip", ".tgz", ".oci.tar", checksumsFile, "install.yaml", ".krew.yaml"}

// signed returns the names of a release's files that are signed: artifacts and statements.
func signed(dist string) (artifacts, statements []string, err error) {
	entries, err := os.ReadDir(dist)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasSuffix(name, statementSuffix) {
			statements = append(statements, name)
		} else if slices.ContainsFunc(artifactSuffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) {
			artifacts = append(artifacts, name)
		}
	}
	if !slices.Contains(artifacts, checksumsFile) || !slices.Contains(statements, provenanceFile) {
		return nil, nil, fmt.Errorf("%s is not a release: it lacks %s or %s", filepath.Base(dist), checksumsFile, provenanceFile)
	}
	return artifacts, statements, nil
}
