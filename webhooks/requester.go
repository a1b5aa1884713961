package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/processes"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/evaluator"
)

// TemplateServer is the name of the service account of the API of templates.
const TemplateServer = processes.APIServer

// RolloutController is the name of the service account of the controller of rollouts.
const RolloutController = processes.Rollouts

// provenanceAnnotations are the annotations of a virtual machine that is created from a template.
var provenanceAnnotations = []string{subresources.TemplateAnnotation, subresources.DigestAnnotation, subresources.RequesterAnnotation}

// annotationOf returns an annotation of an object in JSON. It does not decode the object.
func annotationOf(object []byte, key string) (value string, found bool) {
	annotations := member(member(gjson.ParseBytes(object), "metadata"), "annotations")
	if !annotations.IsObject() {
		return "", false
	}
	annotation := member(annotations, key)
	return annotation.Str, annotation.Exists()
}

// member returns a member of an object. The result does not exist if there is none.
func member(object gjson.Result, name string) (found gjson.Result) {
	if !object.IsObject() {
		return found
	}
	object.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			found = value
			return false
		}
		return true
	})
	return found
}

func hasAnnotations(object []byte) bool {
	return member(member(gjson.ParseBytes(object), "metadata"), "annotations").IsObject()
}

// requester returns the user who requested a virtual machine from the API of templates, whose account creates it. Of the
// user's groups, only those are known that follow from the name. Other users cannot set the annotation: a guard denies it.
func (e *examination) requester() (authenticationv1.UserInfo, bool) {
	r := e.request
	if e.ofRollout != nil {
		return *e.ofRollout, true
	}
	if e.TemplateServer == "" || r.UserInfo.Username != e.TemplateServer || r.Operation != admissionv1.Create || groupKind(r) != evaluator.VirtualMachine {
		return authenticationv1.UserInfo{}, false
	}
	name, found := annotationOf(r.Object.Raw, subresources.RequesterAnnotation)
	if !found || name == "" {
		return authenticationv1.UserInfo{}, false
	}
	requester := authenticationv1.UserInfo{Username: name, Groups: []string{user.AllAuthenticated}}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		requester.Groups = append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated)
	}
	return requester, true
}

// findRollout finds the user for whom the controller of rollouts changes a virtual machine. The mark that this request writes
// names the rollout, whose requester a guard protects. A mark that the request does not write is not read: the owner of a
// virtual machine can change it. The error means that the rollout cannot be read.
func (e *examination) findRollout() error {
	r := e.request
	if e.RolloutController == "" || r.UserInfo.Username != e.RolloutController || r.Operation != admissionv1.Update || groupKind(r) != evaluator.VirtualMachine || r.SubResource != "" {
		return nil
	}
	text, found := annotationOf(r.Object.Raw, v1alpha1.AnnotationRollout)
	if before, _ := annotationOf(r.OldObject.Raw, v1alpha1.AnnotationRollout); !found || text == before {
		return nil
	}
	mark, err := v1alpha1.MarkOf(map[string]string{v1alpha1.AnnotationRollout: text})
	if err != nil {
		return nil //nolint:nilerr // the controller writes no such mark: its account is the requester
	}
	object, err := e.Evaluator.References.Get(e.ctx, apikinds.Rollouts.GroupVersionKind, r.Namespace, mark.Rollout)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the VirtualMachineRollout %s/%s: %w", r.Namespace, mark.Rollout, err)
	case object.GetUID() != mark.UID:
		return nil
	}
	user, err := v1alpha1.RequesterOf(&v1alpha1.VirtualMachineRollout{ObjectMeta: metav1.ObjectMeta{Annotations: object.GetAnnotations()}})
	if err != nil {
		return fmt.Errorf("reading the VirtualMachineRollout %s/%s: %w", r.Namespace, mark.Rollout, err)
	}
	e.ofRollout = &user
	return nil
}

// withoutProvenance adds operations to a patch that remove the annotations of a template from a virtual machine that
// KubeVirt creates. It is a copy of another one, and the author of the copy can have changed it.
func (m *Mutator) withoutProvenance(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse) {
	facts := m.Evaluator.Facts.Facts()
	if facts == nil || groupKind(request) != evaluator.VirtualMachine || !facts.ByKubeVirt(request.UserInfo.Username) {
		return
	}
	var operations []string
	for _, key := range provenanceAnnotations {
		if _, found := annotationOf(request.Object.Raw, key); !found {
			continue
		}
		operation, err := json.Marshal(map[string]string{"op": "remove", "path": "/metadata/annotations/" + escape.Replace(key)})
		if err != nil { // strings can be encoded
			return
		}
		operations = append(operations, string(operation))
	}
	if len(operations) == 0 {
		return
	}
	if others := strings.TrimSuffix(strings.TrimPrefix(string(response.Patch), "["), "]"); others != "" {
		operations = append([]string{others}, operations...)
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = []byte("["+strings.Join(operations, ",")+"]"), &kind
}
