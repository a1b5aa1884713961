package webhooks

import (
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// templateRequest validates what the schema of a VirtualMachineTemplateRequest cannot. The spec cannot change after the
// creation.
func (e *examination) templateRequest() error {
	if object, ok := decoded[v1beta1.VirtualMachineTemplateRequest](e); ok && !e.updates() {
		e.findings = append(e.findings, templates.CheckRequest(&object.Spec)...)
	}
	return nil
}
