package template

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/cli/options"
)

// api calls the subresources of templates.
type api struct {
	client    rest.Interface
	namespace string
}

// newAPI returns a client of the cluster that the flags select. Its warnings go to w.
func newAPI(flags *genericclioptions.ConfigFlags, namespace string, w io.Writer) (*api, error) {
	config, err := options.RESTConfig(flags)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NewWarningWriter(w, rest.WarningWriterOptions{})
	config.GroupVersion = &schema.GroupVersion{Group: subresources.Group, Version: subresources.V1Beta1.Version}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &api{client: client, namespace: namespace}, nil
}

// Approver reviews and approves templates of any namespace, with the rights of the user.
type Approver struct{ client rest.Interface }

// NewApprover returns an Approver for the cluster that the flags select. Its warnings go to w.
func NewApprover(flags *genericclioptions.ConfigFlags, w io.Writer) (*Approver, error) {
	a, err := newAPI(flags, "", w)
	if err != nil {
		return nil, err
	}
	return &Approver{client: a.client}, nil
}

// Review returns what Virtward's API server says of a template, and changes nothing.
func (a *Approver) Review(ctx context.Context, namespace, name string) (*subresources.TemplateReview, error) {
	review := &subresources.TemplateReview{}
	return review, (&api{a.client, namespace}).post(ctx, name, subresources.Approve, true, &subresources.ApproveOptions{}, review)
}

// Approve approves the template that has the digest of the options.
func (a *Approver) Approve(ctx context.Context, namespace, name string, body *subresources.ApproveOptions) error {
	return (&api{a.client, namespace}).post(ctx, name, subresources.Approve, false, body, &subresources.TemplateReview{})
}

// post sends a body to a subresource of a template, and reads the answer.
func (a *api) post(ctx context.Context, name, subresource string, dryRun bool, body, answer any) error {
	written, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request := a.client.Post().Namespace(a.namespace).Resource(subresources.Resource).Name(name).SubResource(subresource).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(written)
	if dryRun {
		request = request.Param("dryRun", "All")
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // with the text of the API server, which Raw does not read
		return fmt.Errorf("%s: %w", subresource, err)
	}
	read, err := result.Raw()
	if err != nil {
		return fmt.Errorf("%s: %w", subresource, err)
	}
	if err := json.Unmarshal(read, answer); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}
