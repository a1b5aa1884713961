package restorecheck

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/texts"
)

// State is what is left of an earlier approval or exception.
type State string

// The states.
const (
	// Valid: it counts in the cluster.
	Valid State = "Valid"
	// SameDigest: the cluster has what was approved, and the approval does not count there. It can be approved again.
	SameDigest State = "SameDigest"
	// Changed: the cluster has another spec.
	Changed State = "Changed"
	// Gone: the cluster has no such object.
	Gone State = "Gone"
	// Ended: it did not count any more when the backup was made, or an exception has ended since.
	Ended State = "Ended"
	// NotActive: the cluster has the exception, and it has no effect.
	NotActive State = "NotActive"
	// Ambiguous: the backup has several objects of the name.
	Ambiguous State = "Ambiguous"
	// Unknown: the cluster could not be read.
	Unknown State = "Unknown"
)

// Row is an earlier approval or exception.
type Row struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// By and At are who approved it, and when, as the backup says.
	By string `json:"by,omitempty"`
	At string `json:"at,omitempty"`
	// Message says more of the state, and what to do.
	Message string `json:"message,omitempty"`
	// Differences are the fields that differ, at most maxDifferences.
	Differences []Difference `json:"differences,omitempty"`

	// digest is that of the template of the cluster.
	digest string
}

// title is NAMESPACE/NAME.
func (r *Row) title() string { return r.Namespace + "/" + r.Name }

// Difference is a field of which a backup and the cluster have different values.
type Difference struct {
	Field   string `json:"field"`
	Backup  string `json:"backup"`
	Cluster string `json:"cluster"`
}

// earlierApproval returns the approval of a template of a backup, or why it did not count when the backup was made. A template without
// an approval has none of both.
func earlierApproval(object *unstructured.Unstructured) (template *v1beta1.VirtualMachineTemplate, ended string) {
	if approval, found, err := unstructured.NestedFieldNoCopy(object.Object, "status", "approval"); err != nil || !found || approval == nil {
		return nil, ""
	}
	template = &v1beta1.VirtualMachineTemplate{}
	if err := decode(object, template); err != nil {
		return &v1beta1.VirtualMachineTemplate{}, "it cannot be read: " + err.Error()
	}
	digest, err := templates.Digest(template)
	approved := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateApproved)
	switch {
	case err != nil:
		return template, "its spec cannot be read: " + err.Error()
	case template.UID == "":
		return template, "the backup does not have the UID, so it is not known what was approved"
	case template.Status.Approval.Digest != digest:
		return template, "the backup has another spec than the approved one"
	case approved == nil:
		return template, "the backup does not say whether the approval counted"
	case approved.Status != metav1.ConditionTrue:
		return template, "it did not count when the backup was made: " + approved.Reason
	}
	return template, ""
}

func decode(object *unstructured.Unstructured, into any) error {
	written, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(written, into)
}

// compareTemplate compares the objects of a name in a backup with that of the cluster, which is nil if there is none. The row is nil if
// none of the backup has an approval. Whether the template is approved now is not known yet.
func compareTemplate(namespace, name string, before []*unstructured.Unstructured, now *unstructured.Unstructured) *Row {
	row := &Row{Namespace: namespace, Name: name}
	var approved *v1beta1.VirtualMachineTemplate
	for _, object := range before {
		template, ended := earlierApproval(object)
		if template == nil {
			continue
		}
		if approved = template; ended != "" {
			row.State, row.Message = Ended, ended
		}
		if approval := template.Status.Approval; approval != nil {
			row.By, row.At = approval.ApprovedBy, approval.ApprovedAt.UTC().Format(time.RFC3339)
		}
	}
	switch {
	case approved == nil:
		return nil
	case len(before) > 1:
		row.State, row.Message = Ambiguous, fmt.Sprintf("the backup has %d different templates of this name", len(before))
		return row
	case row.State != "":
		return row
	case now == nil:
		row.State, row.Message = Gone, "restore it, and run the command again"
		return row
	}
	current := &v1beta1.VirtualMachineTemplate{}
	if err := decode(now, current); err != nil {
		row.State, row.Message = Unknown, "the cluster's template cannot be read: "+err.Error()
		return row
	}
	digest, err := templates.Digest(current)
	if err != nil {
		row.State, row.Message = Unknown, "the cluster's template cannot be read: "+err.Error()
		return row
	}
	row.digest = digest
	current.UID = approved.UID // the digest of a template has its UID, which a restore changes
	if as, err := templates.Digest(current); err == nil && as == approved.Status.Approval.Digest {
		row.State = SameDigest
		return row
	}
	row.State = Changed
	row.Differences = differences(before[0].Object["spec"], now.Object["spec"])
	return row
}

// compareException compares the exceptions of a name in a backup with that of the cluster. The row is nil if none was active when the
// backup was made.
func compareException(namespace, name string, before []*unstructured.Unstructured, now *unstructured.Unstructured, clock time.Time) *Row {
	row := &Row{Namespace: namespace, Name: name}
	var active *policyv1alpha1.VirtualMachinePolicyException
	for _, object := range before {
		exception := &policyv1alpha1.VirtualMachinePolicyException{}
		if err := decode(object, exception); err != nil {
			row.State, row.Message = Ended, "it cannot be read: "+err.Error()
			return row
		}
		if meta.IsStatusConditionTrue(exception.Status.Conditions, policyv1alpha1.ExceptionActive) {
			active, row.By = exception, exception.Annotations[policyv1alpha1.AnnotationExemptedBy]
		}
	}
	switch {
	case active == nil:
		return nil
	case len(before) > 1:
		row.State, row.Message = Ambiguous, fmt.Sprintf("the backup has %d different exceptions of this name", len(before))
		return row
	case !active.Spec.Expires.After(clock):
		row.State, row.Message = Ended, "it ended at "+active.Spec.Expires.UTC().Format(time.RFC3339)
		return row
	case now == nil:
		row.State, row.Message = Gone, "restore it with an account that has the verb exempt"
		return row
	case digestOf(before[0].Object["spec"]) != digestOf(now.Object["spec"]):
		row.State, row.Differences = Changed, differences(before[0].Object["spec"], now.Object["spec"])
		return row
	}
	current := &policyv1alpha1.VirtualMachinePolicyException{}
	if err := decode(now, current); err != nil {
		row.State, row.Message = Unknown, "the cluster's exception cannot be read: "+err.Error()
		return row
	}
	if condition := meta.FindStatusCondition(current.Status.Conditions, policyv1alpha1.ExceptionActive); condition == nil || condition.Status != metav1.ConditionTrue {
		row.State, row.Message = NotActive, "create it again with an account that has the verb exempt"
		if condition != nil {
			row.Message = condition.Reason + ": " + row.Message
		}
		return row
	}
	row.State = Valid
	return row
}

// digestOf is the digest of a value in a form that does not depend on the order of keys.
func digestOf(value any) string {
	written, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(written)
	return hex.EncodeToString(sum[:])
}

// Bounds of differences: their number, the bytes of a value, and the depth to which objects are compared.
const (
	maxDifferences = 20
	maxValue       = 80
	maxDepth       = 64
)

// differences are the fields of which two specs have different values, in the order of their paths.
func differences(before, now any) []Difference {
	d := &differ{}
	d.compare("spec", before, now, 0)
	return d.found
}

type differ struct{ found []Difference }

func (d *differ) compare(path string, before, now any, depth int) {
	if len(d.found) == maxDifferences || equal(before, now) {
		return
	}
	if depth < maxDepth {
		if a, isMap := before.(map[string]any); isMap {
			if b, isMap := now.(map[string]any); isMap {
				keys := slices.Collect(maps.Keys(a))
				for key := range b {
					if _, has := a[key]; !has {
						keys = append(keys, key)
					}
				}
				slices.Sort(keys)
				for _, key := range keys {
					d.compare(texts.Shorten(path+"."+key, maxPath), a[key], b[key], depth+1)
				}
				return
			}
		}
		if a, isList := before.([]any); isList {
			if b, isList := now.([]any); isList {
				for i := range max(len(a), len(b)) {
					d.compare(fmt.Sprintf("%s[%d]", path, i), at(a, i), at(b, i), depth+1)
				}
				return
			}
		}
	}
	d.found = append(d.found, Difference{Field: texts.OneLine(path), Backup: shown(before), Cluster: shown(now)})
}

// maxPath bounds a path, in bytes: users choose keys.
const maxPath = 512

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func equal(a, b any) bool {
	x, err := json.Marshal(a)
	if err != nil {
		return false
	}
	y, err := json.Marshal(b)
	return err == nil && bytes.Equal(x, y)
}

// shown is a value on one line, and bounded.
func shown(value any) string {
	if value == nil {
		return "none"
	}
	if text, isText := value.(string); isText {
		return texts.Shorten(texts.OneLine(texts.Shorten(text, 4*maxValue)), maxValue)
	}
	written, err := json.Marshal(value)
	if err != nil {
		return "a value that cannot be shown"
	}
	return texts.Shorten(texts.OneLine(strings.TrimSpace(string(written[:min(len(written), 4*maxValue)]))), maxValue)
}
