package scheduler

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/placement"
)

// Answer is that of a kube-scheduler.
type Answer struct {
	// Seed of the pair.
	Seed uint64 `json:"seed"`
	// Scheduled reports whether the pod got a node, and Node is that one; empty if the scheduler only chose a volume so far.
	Scheduled bool   `json:"scheduled"`
	Node      string `json:"node,omitempty"`
	// Message says why it got none.
	Message string `json:"message,omitempty"`
}

// words are kube-scheduler's for a kind of reason of a node.
var words = map[placement.Kind]string{
	placement.Unschedulable:        "node(s) were unschedulable",
	placement.UntoleratedTaint:     "node(s) had untolerated taint(s)",
	placement.LabelMismatch:        "node(s) didn't match Pod's node affinity/selector",
	placement.PortInUse:            "node(s) didn't have free ports for the requested pod ports",
	placement.TooManyPods:          "Too many pods",
	placement.TooManyVolumes:       "node(s) exceed max volume count",
	placement.VolumeElsewhere:      "node(s) didn't match PersistentVolume's node affinity",
	placement.VolumeUnavailable:    "node(s) didn't find available persistent volumes to bind",
	placement.StorageFull:          "node(s) did not have enough free storage",
	placement.OtherZone:            "node(s) had no available volume zone",
	placement.Spread:               "node(s) didn't match pod topology spread constraints",
	placement.SpreadLabelMissing:   "node(s) didn't match pod topology spread constraints (missing required label)",
	placement.Affinity:             "node(s) didn't match pod affinity rules",
	placement.AntiAffinity:         "node(s) didn't match pod anti-affinity rules",
	placement.ExistingAntiAffinity: "node(s) didn't satisfy existing pods anti-affinity rules",
}

// before are the words for reasons that kube-scheduler finds before it looks at nodes.
var before = map[placement.Kind]string{
	placement.ClaimNotFound: "persistentvolumeclaim \"data\" not found",
	placement.ClaimUnbound:  "pod has unbound immediate PersistentVolumeClaims",
	placement.ClaimInUse:    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
}

// own is the check that kube-scheduler does not have.
const own = "VolumeAttachment"

// fits reports whether kube-scheduler would place the pod on a node.
func fits(reasons []placement.Reason) bool {
	return !slices.ContainsFunc(reasons, func(r placement.Reason) bool { return r.Plugin != own })
}

// Compare returns how an answer differs from a placement; empty if they agree.
func Compare(p *placement.Placement, a *Answer) string {
	fitting := map[string]bool{}
	early, histogram := "", map[string]int{}
	for i := range p.Len() {
		reasons := p.Reasons(i)
		if fits(reasons) {
			fitting[p.Node(i)] = true
			continue
		}
		for _, word := range first(reasons) {
			histogram[word]++
		}
		for _, r := range reasons {
			if before[r.Kind] != "" {
				early = before[r.Kind]
			}
		}
	}
	switch {
	case a.Scheduled && len(fitting) == 0:
		return fmt.Sprintf("scheduled on %q, and no node fits: %v", a.Node, histogram)
	case a.Scheduled && a.Node != "" && !fitting[a.Node]:
		return fmt.Sprintf("scheduled on %s, which does not fit; %v do", a.Node, slices.Sorted(maps.Keys(fitting)))
	case a.Scheduled:
		return ""
	case len(fitting) > 0:
		return fmt.Sprintf("%v fit, and the scheduler says: %s", slices.Sorted(maps.Keys(fitting)), a.Message)
	case early != "":
		if !strings.Contains(a.Message, early) {
			return fmt.Sprintf("%s, and the scheduler says: %s", early, a.Message)
		}
		return ""
	}
	if theirs := parse(a.Message); !maps.Equal(theirs, histogram) {
		return fmt.Sprintf("%v, and the scheduler says %v: %s", histogram, theirs, a.Message)
	}
	return ""
}

// first are the words of the first plugin that rejects a node: kube-scheduler stops there.
func first(reasons []placement.Reason) []string {
	plugin := reasons[0].Plugin
	var found []string
	for _, r := range reasons {
		if r.Plugin != plugin {
			break
		}
		word := words[r.Kind]
		if r.Kind == placement.Insufficient {
			word = "Insufficient " + string(r.Resource)
		}
		if !slices.Contains(found, word) {
			found = append(found, word)
		}
	}
	if plugin != "NodeResourcesFit" && plugin != "VolumeBinding" {
		found = found[:1]
	}
	return found
}

var counted = regexp.MustCompile(`^(\d+) (.+)$`)

// parse reads the numbers of nodes by reason: 0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods. preemption: …
func parse(message string) map[string]int {
	_, rest, _ := strings.Cut(message, "nodes are available: ")
	if end := strings.Index(rest, ". "); end >= 0 {
		rest = rest[:end]
	}
	histogram := map[string]int{}
	for _, part := range strings.Split(strings.TrimSuffix(rest, "."), ", ") {
		if m := counted.FindStringSubmatch(part); m != nil {
			n, err := strconv.Atoi(m[1])
			if err == nil {
				histogram[m[2]] += n
			}
		}
	}
	return histogram
}

// Place places a pair.
func Place(pair *Pair) (*placement.Placement, error) {
	snapshot, err := placement.NewSnapshot(pair.Cluster)
	if err != nil {
		return nil, err
	}
	return snapshot.Place(&placement.Subject{Pod: pair.Pod}), nil
}
