package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pending is the value of AnnotationPending: changes that are not applied to a running virtual machine yet.
type Pending struct {
	// Generation of the virtual machine that was compared. Another one means that the annotation is behind.
	Generation int64 `json:"generation"`
	// RestartRequired is the class of reasons for which KubeVirt requires a restart; empty if it does not.
	RestartRequired string `json:"restartRequired,omitempty"`
	// Changes that are pending, in the order of the plan.
	Changes []PendingChange `json:"changes"`
	// Omitted is the number of fields that do not fit.
	Omitted int `json:"omitted,omitempty"`
}

// PendingChange is fields that are pending for the same reason.
type PendingChange struct {
	// Fields are paths in the virtual machine. There are More that do not fit.
	Fields []string `json:"fields"`
	More   int      `json:"more,omitempty"`
	// Takes is LiveOnMigration, Restart, Blocked or Never.
	Takes  string `json:"takes"`
	Reason string `json:"reason"`
	WayOut string `json:"wayOut,omitempty"`
	// Since is when the controller saw this reason first.
	Since metav1.Time `json:"since,omitzero"`
}

// String is the value of AnnotationPending. It omits the last changes if there is no room for them.
func (p Pending) String() string {
	for {
		text, err := json.Marshal(p)
		if err == nil && len(text) <= MaxPending || len(p.Changes) == 0 {
			return string(text)
		}
		last := &p.Changes[len(p.Changes)-1]
		p.Omitted += len(last.Fields) + last.More
		p.Changes = p.Changes[:len(p.Changes)-1]
	}
}

// PendingOf reads what is pending from the annotations of a virtual machine; nil if they do not say. Users can write the
// annotation: it is information, and nothing is decided by it.
func PendingOf(annotations map[string]string) (*Pending, error) {
	text, has := annotations[AnnotationPending]
	if !has {
		return nil, nil
	}
	if len(text) > MaxPending {
		return nil, fmt.Errorf("the annotation %s has more than %d bytes", AnnotationPending, MaxPending)
	}
	pending := &Pending{}
	if err := json.Unmarshal([]byte(text), pending); err != nil {
		return nil, fmt.Errorf("the annotation %s: %w", AnnotationPending, err)
	}
	return pending, nil
}
