package sbom

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// namespace begins the names of documents. SPDX requires a unique URI, which need not be served.
const namespace = "https://virtward.io/spdx/"

// purposes of SPDX, by kind.
var purposes = map[string]string{Program: "APPLICATION", Module: "LIBRARY", Container: "CONTAINER", File: "FILE"}

// SPDX returns the document of an artifact in JSON.
func SPDX(artifact *Part, at time.Time) ([]byte, error) {
	document := &v2_3.Document{
		SPDXVersion:       v2_3.Version,
		DataLicense:       v2_3.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      artifact.Name,
		DocumentNamespace: namespace + letters(artifact.Name) + "-" + artifact.SHA256,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "virtward-release"}},
			Created:  at.UTC().Format(time.RFC3339),
		},
		Relationships: []*v2_3.Relationship{relation("DOCUMENT", "DESCRIBES", artifact.id())},
	}
	for _, part := range all(artifact) {
		document.Packages = append(document.Packages, packageOf(part))
		for _, inner := range part.Parts {
			kind := "CONTAINS"
			if part.Kind == Program {
				kind = "DEPENDS_ON"
			}
			document.Relationships = append(document.Relationships, relation(part.id(), kind, inner.id()))
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(document)
	return out.Bytes(), err
}

func relation(from, kind, to string) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.MakeDocElementID("", from), Relationship: kind, RefB: common.MakeDocElementID("", to),
	}
}

func packageOf(part *Part) *v2_3.Package {
	const unknown = "NOASSERTION"
	license := unknown
	if part.Kind == Program {
		license = "Apache-2.0"
	}
	p := &v2_3.Package{
		PackageName:               part.Name,
		PackageSPDXIdentifier:     common.ElementID(part.id()),
		PackageVersion:            part.Version,
		PackageDownloadLocation:   unknown,
		FilesAnalyzed:             false,
		IsFilesAnalyzedTagPresent: true,
		PrimaryPackagePurpose:     purposes[part.Kind],
		PackageLicenseConcluded:   unknown,
		PackageLicenseDeclared:    license,
		PackageCopyrightText:      unknown,
	}
	if part.SHA256 != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: part.SHA256}}
	}
	if part.Sum != "" {
		p.PackageComment = "go.sum " + part.Sum
	}
	if part.URL != "" {
		p.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER", RefType: "purl", Locator: part.URL}}
	}
	return p
}
