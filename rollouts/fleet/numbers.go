package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
)

// Defaults of the spec.
const (
	defaultUnavailable = 1
	defaultMigrations  = 2
	defaultTimeout     = 10 * time.Minute
)

// limits are the numbers of a spec.
type limits struct {
	unavailable, migrations, partition int
	timeout                            time.Duration
}

func limitsOf(spec *v1alpha1.VirtualMachineRolloutSpec, total int) limits {
	l := limits{unavailable: defaultUnavailable, migrations: defaultMigrations, timeout: defaultTimeout}
	if n := spec.Strategy.MaxUnavailable; n != nil {
		l.unavailable = max(1, scaled(n, total, false))
	}
	if n := spec.Strategy.MaxConcurrentMigrations; n != nil {
		l.migrations = max(1, int(*n))
	}
	if n := spec.Strategy.Partition; n != nil {
		l.partition = min(total, max(0, scaled(n, total, true)))
	}
	if t := spec.Health.Timeout; t != nil && t.Duration > 0 {
		l.timeout = t.Duration
	}
	return l
}

// scaled is a number, or a percentage of a total. What cannot be read is 0.
func scaled(n *intstr.IntOrString, total int, up bool) int {
	value, err := intstr.GetScaledValueFromIntOrPercent(n, total, up)
	if err != nil {
		return 0
	}
	return value
}

// Digest identifies the patch of a rollout; it is empty if there is none. Patches that differ only in their form have the
// same one.
func Digest(spec *v1alpha1.VirtualMachineRolloutSpec) string {
	if spec.Patch == nil || len(spec.Patch.Raw) == 0 {
		return ""
	}
	var value any
	canonical := spec.Patch.Raw
	if json.Unmarshal(spec.Patch.Raw, &value) == nil {
		if sorted, err := json.Marshal(value); err == nil {
			canonical = sorted
		}
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:8])
}

// MigrationName is the name of the migration of a virtual machine. It is the same for the same attempt, so that a migration
// is never created twice.
func MigrationName(rollout, vm types.UID, attempt int32) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", rollout, vm, attempt))
	return "rollout-" + hex.EncodeToString(sum[:10])
}
