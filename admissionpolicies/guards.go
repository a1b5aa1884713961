package admissionpolicies

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// The guard of the RuleSettings names the rules that it guards, and that of approved-only namespaces the kinds. The chart is a
// package of its own, so it has a copy of the guards.
//go:generate go run ./gen ../docs/template-approval.md ../docs/accounts.md
//go:generate sh -c "cp *.yaml ../charts/virtward/guards/"

//go:embed *.yaml
var manifests embed.FS

//go:embed cases/*.yaml
var cases embed.FS

// AnnotationConfirmHypervisor on the KubeVirt resource repeats the name of a new hypervisor, and so allows
// the change of a deployment that is running.
const AnnotationConfirmHypervisor = "virtward.io/confirm-hypervisor"

// The names of the policies; each binding has the name of its policy.
const (
	KubeVirtHypervisor       = "virtward-kubevirt-hypervisor"
	KubeVirtHypervisorEffect = "virtward-kubevirt-hypervisor-effect"
	RuleSettings             = "virtward-rule-settings"
	Policies                 = "virtward-policies"
	PolicyExceptions         = "virtward-policy-exceptions"
	PolicyStatus             = "virtward-policy-status"
	Accounts                 = "virtward-accounts"
	Rollouts                 = "virtward-rollouts"
	RolloutStatus            = "virtward-rollout-status"
	NodeLabels               = "virtward-node-labels"
	CopyAuthors              = "virtward-copy-authors"
	ExemptNamespaces         = "virtward-exempt-namespaces"
	SnapshotContents         = "virtward-snapshot-contents"
	GoldenImageCatalogs      = "virtward-golden-image-catalogs"
	GoldenImageDeletes       = "virtward-golden-image-deletes"
	GoldenImagePointers      = "virtward-golden-image-pointers"
	GoldenImageStatus        = "virtward-golden-image-status"
	GoldenImageTemplates     = "virtward-golden-image-templates"
	TemplateApprovedOnly     = "virtward-template-approved-only"
	TemplateCapture          = "virtward-template-capture"
	TemplateClusterKinds     = "virtward-template-cluster-kinds"
	TemplateExport           = "virtward-template-export"
	TemplateExportLabels     = "virtward-template-export-labels"
	TemplateExportObjects    = "virtward-template-export-objects"
	TemplateExportPods       = "virtward-template-export-pods"
	TemplateExportServers    = "virtward-template-export-servers"
	TemplateExportStatus     = "virtward-template-export-status"
	TemplateImport           = "virtward-template-import"
	TemplateImportLabels     = "virtward-template-import-labels"
	TemplateImportObjects    = "virtward-template-import-objects"
	TemplateImportPods       = "virtward-template-import-pods"
	TemplateImportServers    = "virtward-template-import-servers"
	TemplateImportStatus     = "virtward-template-import-status"
	TemplateNamespaces       = "virtward-template-namespaces"
	TemplateProvenance       = "virtward-template-provenance"
	TemplateRequestLabels    = "virtward-template-request-labels"
	TemplateStatus           = "virtward-template-status"
	VirtualImages            = "virtward-virtual-images"
	VirtualImageStatus       = "virtward-virtual-image-status"
	VirtualImageCopies       = "virtward-virtual-image-copies"
)

// VerbExempt on a namespace allows to set and to remove the label that exempts it.
const VerbExempt = "exempt"

// The verbs of the guards of VM templates.
const (
	// VerbBypassApproval on virtualmachinetemplates allows to create and to change virtual machines in a namespace that
	// is approved-only.
	VerbBypassApproval = "bypass-approval"
	// VerbChangeApprovedOnly on a namespace allows to change the label and the annotation that make it approved-only.
	VerbChangeApprovedOnly = "change-approved-only"
)

// Namespaces are those of the accounts that some guards exempt.
type Namespaces struct {
	// Virtward is the namespace of the release, and KubeVirt that of the KubeVirt resource.
	Virtward, KubeVirt string
}

// ImportImage is the image of the servers of imports in Objects.
const ImportImage = "localhost/virtward/virtward-import-server:dev"

// ExportImage is the image of the servers of exports in Objects.
const ExportImage = "localhost/virtward/virtward-export-server:dev"

// ExportDomain is the domain of the Ingresses of exports in Objects.
const ExportDomain = "exports.example.com"

// ImportVerified are the hosts of Objects whose appliances need a manifest.
const ImportVerified = "Appliances.Example.com *.verified.example.com index.docker.io"

// DefaultNamespaces are those that the documentation uses.
var DefaultNamespaces = Namespaces{Virtward: "virtward-system", KubeVirt: "kubevirt"}

// Objects returns every guard, policies and bindings, in the order of their files, for the default namespaces.
func Objects() ([]*unstructured.Unstructured, error) { return ObjectsFor(DefaultNamespaces) }

// ObjectsFor is Objects for other namespaces, which must be names. Sources of VirtualImages are all public hosts,
// and their only class is cluster, which stores them in the cluster.
func ObjectsFor(namespaces Namespaces) ([]*unstructured.Unstructured, error) {
	return objectsFor(namespaces, "manage")
}

// ObservingObjects is Objects for a cluster in which another component serves VM templates.
func ObservingObjects() ([]*unstructured.Unstructured, error) {
	return objectsFor(DefaultNamespaces, "observe")
}

func objectsFor(namespaces Namespaces, templatesMode string) ([]*unstructured.Unstructured, error) {
	replace := strings.NewReplacer(
		"VIRTWARD_NAMESPACE", namespaces.Virtward, "KUBEVIRT_NAMESPACE", namespaces.KubeVirt, "VIRTUAL_IMAGE_HOSTS", "", "VIRTUAL_IMAGE_NETWORKS", "",
		"VIRTUAL_IMAGE_DEFAULT_CLASS", "cluster", "VIRTUAL_IMAGE_UPLOAD_CLASSES", "cluster",
		"TEMPLATES_MODE", templatesMode, "TEMPLATE_IMPORT_IMAGE", ImportImage, "TEMPLATE_IMPORT_VERIFIED", ImportVerified, "TEMPLATE_EXPORT_IMAGE", ExportImage, "TEMPLATE_EXPORT_DOMAIN", ExportDomain,
	)
	var objects []*unstructured.Unstructured
	err := eachFile(manifests, "*.yaml", func(content []byte) error {
		content = []byte(replace.Replace(string(content)))
		documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
				return err
			}
			objects = append(objects, object)
		}
	})
	return objects, err
}

// Schema names the definition of the KubeVirt resource that a case needs.
type Schema string

const (
	// SchemaKubeVirt is KubeVirt's own definition: hypervisors, with one entry at most, kvm or hyperv-direct.
	SchemaKubeVirt Schema = "kubevirt"
	// SchemaVEP97 is KubeVirt's definition with VEP 97's hypervisor, a list without limits, beside hypervisors.
	SchemaVEP97 Schema = "vep97"
	// SchemaOpen is SchemaVEP97 with the limits of hypervisors lifted, as a later KubeVirt may.
	SchemaOpen Schema = "open"
	// SchemaOld is that of a KubeVirt which knows neither field.
	SchemaOld Schema = "old"
)

// Case is one request for a KubeVirt resource and the answer of the guards.
type Case struct {
	Name   string `json:"name"`
	Schema Schema `json:"schema"`
	// Old is the object before the request, status included; without it the request is a create.
	// It is put in place before the guards are, so that it may be one they would deny.
	Old *Object `json:"old,omitempty"`
	// New is what the request writes.
	New Object `json:"new"`
	// Deleting says that Old is being deleted, and held by its finalizers.
	Deleting bool `json:"deleting,omitempty"`
	// Status says that the request writes the subresource status.
	Status bool `json:"status,omitempty"`
	// APIVersion is the version of the request: kubevirt.io/v1 if empty.
	APIVersion string `json:"apiVersion,omitempty"`
	// Denied is what virtward-kubevirt-hypervisor says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
	// Warnings are what virtward-kubevirt-hypervisor-effect says, in order.
	Warnings []string `json:"warnings,omitempty"`
}

// Object is what a case says of a KubeVirt resource; the runner adds name and namespace.
type Object struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
	Spec        map[string]any    `json:"spec,omitempty"`
	Status      map[string]any    `json:"status,omitempty"`
}

// Cases returns the table of cases of the guards of the KubeVirt resource.
func Cases() ([]Case, error) { return table[Case]("cases/kubevirt-*.yaml") }

// RuleSettingsCase is one request for a RuleSettings and the answer of its guard.
type RuleSettingsCase struct {
	Name string `json:"name"`
	// User sends the request: an editor may write RuleSettings, a weakener holds the verb besides, and a
	// weakener-of-exceptions holds it for the object of the name exceptions only.
	User string `json:"user"`
	// Object is the name of the object, where it matters.
	Object string `json:"object,omitempty"`
	// Old is what the object says before the request; without it the request is a create.
	Old *policyv1alpha1.RuleSettingsSpec `json:"old,omitempty"`
	// New is what the request writes; without it the request is a delete.
	New *policyv1alpha1.RuleSettingsSpec `json:"new,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// RuleSettingsCases returns the table of cases of the guard of the RuleSettings.
func RuleSettingsCases() ([]RuleSettingsCase, error) {
	return table[RuleSettingsCase]("cases/rule-settings.yaml")
}

// PolicyCase is one request for a VirtualMachinePolicy and the answer of its guard.
type PolicyCase struct {
	Name string `json:"name"`
	// User sends the request: an author may write policies, an enforcer holds the verb besides, and an
	// enforcer-of-caps holds it for the policy of the name caps only. A reader is an author who may get the
	// ConfigMap shop/limits, and a reviewer one who may create SubjectAccessReviews.
	User string `json:"user"`
	// Object is the name of the policy, where it matters.
	Object string `json:"object,omitempty"`
	// Old is what the policy says before the request; without it the request is a create.
	Old *policyv1alpha1.VirtualMachinePolicySpec `json:"old,omitempty"`
	// New is what the request writes; without it the request is a delete.
	New *policyv1alpha1.VirtualMachinePolicySpec `json:"new,omitempty"`
	// Labels are what the request writes beside New.
	Labels map[string]string `json:"labels,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// PolicyExceptionCase is one request for a VirtualMachinePolicyException and the answer of its guard.
type PolicyExceptionCase struct {
	Name string `json:"name"`
	// User sends the request: a writer may write exceptions, an exempter holds the verb besides, and an
	// exempter-of-caps holds it for the policies of the names caps and limits only.
	User string `json:"user"`
	// Old are the policies and the reason before the request; without it the request is a create.
	Old *PolicyExceptionContent `json:"old,omitempty"`
	// New is what the request writes; without it the request is a delete.
	New *PolicyExceptionContent `json:"new,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// PolicyExceptionContent is what a case says of an exception.
type PolicyExceptionContent struct {
	Policies []string `json:"policies"`
	// Count adds policies with the names policy-0, policy-1 and so on.
	Count  int    `json:"count,omitempty"`
	Reason string `json:"reason,omitempty"`
	// By is the recorded user; empty for that of the request, and none for no annotation.
	By     string            `json:"by,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// PolicyExceptionCases returns the table of cases of the guard of the VirtualMachinePolicyExceptions.
func PolicyExceptionCases() ([]PolicyExceptionCase, error) {
	return table[PolicyExceptionCase]("cases/policy-exceptions.yaml")
}

// PolicyCases returns the table of cases of the guard of the VirtualMachinePolicies.
func PolicyCases() ([]PolicyCase, error) { return table[PolicyCase]("cases/policies.yaml") }

// AccountCase is one request of an account for a webhook configuration or an APIService, and the answer of its guard. The
// configurations are mutate.virtward.io, validate.virtward.io and another one of each kind, each with one webhook of that
// name. The APIServices are those of Virtward and another one.
type AccountCase struct {
	Name string `json:"name"`
	// User sends the request, with every right on these kinds.
	User string `json:"user"`
	// Object is the object, as KIND/NAME with kind mutating, validating or apiservice.
	Object string `json:"object"`
	// Patch is the JSON patch that updates it. With create or delete it is created again, or deleted.
	Patch []map[string]any `json:"patch,omitempty"`
	Verb  string           `json:"verb,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// AccountCases returns the table of cases of the guard of our own accounts.
func AccountCases() ([]AccountCase, error) { return table[AccountCase]("cases/accounts.yaml") }

// TemplateCase is one request about VM templates and the answer of the guards.
type TemplateCase struct {
	Name string `json:"name"`
	// User sends the request: see test/guards.
	User string `json:"user"`
	// Old is the object before the request; without it the request creates New. It exists before the guards do.
	Old map[string]any `json:"old,omitempty"`
	// New is the object to create, or a merge patch of Old. Without it the request deletes Old.
	New map[string]any `json:"new,omitempty"`
	// SubResource is what the request writes; empty for the object.
	SubResource string `json:"subResource,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
	// Or is what another guard may say instead: of several that deny, the API server names one.
	Or string `json:"or,omitempty"`
}

// TemplateCases returns the table of cases of a guard of VM templates, by the name of its file.
func TemplateCases(file string) ([]TemplateCase, error) {
	return table[TemplateCase]("cases/" + file + ".yaml")
}

// RolloutCase is one request for a VirtualMachineRollout and the answer of its guards.
type RolloutCase struct {
	Name string `json:"name"`
	// User sends the request: see test/guards.
	User string `json:"user"`
	// Namespace of the rollout: shop if empty.
	Namespace string `json:"namespace,omitempty"`
	// Old is the spec before the request, which another user wrote; without it the request is a create.
	Old map[string]any `json:"old,omitempty"`
	// New is the spec of the request; without it the spec stays.
	New map[string]any `json:"new,omitempty"`
	// Requester is what the request records: self, or the name of another user, or kept; empty for no annotation, and
	// otherwise the text of the annotation. In a text, SELF is the record of the user.
	Requester string `json:"requester,omitempty"`
	// Status says that the request writes the status, and Delete that it deletes the rollout.
	Status bool `json:"status,omitempty"`
	Delete bool `json:"delete,omitempty"`
	// Denied is what the guards say; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// CopyCase is one request for a VirtualMachineRestore, a VirtualMachineClone or a VirtualMachineSnapshotContent, and the answer of
// its guard.
type CopyCase struct {
	Name string `json:"name"`
	// User sends the request: see test/guards.
	User string `json:"user"`
	// Kind is restore, clone or content: restore if empty. Version is that of the request: v1beta1 if empty.
	Kind    string `json:"kind,omitempty"`
	Version string `json:"version,omitempty"`
	// Old is the value of the spec before the request, which another user wrote; without it the request is a create.
	Old string `json:"old,omitempty"`
	// New is that of the request; without it the spec stays.
	New string `json:"new,omitempty"`
	// Record is what the request records: self, or the name of another user, or kept; empty for no annotation, and otherwise the
	// text of the annotation. In a text, SELF is the record of the user without its first bracket.
	Record string `json:"record,omitempty"`
	// Unrecorded says that the object has no record before the request.
	Unrecorded bool `json:"unrecorded,omitempty"`
	// Delete says that the request deletes the object.
	Delete bool `json:"delete,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// CopyCases returns the table of cases of the guards of restores, clones and the contents of snapshots.
func CopyCases() ([]CopyCase, error) { return table[CopyCase]("cases/copies.yaml") }

// RolloutCases returns the table of cases of the guards of VirtualMachineRollouts.
func RolloutCases() ([]RolloutCase, error) { return table[RolloutCase]("cases/rollouts.yaml") }

// GoldenImageCase is one request for a GoldenImageCatalog and the answer of its guards.
type GoldenImageCase struct {
	Name string `json:"name"`
	// User sends the request: see test/guards.
	User string `json:"user"`
	// Namespace of the images: images if empty, and no namespace if default-of-the-kind.
	Namespace string `json:"namespace,omitempty"`
	// Old is the spec before the request, which another user wrote; without it the request is a create.
	Old *GoldenImages `json:"old,omitempty"`
	// New is the spec of the request; without it the spec stays.
	New *GoldenImages `json:"new,omitempty"`
	// Status says that the request writes the status, and Delete that it deletes the catalog.
	Status bool `json:"status,omitempty"`
	Delete bool `json:"delete,omitempty"`
	// Denied is what the guards say; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// GoldenImages are the entries of a catalog.
type GoldenImages struct {
	// Secrets are those of images of a registry; empty for an image without one.
	Secrets []string `json:"secrets,omitempty"`
	// ConfigMaps are those of the authorities of images of a registry.
	ConfigMaps []string `json:"configMaps,omitempty"`
	// Claims are the namespaces of the claims that images are cloned from.
	Claims    []string `json:"claims,omitempty"`
	MultiArch *bool    `json:"multiArch,omitempty"`
}

// GoldenImageCases returns the table of cases of the guards of GoldenImageCatalogs.
func GoldenImageCases() ([]GoldenImageCase, error) {
	return table[GoldenImageCase]("cases/golden-images.yaml")
}

// PointerCase is one request for a DataSource and the answer of its guard.
type PointerCase struct {
	Name string `json:"name"`
	// Old is the spec before the request; without it the request is a create.
	Old map[string]any `json:"old,omitempty"`
	// New is the spec of the request; without it the request changes a label.
	New map[string]any `json:"new,omitempty"`
	// Denied is what the guard says; empty when the request is allowed.
	Denied string `json:"denied,omitempty"`
}

// PointerCases returns the table of cases of the guard of DataSources.
func PointerCases() ([]PointerCase, error) {
	return table[PointerCase]("cases/golden-image-pointers.yaml")
}

func table[T any](pattern string) ([]T, error) {
	var all []T
	err := eachFile(cases, pattern, func(content []byte) error {
		var some []T
		if err := yaml.UnmarshalStrict(content, &some); err != nil {
			return err
		}
		all = append(all, some...)
		return nil
	})
	return all, err
}

func eachFile(files fs.FS, pattern string, do func(content []byte) error) error {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := do(content); err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
	return nil
}
