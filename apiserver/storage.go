package apiserver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// parent is the resource of the subresources, which is not served.
type parent struct{}

var (
	_ rest.Storage              = parent{}
	_ rest.Scoper               = parent{}
	_ rest.SingularNameProvider = parent{}
)

func (parent) New() runtime.Object     { return &subresources.Templates{} }
func (parent) Destroy()                {}
func (parent) NamespaceScoped() bool   { return true }
func (parent) GetSingularName() string { return "virtualmachinetemplate" }

// storage is what the storages of all subresources share.
type storage struct {
	*Services
	version schema.GroupVersion
}

// Destroy does nothing: there is nothing to release.
func (*storage) Destroy() {}

// producing names the kind of a storage's answers in OpenAPI. Without it, that of the body is named.
type producing struct{ object any }

var _ rest.StorageMetadata = producing{}

// ProducesMIMETypes implements rest.StorageMetadata: those of the server.
func (producing) ProducesMIMETypes(string) []string { return nil }

// ProducesObject implements rest.StorageMetadata.
func (p producing) ProducesObject(string) any { return p.object }

// begin runs admission, and reads the template with memory to render it. Nothing is read for a request that admission
// denies. Call end when the answer is made.
func (s *storage) begin(ctx context.Context, name string, object runtime.Object, given map[string]string, validate rest.ValidateObjectFunc) (template *v1beta1.VirtualMachineTemplate, end func(), err error) {
	if validate != nil {
		if err := validate(ctx, object.DeepCopyObject()); err != nil {
			return nil, nil, err
		}
	}
	template, release, err := s.memory.template(ctx, func() (*v1beta1.VirtualMachineTemplate, error) {
		return s.Cluster.Template(ctx, request.NamespaceValue(ctx), name)
	}, given)
	if err != nil {
		return nil, nil, asReadAnswer(err, "read the template")
	}
	return template, func() { hold(ctx, release) }, nil
}

// reference names a template in an answer.
func reference(template *v1beta1.VirtualMachineTemplate) *subresources.TemplateReference {
	return &subresources.TemplateReference{Namespace: template.Namespace, Name: template.Name}
}

// processing is the storage of process, and of create where creates is set.
type processing struct {
	storage
	producing

	creates bool
}

var _ rest.NamedCreater = (*processing)(nil)

// New is what a request's body is decoded into.
func (p *processing) New() runtime.Object { return &subresources.ProcessOptions{} }

// Create renders the named template, and creates the VirtualMachine if this is the subresource create. Admission runs
// before anything is read. Nothing is created in a dry run.
func (p *processing) Create(ctx context.Context, name string, object runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	given, ok := object.(*subresources.ProcessOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body must be a ProcessOptions, not a %T", object))
	}
	template, end, err := p.begin(ctx, name, object, given.Parameters, validate)
	if err != nil {
		return nil, err
	}
	defer end()
	if len(options.DryRun) == 0 {
		p.refresh(ctx, template)
	}
	answer := &subresources.ProcessedVirtualMachineTemplate{TemplateRef: reference(template)}
	if p.creates {
		err = p.create(ctx, template, given, options, answer)
	} else {
		err = p.process(ctx, template, given, answer)
	}
	if err != nil {
		return nil, err
	}
	answer.SetGroupVersionKind(p.version.WithKind("ProcessedVirtualMachineTemplate"))
	return answer, nil
}

// process renders a template into the answer.
func (p *processing) process(ctx context.Context, template *v1beta1.VirtualMachineTemplate, given *subresources.ProcessOptions, answer *subresources.ProcessedVirtualMachineTemplate) error {
	rendered, err := p.render(ctx, template, given)
	if err != nil {
		return err
	}
	if given.TargetNamespace != "" {
		rendered.VirtualMachine.Namespace = given.TargetNamespace
	}
	answer.VirtualMachine, answer.Message = rendered.VirtualMachine, rendered.Message
	return nil
}

// render renders a template with the given values, and sends its warnings.
func (p *processing) render(ctx context.Context, template *v1beta1.VirtualMachineTemplate, given *subresources.ProcessOptions) (*templates.Rendered, error) {
	var rendered *templates.Rendered
	var findings []validators.Finding
	if err := p.memory.compute(ctx, func() error {
		rendered, findings = templates.Render(&template.Spec, given.Parameters, templates.Options{Random: p.Random})
		return nil
	}); err != nil {
		return nil, err
	}
	warn(ctx, findings)
	if rendered == nil {
		return nil, invalid(template.Name, findings)
	}
	return rendered, nil
}
