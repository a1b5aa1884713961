package imports

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// Prefix is that of the names of pods and of their objects. A guard denies to execute commands in pods with this prefix.
const Prefix = "virtward-import-"

// hashLength is that of the hash at the end of a name: 40 bits.
const hashLength = 10

// TemplateName is the name of the template of an import.
func TemplateName(of *v1beta1.VirtualMachineTemplateImport) string {
	if of.Spec.TemplateName != "" {
		return of.Spec.TemplateName
	}
	return of.Name
}

// PodName is the name of the pod that serves the disks of an import. It depends on the UID, so that another import with the same name
// has another pod.
func PodName(of *v1beta1.VirtualMachineTemplateImport) string {
	sum := sha256.Sum256([]byte(of.UID))
	return Prefix + hex.EncodeToString(sum[:])[:hashLength]
}

// AnnotationServer of a pod is the end of the names of its objects. It is random: a pod that replaces another one has other objects.
const AnnotationServer = "template.virtward.io/import-server"

// ServerName is the name of the objects of a pod: its Secret, its ConfigMap, its Service and its NetworkPolicy.
func ServerName(suffix string) string { return Prefix + suffix }

// TokenName is the name of the Secret with the token of a pod, which CDI sends.
func TokenName(suffix string) string { return Prefix + suffix + "-token" }

// Host is the name by which CDI reaches a pod.
func Host(namespace, suffix string) string { return ServerName(suffix) + "." + namespace + ".svc" }
