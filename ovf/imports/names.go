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

// stagerMark is at the beginning of the suffix of a pod that copies a file into a volume.
const stagerMark = "s"

// StagerSuffix is the suffix of a pod that copies a file into a volume, and ends.
func StagerSuffix(suffix string) string { return stagerMark + suffix }

// IsStager reports whether a pod copies a file into a volume.
func IsStager(suffix string) bool { return strings.HasPrefix(suffix, stagerMark) }

// CopyName is the name of the DataVolume and the claim of an import with the copy of its file: that of its pods, the only ones that may
// write it.
func CopyName(of *v1beta1.VirtualMachineTemplateImport) string { return Servers.PodName(of.UID) }

// TemplateName is the name of the template of an import.
func TemplateName(of *v1beta1.VirtualMachineTemplateImport) string {
	if of.Spec.TemplateName != "" {
		return of.Spec.TemplateName
	}
	return of.Name
}
