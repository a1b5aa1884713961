package virtualimages

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
)

// space is the namespace of the UUIDs of images.
var space = uuid.MustParse("6b6d9f0e-4a35-5d43-8d0b-2d0f5a1f3c77")

// ID identifies an attempt to import an image: a UUID of version 5, of the cluster, the VirtualImage and the number of the
// attempt. It is the same after a restart.
func ID(cluster string, uid types.UID, attempt int32) string {
	return uuid.NewSHA1(space, fmt.Appendf(nil, "%s/%s/%d", cluster, uid, attempt)).String()
}

// Stamp marks the objects of an image in a backend that several clusters share.
func Stamp(cluster string, uid types.UID) string {
	return cluster + "/" + string(uid)
}

// VolumeName is the name of the DataVolume of an image, and of its claim: NAME-UID8. The name has at most 63 characters.
func VolumeName(name string, uid types.UID) string {
	short := strings.ReplaceAll(string(uid), "-", "")
	short = short[:min(8, len(short))]
	name = strings.TrimRight(name[:min(len(name), v1alpha1.MaxName-len(short)-1)], "-.")
	return name + "-" + short
}
