package capture

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/template/v1beta1"
)

// The lengths of names, in characters.
const (
	// maxName is that of a DNS label.
	maxName = 63
	// hashLength is that of the hash at the end of a name: 40 bits.
	hashLength = 10
	// maxBase is that of the fixed part of the names in a template. It leaves as much for the value of NAME.
	maxBase = 31
)

// TemplateName returns the name of the template of a request.
func TemplateName(request *v1beta1.VirtualMachineTemplateRequest) string {
	if request.Spec.TemplateName != "" {
		return request.Spec.TemplateName
	}
	return request.Name
}

// SnapshotName returns the name of the snapshot of a request. It depends on the UID, so that another request with the
// same name has another snapshot.
func SnapshotName(request *v1beta1.VirtualMachineTemplateRequest) string {
	return childName(request.Name, request.UID, "snapshot")
}

// CloneName returns the name of the clone of a volume.
func CloneName(request *v1beta1.VirtualMachineTemplateRequest, volume string) string {
	return childName(TemplateName(request), request.UID, "volume/"+volume)
}

// childName returns a DNS label: the start of a name, and a hash.
func childName(name string, uid types.UID, role string) string {
	return label(name, maxName-hashLength-1) + "-" + hash(string(uid)+"/"+role)
}

// baseName returns the fixed part of a name in a template.
func baseName(name string) string {
	if len(name) <= maxBase {
		return name
	}
	return label(name, maxBase-hashLength-1) + "-" + hash(name)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:hashLength]
}

// label returns a name as the start of a DNS label.
func label(name string, length int) string {
	valid := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	valid = strings.Trim(valid, "-")
	if valid = strings.Trim(valid[:min(len(valid), length)], "-"); valid == "" {
		return "capture"
	}
	return valid
}
