package imports

import (
	"strings"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/ovf/servers"
)

// Servers are the pods that serve the disks of imports.
var Servers = servers.Kind{
	Prefix: "virtward-import-", Label: v1beta1.LabelImportUID, Annotation: "template.virtward.io/import-server", Folder: "/import/serving",
}

// readerMark is at the beginning of the suffix of a pod that serves the archive of a claim and no disks. Others are hexadecimal.
const readerMark = "r"

// ReaderSuffix is the suffix of a pod that serves the archive of a claim and no disks: the disks are known when it was read.
func ReaderSuffix(suffix string) string { return readerMark + suffix }

// IsReader reports whether a pod serves no disks.
func IsReader(suffix string) bool { return strings.HasPrefix(suffix, readerMark) }

// TemplateName is the name of the template of an import.
func TemplateName(of *v1beta1.VirtualMachineTemplateImport) string {
	if of.Spec.TemplateName != "" {
		return of.Spec.TemplateName
	}
	return of.Name
}
