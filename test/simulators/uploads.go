package simulators

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	uploadv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/upload/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/simulators/uploads"
)

// The aggregated API of CDI's tokens.
const (
	uploadGroup   = "upload.cdi.kubevirt.io"
	uploadVersion = "v1beta1"
)

// ServeUploads simulates CDI's upload proxy, and the aggregated API that issues its tokens. CDI's configuration has the URL and the
// certificate of the proxy. It ends with Stop.
func (s *CDI) ServeUploads(ctx context.Context) (*uploads.Proxy, error) {
	proxy := uploads.New()
	s.mu.Lock()
	s.proxy = proxy
	s.mu.Unlock()
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	service.SetName(uploadVersion + "." + uploadGroup)
	service.Object["spec"] = map[string]any{
		"group": uploadGroup, "version": uploadVersion, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
		"caBundle": base64.StdEncoding.EncodeToString(s.bundle),
		"service":  map[string]any{"namespace": CDINamespace, "name": cdiService, "port": int64(s.port)},
	}
	config := &cdiv1beta1.CDIConfig{ObjectMeta: metav1.ObjectMeta{Name: "config"}}
	for _, object := range []client.Object{service, config} {
		if err := s.controlPlane.Client().Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return nil, fmt.Errorf("simulating CDI's uploads: %w", err)
		}
	}
	authority := string(proxy.Authority())
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"uploadProxyURL": proxy.URL, "uploadProxyCA": authority}})
	if err != nil {
		return nil, err
	}
	if err := s.controlPlane.Client().Patch(ctx, config, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return nil, fmt.Errorf("simulating CDI's configuration: %w", err)
	}
	return proxy, nil
}

// uploadAPI is the aggregated API. The API server has authorized its requests.
func (s *CDI) uploadAPI(mux *http.ServeMux) {
	const path = "/apis/" + uploadGroup + "/" + uploadVersion
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: uploadGroup + "/" + uploadVersion,
			APIResources: []metav1.APIResource{{Name: "uploadtokenrequests", Kind: "UploadTokenRequest", Namespaced: true, Verbs: metav1.Verbs{"create"}}},
		})
	})
	mux.HandleFunc("POST "+path+"/namespaces/{namespace}/uploadtokenrequests", func(w http.ResponseWriter, r *http.Request) {
		request := &uploadv1beta1.UploadTokenRequest{}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReview)).Decode(request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key := client.ObjectKey{Namespace: r.PathValue("namespace"), Name: request.Spec.PvcName}
		claim := &corev1.PersistentVolumeClaim{}
		if err := s.account.Get(r.Context(), key, claim); err != nil || s.uploads() == nil {
			answerJSON(w, http.StatusBadRequest, metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonBadRequest, Code: http.StatusBadRequest,
				Message: "there is no claim " + key.String(),
			})
			return
		}
		request.Status.Token = s.uploads().Token(key.String())
		answerJSON(w, http.StatusCreated, request)
	})
}

func answerJSON(w http.ResponseWriter, status int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object) // the API server has gone away; it reports that itself
}

// uploads is the proxy; nil without one.
func (s *CDI) uploads() *uploads.Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proxy
}

// receives reports whether a volume still waits for its file. It starts the upload server of the volume.
func (s *CDI) receives(volume *cdiv1beta1.DataVolume, claim *corev1.PersistentVolumeClaim) bool {
	if volume.Spec.Source == nil || volume.Spec.Source.Upload == nil {
		return false
	}
	proxy := s.uploads()
	if proxy == nil {
		return true
	}
	name, size := client.ObjectKeyFromObject(volume).String(), claim.Spec.Resources.Requests[corev1.ResourceStorage]
	proxy.Ready(name, size.Value())
	return proxy.Received(name) == nil
}
