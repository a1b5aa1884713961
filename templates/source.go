package templates

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
)

// ImportName is the name of the import that created a template, as its annotation says; empty if its label names no import.
func ImportName(template *v1beta1.VirtualMachineTemplate) string {
	if template.Labels[v1beta1.LabelImportUID] == "" {
		return ""
	}
	return template.Annotations[v1beta1.AnnotationImport]
}

// SourceOf is where a template comes from, or why that is not known. The import is that of ImportName, nil if it does not exist. The
// caller knows that only Virtward wrote its status and the label of the template. The spec of the template must be the one that the
// import computed from its source, in Virtward's process.
func SourceOf(template *v1beta1.VirtualMachineTemplate, of *v1beta1.VirtualMachineTemplateImport) (source *v1beta1.TemplateSource, why string) {
	name := ImportName(template)
	switch {
	case template.Labels[v1beta1.LabelImportUID] == "":
		return nil, "no import created the template"
	case name == "":
		return nil, fmt.Sprintf("the template has lost the annotation %s, which names its import", v1beta1.AnnotationImport)
	case of == nil:
		return nil, fmt.Sprintf("the import %s does not exist any more", name)
	case string(of.UID) != template.Labels[v1beta1.LabelImportUID]:
		return nil, fmt.Sprintf("the import %s is not the one that created the template", name)
	case !meta.IsStatusConditionTrue(of.Status.Conditions, v1beta1.RequestCompleted):
		return nil, fmt.Sprintf("the import %s is not completed", name)
	case of.Status.Source == nil || of.Status.Source.TemplateDigest == "":
		return nil, fmt.Sprintf("an earlier release made the import %s, without the digest of the template", name)
	}
	digest, err := SpecDigest(&template.Spec)
	if err != nil || digest != of.Status.Source.TemplateDigest {
		return nil, fmt.Sprintf("the template was changed after the import %s created it", name)
	}
	s := of.Status.Source
	if of.Status.Staging != nil && !s.Verified {
		return nil, fmt.Sprintf("the import %s read a copy of the file, in a volume that users can write: import it with a checksum or with verify: Require", name)
	}
	source = &v1beta1.TemplateSource{Digest: s.Digest, Verified: s.Verified, Signer: s.Signer, Import: of.Name}
	source.Kind, source.Reference = referenceOf(&of.Spec.Source)
	if source.Kind == "" {
		return nil, fmt.Sprintf("the import %s has a source of an unknown kind", name)
	}
	source.Reference = texts.ShortenCharacters(source.Reference, v1beta1.MaxSourceReference)
	return source, ""
}

// referenceOf is the source of an import without what can be a secret: a user, and the query of a URL, which can be a signature.
func referenceOf(source *v1beta1.ImportSource) (v1beta1.SourceKind, string) {
	switch {
	case source.HTTP != nil:
		parsed, err := url.Parse(source.HTTP.URL)
		if err != nil {
			return "", ""
		}
		return v1beta1.SourceHTTP, (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path, RawPath: parsed.RawPath}).String()
	case source.OCI != nil:
		return v1beta1.SourceOCI, source.OCI.Reference
	case source.PVC != nil && source.PVC.Path != "":
		return v1beta1.SourcePVC, source.PVC.Name + "/" + source.PVC.Path
	case source.PVC != nil:
		return v1beta1.SourcePVC, source.PVC.Name
	}
	return "", ""
}

// SourceText describes a source in one line.
func SourceText(s *v1beta1.TemplateSource) string {
	parts := []string{s.Reference}
	switch {
	case s.Kind == v1beta1.SourcePVC:
		parts[0] = "the claim " + s.Reference
	case s.Kind == v1beta1.SourceOCI && s.Digest != "" && !strings.HasSuffix(s.Reference, "@"+s.Digest):
		parts[0] += "@" + s.Digest
	}
	if s.Kind != v1beta1.SourceOCI && s.Digest != "" {
		parts = append(parts, "digest "+s.Digest)
	}
	if s.Signer != "" {
		parts = append(parts, "signature verified: "+s.Signer)
	}
	verified := "not verified before the import"
	if s.Verified {
		verified = "verified before the import"
	}
	return texts.OneLine(strings.Join(append(parts, verified), ", "))
}
