package launcher

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Share is share.
func Share(count int64, ratio int) (resource.Quantity, error) { return share(count, ratio) }

// SlowShare divides as KubeVirt does, through a text.
func SlowShare(count int64, ratio int) resource.Quantity {
	value := float64(count) / float64(ratio)
	if value < 1 {
		return resource.MustParse(fmt.Sprintf("%gm", value*1000))
	}
	return resource.MustParse(fmt.Sprintf("%g", value))
}
