package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/copies"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/references"
)

const (
	controller  = "system:serviceaccount:kubevirt:kubevirt-controller"
	restoreUID  = "6a1a24a1-4061-4607-8bf4-a3963d0c5895"
	cloneUID    = "7b1a24a1-4061-4607-8bf4-a3963d0c5895"
	snapshotUID = "8c1a24a1-4061-4607-8bf4-a3963d0c5895"
)

// guardOfAuthors returns the guard of authors, as it is installed at a time.
func guardOfAuthors(t testing.TB, created time.Time) []*unstructured.Unstructured {
	t.Helper()
	all, err := admissionpolicies.Objects()
	if err != nil {
		t.Fatal(err)
	}
	var guard []*unstructured.Unstructured
	for _, object := range all {
		if object.GetName() == admissionpolicies.CopyAuthors {
			_ = unstructured.SetNestedField(object.Object, created.UTC().Format(time.RFC3339), "metadata", "creationTimestamp")
			guard = append(guard, object)
		}
	}
	if len(guard) != 2 {
		t.Fatalf("%d objects are the guard", len(guard))
	}
	return guard
}

// nightly is the snapshot of a VM with 2Gi.
func nightly(t testing.TB) []*unstructured.Unstructured {
	t.Helper()
	of := parsed(t, snapshot)
	of.SetUID(snapshotUID)
	return []*unstructured.Unstructured{of, parsed(t, content)}
}

func digestOf(t testing.TB, object *unstructured.Unstructured) string {
	t.Helper()
	digest, err := copies.DigestOf(object.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// recordedBy is the record of a user for the snapshot.
func recordedBy(t testing.TB, user string) string {
	t.Helper()
	return fmt.Sprintf(`{"snapshot":%q,"content":%q,"username":%q}`, snapshotUID, digestOf(t, parsed(t, content)), user)
}

// ordered is a restore of the snapshot into a VM.
func ordered(record string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	restore := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.kubevirt.io/v1beta1", "kind": "VirtualMachineRestore",
		"metadata": map[string]any{"name": "back", "namespace": "default", "uid": restoreUID, "creationTimestamp": "2026-01-02T00:00:00Z"},
		"spec":     map[string]any{"target": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "db"}, "virtualMachineSnapshotName": "nightly"},
	}}
	if record != "" {
		restore.SetAnnotations(map[string]string{copies.AnnotationAuthor: record})
	}
	for _, change := range changes {
		change(restore)
	}
	return restore
}

func setting(value any, path ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			panic(err)
		}
	}
}

// restored is the VM that KubeVirt creates.
func restored(t testing.TB, memory, mark string, changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	vm := parsed(t, `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {name: db, namespace: default}, spec: {runStrategy: Halted, template: {spec: {architecture: amd64, domain: {devices: {}, machine: {type: q35}, memory: {guest: `+memory+`}}}}}}`)
	if mark != "" {
		vm.SetAnnotations(map[string]string{copies.AnnotationRestore: mark})
	}
	for _, change := range changes {
		change(vm)
	}
	return vm
}

// before is a time before the restore was created.
var before = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestRestoredMachinesAreEvaluatedForTheirAuthor verifies what KubeVirt creates: the policies that read the request are
// evaluated with the recorded author, and deny without a record that can be trusted.
func TestRestoredMachinesAreEvaluatedForTheirAuthor(t *testing.T) {
	const mark = "back-" + restoreUID
	denied := []string{"FieldValueForbidden spec: Forbidden: a secret [virtward/policy/a]"}
	unknown := func(why string) []string {
		return []string{"InternalError spec: Internal error: the policy reads the request, and the author of the virtual machine is not known: " + why + " [virtward/policy/a] Create the VirtualMachineRestore or the VirtualMachineClone again."}
	}
	ofRestore := func(why string) []string { return unknown("the VirtualMachineRestore back: " + why) }
	pool := parsed(t, `{apiVersion: pool.kubevirt.io/v1beta1, kind: VirtualMachinePool, metadata: {name: many, namespace: default, uid: p}}`)
	ofPool := func(uid string) func(*unstructured.Unstructured) {
		return setting([]any{map[string]any{"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "many", "uid": uid, "controller": true}}, "metadata", "ownerReferences")
	}
	guarded, snapshotted := guardOfAuthors(t, before), nightly(t)
	bySnapshot := func(change func(*unstructured.Unstructured)) []*unstructured.Unstructured {
		changed := nightly(t)
		change(changed[0])
		return changed
	}
	byContent := func(change func(*unstructured.Unstructured)) []*unstructured.Unstructured {
		changed := nightly(t)
		change(changed[1])
		return changed
	}
	jane, mallory := recordedBy(t, "jane"), recordedBy(t, "mallory")
	for name, tc := range map[string]struct {
		vm       *unstructured.Unstructured
		restore  *unstructured.Unstructured
		guard    []*unstructured.Unstructured
		snapshot []*unstructured.Unstructured
		want     []string
	}{
		"of a user with the right":         {restored(t, "2Gi", mark), ordered(jane), guarded, snapshotted, nil},
		"of another user":                  {restored(t, "2Gi", mark), ordered(mallory), guarded, snapshotted, denied},
		"of another user, a small one":     {restored(t, "1Gi", mark), ordered(mallory), guarded, snapshotted, nil},
		"without a record":                 {restored(t, "1Gi", mark), ordered(""), guarded, snapshotted, ofRestore("the annotation copy.virtward.io/author is missing")},
		"with a record that is no JSON":    {restored(t, "1Gi", mark), ordered("x"), guarded, snapshotted, ofRestore("the annotation copy.virtward.io/author cannot be read")},
		"of a complete restore":            {restored(t, "1Gi", mark), ordered(jane, setting(true, "status", "complete")), guarded, snapshotted, ofRestore("it is complete")},
		"of a restore of another VM":       {restored(t, "1Gi", mark), ordered(jane, setting("other", "spec", "target", "name")), guarded, snapshotted, ofRestore("its target is another object")},
		"of a restore that is gone":        {restored(t, "1Gi", mark), ordered(jane, setting("1", "metadata", "uid")), guarded, snapshotted, unknown("the VirtualMachineRestore of the annotation restore.kubevirt.io/lastRestoreUID does not exist")},
		"of no restore":                    {restored(t, "1Gi", ""), ordered(jane), guarded, snapshotted, unknown("the annotation restore.kubevirt.io/lastRestoreUID names no VirtualMachineRestore")},
		"without a guard":                  {restored(t, "1Gi", mark), ordered(jane), nil, snapshotted, ofRestore("the guard virtward-copy-authors does not exist, or does not deny")},
		"without the binding of the guard": {restored(t, "1Gi", mark), ordered(jane), guarded[:1], snapshotted, ofRestore("the guard virtward-copy-authors does not exist, or does not deny")},
		"older than the guard":             {restored(t, "1Gi", mark), ordered(jane), guardOfAuthors(t, before.Add(24*time.Hour)), snapshotted, ofRestore("it was created before the guard virtward-copy-authors")},
		"of a snapshot that was not ready": {restored(t, "1Gi", mark), ordered(`{"username":"jane"}`), guarded, snapshotted, ofRestore("its snapshot was not ready, or too large, when it was created")},
		"of another snapshot":              {restored(t, "1Gi", mark), ordered(jane), guarded, bySnapshot(setting("other", "metadata", "uid")), ofRestore("its snapshot has changed since it was created")},
		"of another content":               {restored(t, "1Gi", mark), ordered(jane), guarded, byContent(setting("other", "spec", "source", "virtualMachine", "metadata", "name")), ofRestore("its snapshot has changed since it was created")},
		"of a snapshot that is gone":       {restored(t, "1Gi", mark), ordered(jane), guarded, nil, ofRestore("its snapshot has changed since it was created")},
		"of a pool":                        {restored(t, "2Gi", "", ofPool("p")), ordered(jane), guarded, snapshotted, nil},
		"of a pool that is gone":           {restored(t, "1Gi", "", ofPool("q")), ordered(jane), guarded, snapshotted, unknown("the annotation restore.kubevirt.io/lastRestoreUID names no VirtualMachineRestore")},
		"of a restore and a pool":          {restored(t, "1Gi", mark, ofPool("p")), ordered(jane), guarded, snapshotted, unknown("a VirtualMachinePool owns it, and it has the annotation restore.kubevirt.io/lastRestoreUID")},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append([]*unstructured.Unstructured{pool, tc.restore}, tc.guard...)
			v := newValidator(t, append(objects, tc.snapshot...)...)
			under(t, v, strings.Replace(onlyJane, "{enforcement", "{match: {kinds: [VirtualMachine], operations: [CREATE, UPDATE]}, enforcement", 1))
			if diff := cmp.Diff(tc.want, complaints(evaluated(t, v, reviewOf(t, "VirtualMachine", tc.vm, by(controller))))); diff != "" {
				t.Errorf("a creation (-want +got):\n%s", diff)
			}
			if strings.Contains(name, "pool") || name == "of no restore" {
				return
			}
			was := restored(t, "512Mi", "earlier-"+restoreUID)
			if diff := cmp.Diff(tc.want, complaints(evaluated(t, v, reviewOf(t, "VirtualMachine", tc.vm, update(t, was), by(controller))))); diff != "" {
				t.Errorf("a restore in place (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("an update that is no restore", func(t *testing.T) {
		v := newValidator(t)
		under(t, v, onlyJane)
		if found := complaints(evaluated(t, v, reviewOf(t, "VirtualMachine", restored(t, "2Gi", mark), update(t, restored(t, "1Gi", mark)), by(controller)))); found != nil {
			t.Errorf("complaints %q", found)
		}
	})
	t.Run("without a policy that reads the request", func(t *testing.T) {
		v := newValidator(t)
		under(t, v, neverARM)
		if found := complaints(evaluated(t, v, reviewOf(t, "VirtualMachine", restored(t, "2Gi", ""), by(controller)))); found != nil {
			t.Errorf("complaints %q", found)
		}
	})
	t.Run("policies for other objects, and those that do not deny", func(t *testing.T) {
		v := newValidator(t)
		under(t, v, strings.Replace(onlyJane, "{enforcement", "{match: {objectSelector: {matchLabels: {a: b}}}, enforcement", 1), strings.Replace(onlyJane, "Deny", "Warn", 1))
		if response := evaluated(t, v, reviewOf(t, "VirtualMachine", restored(t, "2Gi", ""), by(controller))); !response.Allowed {
			t.Errorf("complaints %q", complaints(response))
		}
	})
	t.Run("policies that do not read the request are evaluated too", func(t *testing.T) {
		v := newValidator(t, append(append([]*unstructured.Unstructured{ordered(jane)}, guarded...), snapshotted...)...)
		under(t, v, onlyJane, neverARM)
		arm := restored(t, "2Gi", mark, setting("arm64", "spec", "template", "spec", "architecture"), setting("virt", "spec", "template", "spec", "domain", "machine", "type"))
		if found := complaints(evaluated(t, v, reviewOf(t, "VirtualMachine", arm, by(controller)))); len(found) == 0 || !strings.Contains(strings.Join(found, "\n"), "[virtward/policy/b]") {
			t.Errorf("complaints %q", found)
		}
	})
}

// TestAuthorsAreRecorded verifies the annotation that the mutating webhook sets.
func TestAuthorsAreRecorded(t *testing.T) {
	clone := func(source, record string) *unstructured.Unstructured {
		c := parsed(t, `{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: copy, namespace: default, uid: `+cloneUID+`, creationTimestamp: "2026-01-02T00:00:00Z"}, spec: {source: {apiGroup: g, kind: `+source+`}}}`)
		if record != "" {
			c.SetAnnotations(map[string]string{copies.AnnotationAuthor: record})
		}
		return c
	}
	const ofVM, ofSnapshot = "VirtualMachine, name: db", "VirtualMachineSnapshot, name: nightly"
	owned := func(uid string) func(*unstructured.Unstructured) {
		return setting([]any{map[string]any{"apiVersion": "clone.kubevirt.io/v1beta1", "kind": "VirtualMachineClone", "name": "copy", "uid": uid, "controller": true}}, "metadata", "ownerReferences")
	}
	elsewhere := setting("none", "spec", "virtualMachineSnapshotName")
	jane, plain := recordedBy(t, "jane"), `{"username":"jane"}`
	stale := strings.Replace(jane, snapshotUID, restoreUID, 1)
	for name, tc := range map[string]struct {
		object, old *unstructured.Unstructured
		user        string
		clone       *unstructured.Unstructured
		unguarded   bool
		want        string
	}{
		"a restore": {object: ordered(""), user: "jane", want: jane},
		"a restore of a snapshot that is not ready":   {object: ordered("", elsewhere), user: "jane", want: plain},
		"another user's record is replaced":           {object: ordered(recordedBy(t, "admin")), user: "jane", want: jane},
		"a clone of a VM":                             {object: clone(ofVM, ""), user: "jane", want: plain},
		"a clone of a snapshot":                       {object: clone(ofSnapshot, ""), user: "jane", want: jane},
		"a user who cannot be recorded":               {object: ordered(""), user: "ja\nne", want: ""},
		"an update that keeps the spec":               {object: ordered(""), old: ordered(jane), user: "mallory", want: jane},
		"an update of the spec":                       {object: ordered("", elsewhere), old: ordered(jane), user: "mallory", want: `{"username":"mallory"}`},
		"an update of the spec by KubeVirt":           {object: ordered("", elsewhere), old: ordered(jane), user: controller, want: jane},
		"KubeVirt's restore of a clone of a VM":       {object: ordered("", owned(cloneUID)), user: controller, clone: clone(ofVM, plain), want: jane},
		"KubeVirt's restore of a clone of a snapshot": {object: ordered("", owned(cloneUID)), user: controller, clone: clone(ofSnapshot, jane), want: jane},
		"its snapshot has changed since the clone":    {object: ordered("", owned(cloneUID)), user: controller, clone: clone(ofSnapshot, stale), want: stale},
		"of a clone that is gone":                     {object: ordered("", owned(restoreUID)), user: controller, clone: clone(ofVM, plain), want: ""},
		"of a clone without a record":                 {object: ordered("", owned(cloneUID)), user: controller, clone: clone(ofVM, ""), want: ""},
		"of a clone without a guard":                  {object: ordered("", owned(cloneUID)), user: controller, clone: clone(ofVM, plain), unguarded: true, want: ""},
		"KubeVirt's restore of no clone":              {object: ordered(""), user: controller, want: ""},
		"a user's restore that a clone owns":          {object: ordered("", owned(cloneUID)), user: "mallory", clone: clone(ofVM, plain), want: recordedBy(t, "mallory")},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMutator(t)
			objects := nightly(t)
			if !tc.unguarded {
				objects = append(objects, guardOfAuthors(t, before)...)
			}
			if tc.clone != nil {
				objects = append(objects, tc.clone)
			}
			memory, err := references.NewMemory("default", objects...)
			if err != nil {
				t.Fatal(err)
			}
			m.Evaluator.References = memory
			changes := []func(*admissionv1.AdmissionRequest){func(r *admissionv1.AdmissionRequest) {
				r.Kind.Group, _, _ = strings.Cut(tc.object.GetAPIVersion(), "/")
				r.UserInfo = authenticationv1.UserInfo{Username: tc.user}
				if tc.old != nil {
					r.Operation = admissionv1.Update
					raw, err := json.Marshal(tc.old)
					if err != nil {
						t.Fatal(err)
					}
					r.OldObject = runtime.RawExtension{Raw: raw}
				}
			}}
			raw, err := json.Marshal(tc.object)
			if err != nil {
				t.Fatal(err)
			}
			response := answerOf(t, m, reviewOf(t, tc.object.GetKind(), tc.object, changes...))
			if response.Patch != nil {
				raw = apply(t, raw, response.Patch)
			}
			patched := &unstructured.Unstructured{}
			if err := json.Unmarshal(raw, &patched.Object); err != nil {
				t.Fatal(err)
			}
			if got := patched.GetAnnotations()[copies.AnnotationAuthor]; got != tc.want || !response.Allowed {
				t.Errorf("recorded %s, not %s; warnings %q", got, tc.want, response.Warnings)
			}
			if (len(response.Warnings) > 0) != strings.Contains(name, "cannot be recorded") {
				t.Errorf("warnings %q", response.Warnings)
			}
		})
	}
}

// TestPatchesKeepTheMark: no patch of a restore or a clone hides the author of the virtual machine.
func TestPatchesKeepTheMark(t *testing.T) {
	const mark = `restore.kubevirt.io~1lastRestoreUID`
	for name, tc := range map[string]struct {
		patch  string
		denied bool
	}{
		"another label":           {`{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}`, false},
		"another annotation":      {`{"op": "add", "path": "/metadata/annotations/a", "value": "b"}`, false},
		"a test":                  {`{"op": "test", "path": "/metadata/annotations/` + mark + `", "value": "b"}`, false},
		"another mark":            {`{"op": "replace", "path": "/metadata/annotations/` + mark + `", "value": "b"}`, true},
		"no mark":                 {`{"op": "remove", "path": "/metadata/annotations/` + mark + `"}`, true},
		"the mark moves":          {`{"op": "move", "from": "/metadata/annotations/` + mark + `", "path": "/metadata/annotations/a"}`, true},
		"the mark is copied":      {`{"op": "copy", "from": "/metadata/annotations/` + mark + `", "path": "/metadata/annotations/a"}`, false},
		"other annotations":       {`{"op": "replace", "path": "/metadata/annotations", "value": {}}`, true},
		"labels as annotations":   {`{"op": "copy", "from": "/metadata/labels", "path": "/metadata/annotations"}`, true},
		"other metadata":          {`{"op": "replace", "path": "/metadata", "value": {}}`, true},
		"another VM":              {`{"op": "replace", "path": "", "value": {}}`, true},
		"escapes of JSON":         {`{"op": "remove", "p\u0061th": "/metadata/annotations/\u0072estore.kubevirt.io~1lastRestoreUID"}`, true},
		"another case":            {`{"op": "add", "path": "/Metadata", "value": {"annotations": {}}}`, true},
		"a letter that folds":     {`{"op": "add", "path": "/metadata/annotationſ", "value": {}}`, true},
		"an owner":                {`{"op": "add", "path": "/metadata/ownerReferences", "value": []}`, true},
		"an owner in another way": {`{"op": "add", "path": "/metadata/OwnerReferences/-", "value": {}}`, true},
		"no patch":                {`{`, false},
		"two in one":              {`{"op": "add", "path": "/metadata/annotations/a", "value": "b"}, {"op": "remove", "path": "/metadata/annotations/` + mark + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, policies := range [][]string{{onlyJane}, {neverARM}} {
				v := newValidator(t, parsed(t, stored), parsed(t, snapshot), parsed(t, content))
				under(t, v, policies...)
				for _, object := range []*unstructured.Unstructured{
					ordered("", setting("new", "spec", "target", "name"), setting([]any{tc.patch}, "spec", "patches")),
					parsed(t, `{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: c, namespace: default}, spec: {source: {kind: VirtualMachine, name: db}}}`),
				} {
					setting([]any{tc.patch}, "spec", "patches")(object)
					response := evaluated(t, v, reviewOf(t, object.GetKind(), object, by("jane"), func(r *admissionv1.AdmissionRequest) { r.Kind.Group, _, _ = strings.Cut(object.GetAPIVersion(), "/") }))
					found := strings.Join(complaints(response), "\n")
					named := strings.Contains(found, "spec.patches") && (strings.Contains(found, "must not change the annotation") || strings.Contains(found, "metadata.ownerReferences"))
					if named != tc.denied {
						t.Errorf("%s: %q", object.GetKind(), found)
					}
					if readsRequest := policies[0] == onlyJane; tc.denied && response.Allowed && (readsRequest || !strings.Contains(name, "owner")) {
						t.Errorf("%s: it is allowed", object.GetKind())
					}
				}
			}
		})
	}
}

// TestFiltersThatRemoveTheMark: KubeVirt removes the annotation from a clone of a VM that was restored.
func TestFiltersThatRemoveTheMark(t *testing.T) {
	source := parsed(t, stored)
	source.SetAnnotations(map[string]string{copies.AnnotationRestore: "back-" + restoreUID, "a": "b"})
	for filters, denied := range map[string]bool{"": false, "annotationFilters: ['*']": false, "annotationFilters: ['^a$']": true, "labelFilters: [a]": false} {
		v := newValidator(t, source)
		under(t, v, onlyJane)
		object := parsed(t, `{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: c, namespace: default}, spec: {source: {kind: VirtualMachine, name: db}, `+filters+`}}`)
		response := evaluated(t, v, reviewOf(t, object.GetKind(), object, by("jane"), func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "clone.kubevirt.io" }))
		if response.Allowed == denied {
			t.Errorf("%s: %q", filters, complaints(response))
		}
	}
}

// Every maker whose author is known by the request of a user is validated.
func TestMakersAreValidated(t *testing.T) {
	for _, maker := range evaluator.Makers() {
		if maker.Author != evaluator.OfVM && examinationOf(maker.GroupKind) == nil {
			t.Errorf("%s is not validated", maker.GroupKind)
		}
	}
}
