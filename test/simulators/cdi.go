package simulators

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/conformance/imports"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators/uploads"
)

// Names of CDI's installation.
const (
	CDINamespace = "cdi"
	CDIAccount   = "cdi-sa"
	cdiService   = "cdi-api"
	cdiHook      = "cdi-api-datavolume-mutate"
)

// CDI simulates the containerized data importer: its admission of DataVolumes, which authorizes clones with CDI's own
// rules, and its controller, which makes empty PersistentVolumeClaims.
type CDI struct {
	scripted
	background

	controlPlane *controlplane.ControlPlane
	server       *http.Server
	account      client.Client
	port         int
	bundle       []byte
	// proxy receives uploads; nil before ServeUploads.
	proxy *uploads.Proxy
}

// StartCDI runs the simulation under CDI's service account, until Stop.
func StartCDI(ctx context.Context, c *controlplane.ControlPlane) (*CDI, error) {
	if err := ensureCDIAccount(ctx, c); err != nil {
		return nil, err
	}
	config, err := c.ServiceAccountConfig(ctx, CDINamespace, CDIAccount)
	if err != nil {
		return nil, err
	}
	s := &CDI{controlPlane: c}
	manager, err := s.manager(ctx, c, "cdi", config, &cdiv1beta1.DataVolumeList{})
	if err != nil {
		return nil, err
	}
	if s.account, err = client.New(config, client.Options{Scheme: manager.GetScheme()}); err != nil {
		return nil, err
	}
	err = ctrl.NewControllerManagedBy(manager).For(&cdiv1beta1.DataVolume{}).Complete(&dataVolumeReconciler{client: s.account, verdict: s.verdict, receives: s.receives})
	if err != nil {
		return nil, fmt.Errorf("simulating CDI: %w", err)
	}
	if err := s.serve(ctx); err != nil {
		return nil, err
	}
	s.run(ctx, manager)
	return s, nil
}

// Stop ends the simulation.
func (s *CDI) Stop(ctx context.Context) error {
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: cdiHook}}
	if proxy := s.uploads(); proxy != nil {
		proxy.CloseClientConnections()
		proxy.Close()
	}
	return errors.Join(client.IgnoreNotFound(s.controlPlane.Client().Delete(ctx, hook)), s.server.Close(), s.background.Stop())
}

// MarkCDIDeployed creates the resource of CDI's operator, with the status that it has once CDI runs. It has no status subresource.
func MarkCDIDeployed(ctx context.Context, writer client.Client) error {
	const version = "v1.65.0"
	resource := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{},
		"status": map[string]any{"phase": "Deployed", "operatorVersion": version, "targetVersion": version, "observedVersion": version},
	}}
	resource.SetGroupVersionKind(cdiv1beta1.SchemeGroupVersion.WithKind("CDI"))
	resource.SetName("cdi")
	if err := writer.Create(ctx, resource); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the resource of CDI: %w", err)
	}
	return nil
}

func ensureCDIAccount(ctx context.Context, c *controlplane.ControlPlane) error {
	if err := c.EnsureNamespace(ctx, CDINamespace); err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: CDINamespace, Name: CDIAccount}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: CDIAccount}, Rules: []rbacv1.PolicyRule{
			allow("cdi.kubevirt.io", []string{"*"}, "*"),
			allow("", []string{"persistentvolumeclaims", "persistentvolumeclaims/status"}, "*"),
			allow("", []string{"namespaces"}, "get"),
			allow("snapshot.storage.k8s.io", []string{"volumesnapshots"}, "get"),
			allow("authorization.k8s.io", []string{"subjectaccessreviews"}, "create"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: CDIAccount}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: CDIAccount},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: CDINamespace, Name: CDIAccount}},
		},
	}
	for _, object := range objects {
		if err := c.Client().Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("making CDI's account: %w", err)
		}
	}
	return nil
}

// serve registers the admission of DataVolumes, and answers it.
func (s *CDI) serve(ctx context.Context) error {
	certificate, bundle, err := s.controlPlane.ServingCertificate(cdiService + "." + CDINamespace + ".svc")
	if err != nil {
		return err
	}
	port, err := s.controlPlane.TakePort()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("simulating CDI: %w", err)
	}
	s.port, s.bundle = port, bundle
	mux := http.NewServeMux()
	mux.HandleFunc("POST /datavolume-mutate", s.review)
	s.uploadAPI(mux)
	s.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = s.server.ServeTLS(listener, "", "") }() // ends with Stop
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: CDINamespace, Name: cdiService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	hook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: cdiHook},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "datavolume-mutate.cdi.kubevirt.io", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: new(admissionregistrationv1.Fail),
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: onCreate, Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"cdi.kubevirt.io"}, APIVersions: []string{"v1beta1"}, Resources: []string{"datavolumes"},
			}}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: bundle, Service: &admissionregistrationv1.ServiceReference{
				Namespace: CDINamespace, Name: cdiService, Port: new(int32(port)), Path: new("/datavolume-mutate"), //nolint:gosec // a port
			}},
		}},
	}
	for _, object := range []client.Object{service, hook} {
		if err := s.controlPlane.Client().Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("registering CDI's admission: %w", err)
		}
	}
	return nil
}

// review answers the admission of a DataVolume.
func (s *CDI) review(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	review := admissionv1.AdmissionReview{}
	if err != nil || json.Unmarshal(body, &review) != nil || review.Request == nil {
		http.Error(w, "not an AdmissionReview with a request", http.StatusBadRequest)
		return
	}
	response := s.authorize(r.Context(), review.Request)
	response.UID = review.Request.UID
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the API server has gone away; it reports that itself
}

func (s *CDI) authorize(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	volume := &cdiv1beta1.DataVolume{}
	if err := json.Unmarshal(request.Object.Raw, volume); err != nil {
		return reject(err.Error())
	}
	answer, err := volume.AuthorizeUser(request.Namespace, request.Name, proxy{ctx, s.account}, request.UserInfo)
	switch {
	case errors.Is(err, cdiv1beta1.ErrNoTokenOkay):
		return admit(request)
	case err != nil:
		return reject(err.Error())
	case !answer.Allowed:
		return reject(answer.Reason)
	}
	return admit(request)
}

// proxy reads the cluster for CDI's rules.
type proxy struct {
	ctx     context.Context //nolint:containedctx // the interface has none
	account client.Client
}

// CreateSar implements cdiv1beta1.AuthorizationHelperProxy.
func (p proxy) CreateSar(review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	err := p.account.Create(p.ctx, review)
	return review, err
}

// GetNamespace implements cdiv1beta1.AuthorizationHelperProxy.
func (p proxy) GetNamespace(name string) (*corev1.Namespace, error) {
	namespace := &corev1.Namespace{}
	err := p.account.Get(p.ctx, client.ObjectKey{Name: name}, namespace)
	return namespace, err
}

// GetDataSource implements cdiv1beta1.AuthorizationHelperProxy.
func (p proxy) GetDataSource(namespace, name string) (*cdiv1beta1.DataSource, error) {
	source := &cdiv1beta1.DataSource{}
	err := p.account.Get(p.ctx, client.ObjectKey{Namespace: namespace, Name: name}, source)
	return source, err
}

type dataVolumeReconciler struct {
	client  client.Client
	verdict func(client.Object) Verdict
	// receives reports whether a volume waits for its upload.
	receives func(*cdiv1beta1.DataVolume, *corev1.PersistentVolumeClaim) bool
}

// Reconcile fills one DataVolume.
func (r *dataVolumeReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	volume := &cdiv1beta1.DataVolume{}
	if err := r.client.Get(ctx, request.NamespacedName, volume); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if volume.Labels[imports.CronLabel] != "" { // the Importer simulates it
		return ctrl.Result{}, nil
	}
	if volume.DeletionTimestamp != nil || volume.Status.Phase == cdiv1beta1.Succeeded || volume.Status.Phase == cdiv1beta1.Failed {
		return ctrl.Result{}, nil
	}
	base := volume.DeepCopy()
	claim, failure := r.claim(ctx, volume)
	verdict := r.verdict(volume)
	source, err := r.isSourceReady(ctx, volume)
	again := ctrl.Result{RequeueAfter: poll}
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case failure != nil:
		volume.Status.Phase = cdiv1beta1.Pending
		reason := "ErrExceededQuota"
		if errors.Is(failure, errClaimOfOthers) {
			reason = "ErrResourceExists"
		}
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeBound, corev1.ConditionFalse, reason, failure.Error())
	case verdict.Failure != "":
		volume.Status.Phase, again = cdiv1beta1.Failed, ctrl.Result{}
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Error", verdict.Failure)
	case verdict.Wait, !source:
		volume.Status.Phase = cdiv1beta1.CloneInProgress
		if volume.Spec.Source != nil && volume.Spec.Source.HTTP != nil {
			volume.Status.Phase, volume.Status.Progress = cdiv1beta1.ImportInProgress, "42.00%"
		}
		if volume.Spec.Source != nil && volume.Spec.Source.Upload != nil {
			volume.Status.Phase, volume.Status.Progress = cdiv1beta1.UploadScheduled, "N/A"
		}
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeBound, corev1.ConditionTrue, "Bound", "")
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Running", "")
	case r.receives(volume, claim):
		volume.Status.Phase, volume.Status.Progress = cdiv1beta1.UploadReady, "N/A"
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeBound, corev1.ConditionTrue, "Bound", "")
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeRunning, corev1.ConditionTrue, "Running", "")
	default:
		if claim.Status.Phase != corev1.ClaimBound {
			claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
			if err := r.client.Status().Update(ctx, claim); err != nil {
				return ctrl.Result{}, err
			}
		}
		volume.Status.Phase, volume.Status.Progress, again = cdiv1beta1.Succeeded, "100.0%", ctrl.Result{}
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeBound, corev1.ConditionTrue, "Bound", "")
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeRunning, corev1.ConditionFalse, "Completed", "")
		setDataVolumeCondition(volume, cdiv1beta1.DataVolumeReady, corev1.ConditionTrue, "", "")
	}
	return again, client.IgnoreNotFound(r.client.Status().Patch(ctx, volume, client.MergeFrom(base)))
}

// errClaimOfOthers makes a DataVolume wait, as in CDI: until the claim of an earlier DataVolume of its name is collected.
var errClaimOfOthers = errors.New("the PersistentVolumeClaim exists and is not owned by the DataVolume")

// claim makes the PersistentVolumeClaim, which belongs to the DataVolume.
func (r *dataVolumeReconciler) claim(ctx context.Context, volume *cdiv1beta1.DataVolume) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: volume.Namespace, Name: volume.Name, Annotations: map[string]string{"cdi.kubevirt.io/createdForDataVolume": string(volume.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(volume, cdiv1beta1.SchemeGroupVersion.WithKind("DataVolume"))},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if s := volume.Spec.Storage; s != nil {
		claim.Spec.StorageClassName, claim.Spec.VolumeMode = s.StorageClassName, s.VolumeMode
		if len(s.AccessModes) > 0 {
			claim.Spec.AccessModes = s.AccessModes
		}
		if size, found := s.Resources.Requests[corev1.ResourceStorage]; found {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = size
		}
	}
	err := r.client.Create(ctx, claim)
	if apierrors.IsAlreadyExists(err) {
		err = r.client.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		if err == nil && !metav1.IsControlledBy(claim, volume) {
			err = errClaimOfOthers
		}
	}
	return claim, err
}

// isSourceReady reports whether the snapshot or the claim to clone exists. Other sources are always ready.
func (r *dataVolumeReconciler) isSourceReady(ctx context.Context, volume *cdiv1beta1.DataVolume) (bool, error) {
	var object client.Object
	var key client.ObjectKey
	switch s := volume.Spec.Source; {
	case s == nil:
		return true, nil
	case s.Snapshot != nil:
		snapshot := &unstructured.Unstructured{}
		snapshot.SetGroupVersionKind(VolumeSnapshotKind)
		object, key = snapshot, client.ObjectKey{Namespace: s.Snapshot.Namespace, Name: s.Snapshot.Name}
	case s.PVC != nil:
		object, key = &corev1.PersistentVolumeClaim{}, client.ObjectKey{Namespace: s.PVC.Namespace, Name: s.PVC.Name}
	default:
		return true, nil
	}
	err := r.client.Get(ctx, key, object)
	return err == nil, client.IgnoreNotFound(err)
}

func setDataVolumeCondition(volume *cdiv1beta1.DataVolume, kind cdiv1beta1.DataVolumeConditionType, status corev1.ConditionStatus, reason, message string) {
	for i := range volume.Status.Conditions {
		if c := &volume.Status.Conditions[i]; c.Type == kind {
			if c.Status != status || c.Reason != reason || c.Message != message {
				*c = cdiv1beta1.DataVolumeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}
			}
			return
		}
	}
	volume.Status.Conditions = append(volume.Status.Conditions, cdiv1beta1.DataVolumeCondition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	})
}
