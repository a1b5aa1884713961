package guards

import (
	"encoding/json"
	"fmt"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/test/crds"
)

const kubeVirtDefinition = "kubevirts.kubevirt.io"

// schema is a definition of the KubeVirt resource, and how to see that the API server serves it: of the
// configuration written, this much is kept.
type schema struct {
	name   admissionpolicies.Schema
	base   func() (*apiextensionsv1.CustomResourceDefinition, error)
	change func(configuration map[string]apiextensionsv1.JSONSchemaProps)
	write  string
	kept   string
}

// schemas are in an order in which each differs from the one before in what it keeps.
func schemas() []schema {
	const both = `{"hypervisors":[{"name":"kvm"}],"hypervisor":[{"name":"kvm"}]}`
	return []schema{
		{
			name: admissionpolicies.SchemaKubeVirt, base: kubeVirtsOwn,
			write: both, kept: `{"hypervisors":[{"name":"kvm"}]}`,
		},
		{
			name: admissionpolicies.SchemaVEP97, base: withVEP97,
			write: both, kept: both,
		},
		{
			name: admissionpolicies.SchemaOpen, base: withVEP97,
			change: func(configuration map[string]apiextensionsv1.JSONSchemaProps) {
				configuration["hypervisors"] = configuration["hypervisor"]
			},
			write: `{"hypervisors":[{"name":"kvm"},{"name":"mshv"}]}`, kept: `{"hypervisors":[{"name":"kvm"},{"name":"mshv"}]}`,
		},
		{
			name: admissionpolicies.SchemaOld, base: kubeVirtsOwn,
			change: func(configuration map[string]apiextensionsv1.JSONSchemaProps) {
				delete(configuration, "hypervisors")
			},
			write: both, kept: `{}`,
		},
	}
}

func kubeVirtsOwn() (*apiextensionsv1.CustomResourceDefinition, error) {
	definitions, err := crds.All()
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		if definition.Name == kubeVirtDefinition {
			return definition, nil
		}
	}
	return nil, fmt.Errorf("no definition %s", kubeVirtDefinition)
}

func withVEP97() (*apiextensionsv1.CustomResourceDefinition, error) {
	return crds.Variant(crds.SeedHypervisor)
}

// definition is the changed definition, every version of it.
func (s schema) definition() (*apiextensionsv1.CustomResourceDefinition, error) {
	definition, err := s.base()
	if err != nil || s.change == nil {
		return definition, err
	}
	for i := range definition.Spec.Versions {
		spec := definition.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
		s.change(spec.Properties["configuration"].Properties)
	}
	return definition, nil
}

// define makes the API server serve a schema, and returns when it does.
func (c *cluster) define(s schema) {
	c.t.Helper()
	definition, err := s.definition()
	c.must("reading the definition", err)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	c.must("converting the definition", err)
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion("apiextensions.k8s.io/v1")
	object.SetKind("CustomResourceDefinition")

	current := object.DeepCopy()
	err = c.client.Get(c.ctx, client.ObjectKeyFromObject(object), current)
	if err == nil {
		object.SetResourceVersion(current.GetResourceVersion())
		c.must("updating the definition", c.client.Update(c.ctx, object))
	} else {
		c.must("reading the definition", client.IgnoreNotFound(err))
		c.must("creating the definition", c.client.Create(c.ctx, object))
	}
	c.await("the definition to be served", func() bool { return c.keeps(s.write, s.kept) })
}

// keeps reports whether of one configuration exactly the other is kept.
func (c *cluster) keeps(written, kept string) bool {
	var write, want map[string]any
	c.must("reading the probe", json.Unmarshal([]byte(written), &write))
	c.must("reading the probe", json.Unmarshal([]byte(kept), &want))
	object := kubeVirt("probe", admissionpolicies.Case{}, admissionpolicies.Object{Spec: map[string]any{"configuration": write}})
	if err := c.client.Create(c.ctx, object, client.DryRunAll); err != nil {
		return false // not served yet, or rejected by the definition before
	}
	got, _, err := unstructured.NestedMap(object.Object, "spec", "configuration")
	c.must("reading what was kept", err)
	for name := range got {
		if name != "hypervisors" && name != "hypervisor" {
			delete(got, name)
		}
	}
	return cmp.Equal(want, got)
}
