package apiserver

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/texts"
)

// maxClones bounds the volumes of a VirtualMachine whose clone is authorized: each costs some requests.
const maxClones = 100

// defaultAccount is the service account of a VirtualMachine without a volume of another.
const defaultAccount = "default"

// authorizeClones requires that the service account of the VirtualMachine may clone the sources of its volumes. CDI checks
// that when the volumes are created: without the permission, the VirtualMachine would wait for its volumes. A denial
// names the template.
func (p *processing) authorizeClones(ctx context.Context, templateName string, vm *kubevirtv1.VirtualMachine) error {
	if len(vm.Spec.DataVolumeTemplates) == 0 {
		return nil
	}
	if len(vm.Spec.DataVolumeTemplates) > maxClones {
		return apierrors.NewBadRequest(fmt.Sprintf("the VirtualMachine has %d dataVolumeTemplates, and at most %d are allowed", len(vm.Spec.DataVolumeTemplates), maxClones))
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	account := serviceAccountOf(vm)
	proxy := &cloneProxy{ctx: ctx, services: p.Services}
	for i := range vm.Spec.DataVolumeTemplates {
		template := &vm.Spec.DataVolumeTemplates[i]
		volume := &cdiv1beta1.DataVolume{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		volume.Namespace = vm.Namespace
		answer, err := volume.AuthorizeSA(vm.Namespace, volume.Name, proxy, vm.Namespace, account)
		switch {
		case errors.Is(err, cdiv1beta1.ErrNoTokenOkay): // it is not a clone, or it has its content already
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			warning.AddWarning(ctx, "", texts.Shorten(fmt.Sprintf("the source of volume %s does not exist: %v", volume.Name, err), maxWarning))
		case err != nil:
			return asReadAnswer(err, "check the permission to clone volume "+texts.Shorten(volume.Name, maxText))
		case !answer.Allowed:
			source := answer.Handler
			return forbidden(templateName, texts.Shorten(fmt.Sprintf(
				"service account %s of namespace %s cannot clone %s %s of namespace %s for volume %s; create a RoleBinding in namespace %s that allows it to create resource %q in API group %q",
				account, vm.Namespace, source.TokenResource.Resource, source.SourceName, source.SourceNamespace, volume.Name,
				source.SourceNamespace, "datavolumes/"+cdiv1beta1.DataVolumeCloneSourceSubresource, cdiv1beta1.SchemeGroupVersion.Group), maxWarning))
		}
	}
	return nil
}

// serviceAccountOf is the service account for which virt-controller creates the volumes of a VirtualMachine.
func serviceAccountOf(vm *kubevirtv1.VirtualMachine) string {
	account := defaultAccount
	if vm.Spec.Template == nil {
		return account
	}
	for i := range vm.Spec.Template.Spec.Volumes {
		if source := vm.Spec.Template.Spec.Volumes[i].ServiceAccount; source != nil {
			account = source.ServiceAccountName
		}
	}
	return account
}

// cloneProxy answers what CDI's authorization needs to know. A source is read once for all volumes of a request.
type cloneProxy struct {
	ctx         context.Context //nolint:containedctx // CDI's interface has no context
	services    *Services
	namespaces  map[string]*corev1.Namespace
	dataSources map[string]*cdiv1beta1.DataSource
}

var _ cdiv1beta1.AuthorizationHelperProxy = (*cloneProxy)(nil)

// CreateSar implements cdiv1beta1.AuthorizationHelperProxy with the authorizer of the server, which caches decisions.
func (c *cloneProxy) CreateSar(review *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	resource := review.Spec.ResourceAttributes
	decision, reason, err := c.services.Authorizer.Authorize(c.ctx, authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: review.Spec.User, Groups: review.Spec.Groups}, Verb: resource.Verb, Namespace: resource.Namespace,
		APIGroup: resource.Group, Resource: resource.Resource, Subresource: resource.Subresource, Name: resource.Name, ResourceRequest: true,
	})
	if decision != authorizer.DecisionAllow && err != nil {
		return nil, err
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authorizer.DecisionAllow, Reason: reason}
	return review, nil
}

// GetNamespace implements cdiv1beta1.AuthorizationHelperProxy.
func (c *cloneProxy) GetNamespace(name string) (*corev1.Namespace, error) {
	if known := c.namespaces[name]; known != nil {
		return known, nil
	}
	namespace, err := c.services.Cluster.Namespace(c.ctx, name)
	if err != nil {
		return nil, err
	}
	if c.namespaces == nil {
		c.namespaces = map[string]*corev1.Namespace{}
	}
	c.namespaces[name] = namespace
	return namespace, nil
}

// GetDataSource implements cdiv1beta1.AuthorizationHelperProxy.
func (c *cloneProxy) GetDataSource(namespace, name string) (*cdiv1beta1.DataSource, error) {
	key := namespace + "/" + name
	if known := c.dataSources[key]; known != nil {
		return known, nil
	}
	source, err := c.services.Cluster.DataSource(c.ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if c.dataSources == nil {
		c.dataSources = map[string]*cdiv1beta1.DataSource{}
	}
	c.dataSources[key] = source
	return source, nil
}
