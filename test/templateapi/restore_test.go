package templateapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/test/await"
)

// restored is what a backup tool restores: without a status and without what the API server sets. Some tools keep owner references.
func restored(object *unstructured.Unstructured) *unstructured.Unstructured {
	back := object.DeepCopy()
	unstructured.RemoveNestedField(back.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(back.Object, "metadata", field)
	}
	return back
}

// backUp writes objects as Velero does: into a folder, and into an archive.
func (f *fixture) backUp(objects map[string][]*unstructured.Unstructured) (folder, archive string) {
	f.t.Helper()
	folder, archive = filepath.Join(f.t.TempDir(), "backup"), filepath.Join(f.t.TempDir(), "backup.tar.gz")
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for resource, all := range objects {
		for _, object := range all {
			content, err := object.MarshalJSON()
			f.must(err)
			name := fmt.Sprintf("resources/%s/namespaces/%s/%s.json", resource, object.GetNamespace(), object.GetName())
			f.must(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
			f.must(os.WriteFile(filepath.Join(folder, name), content, 0o600))
			f.must(files.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(content)), Mode: 0o600}))
			_, err = files.Write(content)
			f.must(err)
		}
	}
	f.must(files.Close())
	f.must(zipped.Close())
	f.must(os.WriteFile(archive, out.Bytes(), 0o600))
	return folder, archive
}

// check runs kubectl virtward restore-check. It returns the states of the objects, and what it wrote to standard error.
func (f *fixture) check(kubeconfig string, words ...string) (states map[string]string, errOut string, code int) {
	f.t.Helper()
	command := exec.CommandContext(f.t.Context(), f.Binary("kubectl-virtward"), append([]string{"restore-check", "-o", "json"}, words...)...)
	command.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + f.t.TempDir()}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		f.t.Fatal(err)
	}
	var report struct {
		Templates, Exceptions []struct{ Namespace, Name, State, By string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		f.t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	states = map[string]string{}
	for _, row := range slices.Concat(report.Templates, report.Exceptions) {
		states[row.Name] = row.State
	}
	return states, errs.String(), command.ProcessState.ExitCode()
}

// all returns the objects of a kind in a namespace.
func (f *fixture) all(version, kind, namespace string) (all []*unstructured.Unstructured) {
	f.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	f.must(f.Client().List(f.t.Context(), list, client.InNamespace(namespace)))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func (f *fixture) object(text string) *unstructured.Unstructured {
	f.t.Helper()
	object := &unstructured.Unstructured{}
	f.must(json.Unmarshal([]byte(text), &object.Object))
	return object
}

// TestRestoreCheck makes a backup of approved templates and of exceptions, deletes their namespace, and restores them as backup tools do.
// Virtward's webhooks and guards, and the garbage collector, run all the time.
func TestRestoreCheck(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{"imports": map[string]any{"enabled": true}})
	f.namespaces("images")
	f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Labels: map[string]string{v1beta1.ApprovedOnlyLabel: "true"}, Annotations: map[string]string{v1beta1.TrustedNamespacesAnnotation: "images"},
	}})
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "images", Name: "owner"}}
	f.ensure(owner)
	for _, name := range []string{"same", "changed", "forged", "lost", "owned", "edited", "bare", "again"} {
		f.template("images", name)
		if name != "bare" {
			f.approve(f.Config(), "images", name)
		}
	}
	i := importsOf(f)
	i.complete("images", "sourced", plain)
	if review := f.approve(f.Config(), "images", "sourced"); review.Approval.Source == nil {
		t.Errorf("no source: %+v", review)
	}
	template := func(name string) *unstructured.Unstructured {
		return f.object(`{"apiVersion":"template.kubevirt.io/v1beta1","kind":"VirtualMachineTemplate","metadata":{"namespace":"images","name":"` + name + `"}}`)
	}
	owned := fmt.Sprintf(`{"metadata":{"finalizers":["example.com/backup"],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q}]}}`, owner.UID)
	f.must(f.Client().Patch(t.Context(), template("owned"), client.RawPatch(types.MergePatchType, []byte(owned))))
	edit := []byte(`{"spec":{"message":"an edit after the approval"}}`)
	f.must(f.Client().Patch(t.Context(), template("edited"), client.RawPatch(types.MergePatchType, edit)))
	f.ensure(f.object(`{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicy","metadata":{"name":"cap"},"spec":{"enforcement":"Audit","validations":[{"expression":"true","message":"m"}]}}`))
	exception := func(name string) *unstructured.Unstructured {
		ends := time.Now().Add(48 * time.Hour).UTC().Format(time.RFC3339)
		return f.object(`{"apiVersion":"policy.virtward.io/v1alpha1","kind":"VirtualMachinePolicyException","metadata":{"namespace":"images","name":"` + name + `"},"spec":{"policies":["cap"],"virtualMachines":["vm"],"reason":"r","expires":"` + ends + `"}}`)
	}
	for _, name := range []string{"exempted", "exempted-then"} {
		await.Until(t, func() error { // the webhook learns of the policy, and an exception that is not ten seconds younger than its guard has no effect
			object := exception(name)
			err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)
			switch active := conditionOf(object, "Active"); {
			case apierrors.IsNotFound(err):
				return errors.Join(errors.New("it does not exist"), f.Client().Create(t.Context(), object))
			case err != nil || active == "True":
				return err
			case active == "False":
				return errors.Join(errors.New("it is not active"), f.Client().Delete(t.Context(), object))
			}
			return errors.New("it has no status")
		})
	}
	const templates, exceptions = "virtualmachinetemplates.template.kubevirt.io", "virtualmachinepolicyexceptions.policy.virtward.io"
	var saved map[string][]*unstructured.Unstructured
	await.Until(t, func() error { // the statuses say what counts
		saved = map[string][]*unstructured.Unstructured{
			templates: f.all("template.kubevirt.io/v1beta1", "VirtualMachineTemplate", "images"), exceptions: f.all("policy.virtward.io/v1alpha1", "VirtualMachinePolicyException", "images"),
		}
		for _, object := range slices.Concat(saved[templates], saved[exceptions]) {
			want := map[string]string{"bare": "", "edited": ""} // the API server updates the condition of an edited one in minutes
			expected, listed := want[object.GetName()]
			if !listed {
				expected = "True"
			}
			if got := conditionOf(object, "Approved", "Active"); got != expected && expected != "" {
				return fmt.Errorf("%s: the condition is %q, not %q", object.GetName(), got, expected)
			}
		}
		return nil
	})
	folder, archive := f.backUp(saved)

	f.must(f.Client().Patch(t.Context(), template("owned"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	images := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "images"}}
	f.must(f.Client().Delete(t.Context(), images))
	await.Until(t, func() error {
		if err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(images), images); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace exists: %w", err)
		}
		return nil
	})
	f.namespaces("images")
	for _, object := range slices.Concat(saved[templates], saved[exceptions]) {
		back := restored(object)
		switch object.GetName() {
		case "lost", "exempted-then":
			continue
		case "owned": // its finalizer holds it while the garbage collector deletes it, since the owner of this UID does not exist
		case "changed", "forged":
			f.must(unstructured.SetNestedField(back.Object, "another message", "spec", "message"))
		}
		f.must(f.Client().Create(t.Context(), back))
	}
	await.Until(t, func() error {
		object := template("owned")
		if err := f.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() == nil {
			return fmt.Errorf("the garbage collector has not deleted it: %w", err)
		}
		return nil
	})
	f.must(f.Client().Patch(t.Context(), template("owned"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	// Even an admin cannot write an approval, and its digest in an annotation counts for nothing.
	forged := template("forged")
	f.must(f.Client().Get(t.Context(), client.ObjectKeyFromObject(forged), forged))
	earlier := saved[templates][slices.IndexFunc(saved[templates], func(o *unstructured.Unstructured) bool { return o.GetName() == "forged" })]
	digest, _, _ := unstructured.NestedString(earlier.Object, "status", "approval", "digest")
	forged.SetAnnotations(map[string]string{"template.virtward.io/digest": digest})
	f.must(f.Client().Update(t.Context(), forged))
	forged.Object["status"] = earlier.Object["status"]
	if err := f.Client().Status().Update(t.Context(), forged); err == nil || !strings.Contains(err.Error(), "virtward-template-status") {
		t.Errorf("the approval of before was written: %v", err)
	}

	want := map[string]string{
		"same": "SameDigest", "again": "SameDigest", "sourced": "SameDigest", "changed": "Changed", "forged": "Changed", "lost": "Gone", "owned": "Gone", "edited": "Ended", "exempted": "Valid", "exempted-then": "Gone",
	}
	for _, from := range []string{folder, archive} {
		await.Until(t, func() error { // the controller writes the status of the exception
			states, said, code := f.check(f.Kubeconfig(), "--from", from)
			if diff := cmp.Diff(want, states); diff != "" || code != 0 {
				return fmt.Errorf("code %d, %s, (-want +got):\n%s", code, said, diff)
			}
			return nil
		})
	}
	if states, _, _ := f.check(f.Kubeconfig(), "--from", archive); states["same"] != "SameDigest" {
		t.Fatalf("a check without --approve approved something: %v", states)
	}
	stranger, err := f.WriteKubeconfig("stranger", f.user("stranger", nil, "images"))
	f.must(err)
	if states, said, code := f.check(stranger, "--from", archive, "--approve", "images/same"); code != 1 || states["same"] != "Unknown" || !strings.Contains(said, "images/same: it is Unknown, and only SameDigest can be approved again") {
		t.Errorf("a user without rights: code %d, %v\n%s", code, states, said)
	}

	states, said, code := f.check(f.Kubeconfig(), "--from", archive, "--approve", "images/same", "--approve", "images/sourced", "--approve", "images/changed", "--approve", "images/forged", "--approve", "images/bare")
	for _, name := range []string{"changed", "forged"} {
		if text := "images/" + name + ": it is Changed, and only SameDigest can be approved again"; !strings.Contains(said, text) {
			t.Errorf("it does not say %q, but:\n%s", text, said)
		}
	}
	want["same"], want["sourced"] = "Valid", "Valid"
	if diff := cmp.Diff(want, states); diff != "" || code != 1 || !strings.Contains(said, "images/bare: the backup has no approved template of this name") {
		t.Errorf("code %d, (-want +got):\n%s\n%s", code, diff, said)
	}
	if approval := f.read("images", "sourced").Status.Approval; approval == nil || approval.Source != nil {
		t.Errorf("the restored template has the approval %+v", approval)
	}
	for name, approved := range map[string]bool{"same": true, "sourced": true, "again": false, "changed": false, "forged": false, "edited": false, "bare": false} {
		options := named("from-" + name)
		options.TargetNamespace = "strict"
		_, err := f.post(f.Config(), "images", name, "create", options, "")
		if approved != (err == nil) || err != nil && !strings.Contains(err.Error(), "approved") {
			t.Errorf("%s: a virtual machine in an approved-only namespace: %v", name, err)
		}
	}
}

// conditionOf is the status of the first of these conditions that an object has.
func conditionOf(object *unstructured.Unstructured, types ...string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		if kind, _ := fields["type"].(string); slices.Contains(types, kind) {
			status, _ := fields["status"].(string)
			return status
		}
	}
	return ""
}
