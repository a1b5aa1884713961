package restorecheck

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// templateObject is a template with a UID and an image.
func templateObject(t testing.TB, uid, image string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{apiVersion: template.kubevirt.io/v1beta1, kind: VirtualMachineTemplate, metadata: {namespace: images, name: fedora, uid: %s},
spec: {parameters: [{name: NAME}], virtualMachine: {metadata: {name: "${NAME}"}, spec: {template: {spec: {volumes: [{name: a, containerDisk: {image: %s}}]}}}}}}`, uid, image)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(o)
	}
	return o
}

// approved adds an approval of the template as it is, which counted.
func approved(t testing.TB) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		t.Helper()
		template := &v1beta1.VirtualMachineTemplate{}
		if err := decode(o, template); err != nil {
			t.Fatal(err)
		}
		digest, err := templates.Digest(template)
		if err != nil {
			t.Fatal(err)
		}
		claims(digest, "True")(o)
	}
}

// claims adds an approval of a digest.
func claims(digest, status string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{
			"approval":   map[string]any{"digest": digest, "approvedBy": "jane", "approvedAt": "2026-03-01T12:00:00Z", "signature": "v1.1.a"},
			"conditions": []any{map[string]any{"type": "Approved", "status": status, "reason": "SignatureInvalid", "message": "", "lastTransitionTime": "2026-03-01T12:00:00Z"}},
		}
	}
}

func TestCompareTemplate(t *testing.T) {
	before := func(change ...func(*unstructured.Unstructured)) []*unstructured.Unstructured {
		return []*unstructured.Unstructured{templateObject(t, "old", "fedora@sha256:a", change...)}
	}
	good := before(approved(t))
	digest, _, _ := unstructured.NestedString(good[0].Object, "status", "approval", "digest")
	row := func(state State, message string, differences ...Difference) *Row {
		return &Row{Namespace: "images", Name: "fedora", State: state, By: "jane", At: "2026-03-01T12:00:00Z", Message: message, Differences: differences}
	}
	for name, c := range map[string]struct {
		before []*unstructured.Unstructured
		now    *unstructured.Unstructured
		want   *Row
	}{
		"the same spec with another UID": {good, templateObject(t, "new", "fedora@sha256:a"), row(SameDigest, "")},
		"not restored":                   {good, nil, row(Gone, "restore it, and run the command again")},
		"another image": {
			good, templateObject(t, "new", "fedora@sha256:b"),
			row(Changed, "", Difference{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image", "fedora@sha256:a", "fedora@sha256:b"}),
		},
		// A user who writes the approval of before, with its digest, gains nothing.
		"an object of the cluster that claims the digest": {
			good, templateObject(t, "new", "fedora@sha256:b", claims(digest, "True")),
			row(Changed, "", Difference{"spec.virtualMachine.spec.template.spec.volumes[0].containerDisk.image", "fedora@sha256:a", "fedora@sha256:b"}),
		},
		"a backup that claims a digest": {before(claims("sha256:00", "True")), templateObject(t, "new", "fedora@sha256:a"), row(Ended, "the backup has another spec than the approved one")},
		"an approval that did not count": {
			before(approved(t), func(o *unstructured.Unstructured) { claims(digest, "False")(o) }), templateObject(t, "new", "fedora@sha256:a"),
			row(Ended, "it did not count when the backup was made: SignatureInvalid"),
		},
		"no condition": {
			before(approved(t), func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "status", "conditions") }), templateObject(t, "new", "fedora@sha256:a"),
			row(Ended, "the backup does not say whether the approval counted"),
		},
		"an approval with a source": {
			before(approved(t), func(o *unstructured.Unstructured) {
				approval := o.Object["status"].(map[string]any)["approval"].(map[string]any)
				approval["source"] = map[string]any{"kind": "oci", "reference": "oci://registry.example.com/db:1", "digest": "sha256:2", "import": "db"}
				approval["signature"] = "v2.1.a"
			}),
			templateObject(t, "new", "fedora@sha256:a"), row(SameDigest, ""),
		},
		"no approval": {before(), templateObject(t, "new", "fedora@sha256:a"), nil},
		"two of a name": {
			append(before(approved(t)), templateObject(t, "older", "fedora@sha256:b")), templateObject(t, "new", "fedora@sha256:a"),
			row(Ambiguous, "the backup has 2 different templates of this name"),
		},
		"no UID": {
			before(func(o *unstructured.Unstructured) { o.SetUID("") }, approved(t)), templateObject(t, "new", "fedora@sha256:a"),
			row(Ended, "the backup does not have the UID, so it is not known what was approved"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareTemplate("images", "fedora", c.before, c.now)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Row{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func exception(t testing.TB, expires, status string, names ...string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicyException, metadata: {namespace: finance, name: year-end, annotations: {policy.virtward.io/exempted-by: jane}},
spec: {policies: [memory], virtualMachines: [%s], reason: r, expires: %q}, status: {conditions: [{type: Active, status: %q, reason: NotPermitted, message: "", lastTransitionTime: "2026-03-01T12:00:00Z"}]}}`,
		strings.Join(names, ","), expires, status)
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestCompareException(t *testing.T) {
	const later, earlier = "2027-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
	row := func(state State, message string, differences ...Difference) *Row {
		return &Row{Namespace: "finance", Name: "year-end", State: state, By: "jane", Message: message, Differences: differences}
	}
	for name, c := range map[string]struct {
		before, now *unstructured.Unstructured
		want        *Row
	}{
		"active":        {exception(t, later, "True", "a"), exception(t, later, "True", "a"), row(Valid, "")},
		"not permitted": {exception(t, later, "True", "a"), exception(t, later, "False", "a"), row(NotActive, "NotPermitted: create it again with an account that has the verb exempt")},
		"more names":    {exception(t, later, "True", "a"), exception(t, later, "True", "a", "b"), row(Changed, "", Difference{"spec.virtualMachines[1]", "none", "b"})},
		"not restored":  {exception(t, later, "True", "a"), nil, row(Gone, "restore it with an account that has the verb exempt")},
		"ended":         {exception(t, earlier, "True", "a"), nil, row(Ended, "it ended at "+earlier)},
		"never active":  {exception(t, later, "False", "a"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareException("finance", "year-end", []*unstructured.Unstructured{c.before}, c.now, time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC))
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Row{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDifferences: the differences are bounded, whatever users write.
func TestDifferences(t *testing.T) {
	wide, deep := map[string]any{}, any("end")
	for i := range 200 {
		wide[fmt.Sprintf("%04d\x1b[2J%s", i, strings.Repeat("k", 1000))] = strings.Repeat("\x1b[2J\n", 2000)
	}
	for range 10_000 {
		deep = map[string]any{"a": deep}
	}
	for name, c := range map[string]struct {
		now  any
		want int
	}{"wide": {wide, maxDifferences}, "deep": {deep, 1}, "another type": {[]any{1}, 1}, "none": {nil, 1}} {
		found := differences(map[string]any{"a": "b"}, c.now)
		if len(found) != c.want && name != "wide" || len(found) > maxDifferences {
			t.Errorf("%s: %d differences, not %d", name, len(found), c.want)
		}
		written, err := json.Marshal(found)
		if err != nil || len(written) > maxDifferences*(maxPath+4*maxValue+200) || strings.Contains(string(written), `\u001b`) {
			t.Errorf("%s: %v, %d bytes: %.200s", name, err, len(written), written)
		}
	}
}
