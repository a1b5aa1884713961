package v1alpha1

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CountsName is the name of the ConfigMap with RunningCounts, in the namespace of the installation. CountsKey is the key of its
// data.
const (
	CountsName = "virtward-rollouts"
	CountsKey  = "counts"
)

// maxCounts bounds the JSON of RunningCounts, in bytes.
const maxCounts = 4 << 10

// RunningCounts are the numbers of running virtual machines and of their pending changes. The controller of pending changes
// writes them, and the webhook of the KubeVirt resource reads them.
type RunningCounts struct {
	// Time of the counts.
	Time metav1.Time `json:"time"`
	// Complete is false if not all virtual machines are counted, or not yet.
	Complete bool `json:"complete"`
	// Running is the number of running virtual machines, and Pending of those that have a pending change.
	Running int `json:"running"`
	Pending int `json:"pending"`
	// Takes has the numbers of virtual machines with a pending change, by when it takes effect.
	Takes map[string]int `json:"takes,omitempty"`
	// MaxSockets and MaxGuest are the most sockets and the most memory of a running virtual machine.
	MaxSockets uint32             `json:"maxSockets,omitempty"`
	MaxGuest   *resource.Quantity `json:"maxGuest,omitempty"`
}

// String is the value of CountsKey.
func (c RunningCounts) String() string {
	text, _ := json.Marshal(c) //nolint:errchkjson // numbers and strings
	return string(text)
}

// ErrNoCounts is the error for a ConfigMap without RunningCounts.
var ErrNoCounts = errors.New("there are no counts")

// CountsOf reads counts from the data of their ConfigMap.
func CountsOf(data map[string]string) (*RunningCounts, error) {
	text := data[CountsKey]
	switch {
	case text == "":
		return nil, ErrNoCounts
	case len(text) > maxCounts:
		return nil, fmt.Errorf("the counts have more than %d bytes", maxCounts)
	}
	counts := &RunningCounts{}
	if err := json.Unmarshal([]byte(text), counts); err != nil {
		return nil, fmt.Errorf("the counts cannot be read: %w", err)
	}
	return counts, nil
}
