package imports

import (
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/servers"
)

// Servers are the pods that serve the disks of imports.
var Servers = servers.Kind{
	Prefix: "virtward-import-", Label: v1beta1.LabelImportUID, Annotation: "template.virtward.io/import-server", Folder: "/import/serving",
}

// TemplateName is the name of the template of an import.
func TemplateName(of *v1beta1.VirtualMachineTemplateImport) string {
	if of.Spec.TemplateName != "" {
		return of.Spec.TemplateName
	}
	return of.Name
}
