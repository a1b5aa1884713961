package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/launcher"
)

// claim is a claim of the pod.
type claim struct {
	name string
	*corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
	source source
}

// bound reports whether the claim has a volume.
func (v *claim) bound() bool {
	return v.Spec.VolumeName != "" && v.Annotations["pv.kubernetes.io/bind-completed"] != ""
}

// claims are those of the pod that are known.
func (c *compilation) claims() (known []claim, missing []claim) {
	if c.snapshot.cluster.Unknown.Claims {
		if len(claimsOf(c.pod)) > 0 {
			c.assume("the claims of the virtual machine exist, and nodes can mount their volumes")
		}
		return nil, nil
	}
	for _, name := range claimsOf(c.pod) {
		one := claim{name: name, source: c.claimSource(name)}
		if one.PersistentVolumeClaim = c.snapshot.claims[c.pod.Namespace+"/"+name]; one.PersistentVolumeClaim == nil {
			missing = append(missing, one)
			continue
		}
		one.volume = c.snapshot.volumes[one.Spec.VolumeName]
		known = append(known, one)
	}
	return known, missing
}

// claimSource is the volume of the instance with a claim.
func (c *compilation) claimSource(name string) source {
	if c.VMI != nil {
		for i := range c.VMI.Spec.Volumes {
			v := &c.VMI.Spec.Volumes[i]
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name || v.DataVolume != nil && v.DataVolume.Name == name {
				return c.of(fmt.Sprintf("spec.volumes[%d]", i), "")
			}
		}
	}
	return source{}
}

// everywhere is a check that no node passes.
func everywhere(kind Kind, from source, text, change string) check {
	return check{kind: kind, source: from, passes: func(*node) bool { return false }, explain: func(*node) (string, string) { return text, change }}
}

// volumeRestrictions rejects claims that another pod has for itself.
func volumeRestrictions(c *compilation) []check {
	known, _ := c.claims()
	var checks []check
	for i := range known {
		v := &known[i]
		users := c.otherUsers(v)
		if len(users) > 0 && slices.Contains(v.Spec.AccessModes, corev1.ReadWriteOncePod) {
			checks = append(checks, everywhere(ClaimInUse, v.source, fmt.Sprintf("the pod %s uses the claim %s, which only one pod can use", users[0].Name, v.name), "stop that pod"))
		}
	}
	return checks
}

// otherUsers are the pods that mount a claim, but not pods of the same instance.
func (c *compilation) otherUsers(v *claim) []*pod {
	return slices.DeleteFunc(slices.Clone(c.snapshot.users[v.Namespace+"/"+v.name]), func(p *pod) bool {
		return p.Name == c.pod.Name && p.Name != ""
	})
}

// attached rejects nodes to which a volume cannot be attached, because it is attached to another one.
func attached(c *compilation) []check {
	known, _ := c.claims()
	var checks []check
	for i := range known {
		v := &known[i]
		if slices.Contains(v.Spec.AccessModes, corev1.ReadWriteMany) || slices.Contains(v.Spec.AccessModes, corev1.ReadOnlyMany) || !slices.Contains(v.Spec.AccessModes, corev1.ReadWriteOnce) {
			continue
		}
		users := c.otherUsers(v)
		if len(users) == 0 {
			continue
		}
		user := users[0]
		checks = append(checks, check{
			kind: AttachedElsewhere, source: v.source,
			passes: func(n *node) bool { return n.Name == user.node.Name },
			explain: func(*node) (string, string) {
				return fmt.Sprintf("the claim %s is ReadWriteOnce, and the pod %s uses it on %s", v.name, user.Name, user.node.Name), "stop that pod, or use a ReadWriteMany claim"
			},
		})
	}
	return checks
}

// volumeBinding requires that claims exist, and that nodes can mount their volumes or get new ones.
func volumeBinding(c *compilation) []check {
	known, missing := c.claims()
	var checks []check
	for i := range missing {
		checks = append(checks, everywhere(ClaimNotFound, missing[i].source, "there is no claim "+missing[i].name, "create the claim, or its DataVolume"))
	}
	var delayed []*claim
	for i := range known {
		v := &known[i]
		switch {
		case v.bound() && v.volume == nil && c.snapshot.cluster.Unknown.Volumes:
			c.assume("nodes can mount the volume of the claim " + v.name)
		case v.bound() && v.volume == nil:
			checks = append(checks, everywhere(VolumeNotFound, v.source, "the volume "+v.Spec.VolumeName+" of the claim "+v.name+" does not exist", "restore the volume, or use another claim"))
		case v.bound():
			checks = append(checks, c.mountable(v)...)
		case c.snapshot.cluster.Unknown.Classes:
			c.assume("a volume can be provisioned for the claim " + v.name)
		case v.Spec.VolumeName == "" && c.waits(v):
			delayed = append(delayed, v)
		default:
			checks = append(checks, everywhere(ClaimUnbound, v.source, "the claim "+v.name+" has no volume yet: it is "+string(cmp.Or(v.Status.Phase, corev1.ClaimPending)), "see its events: kubectl describe pvc "+v.name+" -n "+v.Namespace))
		}
	}
	if len(delayed) > 0 {
		checks = append(checks, c.provisionable(delayed)...)
	}
	return checks
}

// mountable requires the nodes of a volume.
func (c *compilation) mountable(v *claim) []check {
	affinity := v.volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	terms := termsOf(affinity.Required)
	return []check{{
		kind: VolumeElsewhere, source: v.source, lasting: always,
		passes: func(n *node) bool { return selects(terms, n) },
		explain: func(*node) (string, string) {
			return fmt.Sprintf("the volume %s of the claim %s is only on nodes with %s", v.volume.Name, v.name, describe(terms)), "copy the volume to other storage, or let the virtual machine run there"
		},
	}}
}

// describe is a selector for people.
func describe(terms [][]expression) string {
	var texts []string
	for _, term := range terms {
		var all []string
		for i := range term {
			all = append(all, term[i].String())
		}
		texts = append(texts, strings.Join(all, " and "))
	}
	return strings.Join(texts, ", or ")
}

func className(v *corev1.PersistentVolumeClaim) string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if v.Spec.StorageClassName != nil {
		return *v.Spec.StorageClassName
	}
	return ""
}

// waits reports whether the volume of a claim is chosen with the node.
func (c *compilation) waits(v *claim) bool {
	class := c.snapshot.classes[className(v.PersistentVolumeClaim)]
	return class != nil && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

const (
	selectedNode  = "volume.kubernetes.io/selected-node"
	noProvisioner = "kubernetes.io/no-provisioner"
)

// waiting is a claim that has no volume yet, with the volumes that exist for it.
type waiting struct {
	*claim
	candidates []candidate
	class      *storagev1.StorageClass
	// rooms are where a new volume has room; limited is false if it has room everywhere.
	rooms   []room
	limited bool
}

// candidate is a volume that exists, and the nodes that can mount it.
type candidate struct {
	name     string
	anywhere bool
	terms    [][]expression
}

// provisionable requires a volume for each claim that waits: one that exists, or a new one, for which there is room.
func (c *compilation) provisionable(claims []*claim) []check {
	slices.SortStableFunc(claims, func(a, b *claim) int {
		x, y := a.Spec.Resources.Requests[corev1.ResourceStorage], b.Spec.Resources.Requests[corev1.ResourceStorage]
		return x.Cmp(y)
	})
	all := make([]waiting, len(claims))
	for i, v := range claims {
		class := c.snapshot.classes[className(v.PersistentVolumeClaim)]
		rooms, limited := c.rooms(v, class)
		all[i] = waiting{claim: v, candidates: c.candidates(v), class: class, rooms: rooms, limited: limited}
	}
	lacking := func(n *node) (*claim, Kind) {
		taken := make(map[string]bool, len(all))
		for i := range all {
			v := &all[i]
			switch {
			case v.takes(n, taken):
			case v.elsewhere(n) || !provisions(v.class, n):
				return v.claim, VolumeUnavailable
			case !v.room(n):
				return v.claim, StorageFull
			}
		}
		return nil, ""
	}
	lacks := func(kind Kind, explain func(v *claim, class string) (text, change string)) check {
		return check{
			kind: kind, source: claims[0].source,
			passes: func(n *node) bool { _, lacks := lacking(n); return lacks != kind },
			explain: func(n *node) (string, string) {
				v, _ := lacking(n)
				return explain(v, className(v.PersistentVolumeClaim))
			},
		}
	}
	return []check{
		lacks(VolumeUnavailable, func(v *claim, class string) (string, string) {
			return "no volume on the node, and no new one, can serve the claim " + v.name + " of the class " + class, "use a storage class that serves the node"
		}),
		lacks(StorageFull, func(v *claim, class string) (string, string) {
			request := v.Spec.Resources.Requests[corev1.ResourceStorage]
			return "the class " + class + " has no room on the node for the claim " + v.name + " of " + launcher.Readable(&request), "free storage, request less, or use another storage class"
		}),
	}
}

// rooms are the capacities of a storage class for a claim; limited is false if its driver does not report them.
func (c *compilation) rooms(v *claim, class *storagev1.StorageClass) (rooms []room, limited bool) {
	request, stated := v.Spec.Resources.Requests[corev1.ResourceStorage]
	reports := slices.ContainsFunc(c.snapshot.cluster.Drivers, func(d *storagev1.CSIDriver) bool {
		return d.Name == class.Provisioner && d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity
	})
	switch {
	case !stated:
		return nil, false
	case c.snapshot.cluster.Unknown.Capacities:
		c.assume("the storage class " + class.Name + " has room for the claim " + v.name)
		return nil, false
	case !reports:
		return nil, false
	}
	for _, one := range c.snapshot.cluster.Capacities {
		size := one.Capacity
		if one.MaximumVolumeSize != nil {
			size = one.MaximumVolumeSize
		}
		if one.StorageClassName == class.Name && one.NodeTopology != nil && size != nil && size.Cmp(request) >= 0 {
			rooms = append(rooms, room{selectorOf(one.NodeTopology)})
		}
	}
	return rooms, true
}

// room is storage that is large enough, on the nodes that it selects.
type room struct{ nodes labels.Selector }

// room reports whether there is storage for a new volume on a node.
func (w *waiting) room(n *node) bool {
	return !w.limited || slices.ContainsFunc(w.rooms, func(r room) bool { return r.nodes.Matches(n) })
}

// elsewhere reports whether a volume is being made for another node.
func (w *waiting) elsewhere(n *node) bool {
	selected, ok := w.Annotations[selectedNode]
	return ok && selected != n.Name
}

// takes takes the first volume that a node can mount.
func (w *waiting) takes(n *node, taken map[string]bool) bool {
	if _, selected := w.Annotations[selectedNode]; selected {
		return false
	}
	for i := range w.candidates {
		if v := &w.candidates[i]; !taken[v.name] && (v.anywhere || selects(v.terms, n)) {
			taken[v.name] = true
			return true
		}
	}
	return false
}

// candidates are the volumes that exist for a claim: the one that is reserved first, then the smallest.
func (c *compilation) candidates(v *claim) []candidate {
	request := v.Spec.Resources.Requests[corev1.ResourceStorage]
	volumes := slices.DeleteFunc(slices.Clone(c.snapshot.cluster.Volumes), func(volume *corev1.PersistentVolume) bool {
		size := volume.Spec.Capacity[corev1.ResourceStorage]
		return size.Cmp(request) < 0 || !serves(volume, v)
	})
	slices.SortStableFunc(volumes, func(a, b *corev1.PersistentVolume) int {
		if x, y := a.Spec.ClaimRef != nil, b.Spec.ClaimRef != nil; x != y {
			if x {
				return -1
			}
			return 1
		}
		x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
		return x.Cmp(y)
	})
	all := make([]candidate, 0, len(volumes))
	for _, volume := range volumes {
		one := candidate{name: volume.Name, anywhere: true}
		if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil {
			one.anywhere, one.terms = false, termsOf(a.Required)
		}
		all = append(all, one)
	}
	return all
}

// provisions reports whether a class can make a volume for a node.
func provisions(class *storagev1.StorageClass, n *node) bool {
	if class.Provisioner == "" || class.Provisioner == noProvisioner {
		return false
	}
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	return slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			value, ok := n.label(e.Key)
			return !ok || !slices.Contains(e.Values, value)
		})
	})
}

// serves reports whether a volume is of the kind that a claim wants, and free for it.
func serves(volume *corev1.PersistentVolume, v *claim) bool {
	if ref := volume.Spec.ClaimRef; ref != nil && (ref.Namespace != v.Namespace || ref.Name != v.name || ref.UID != "" && ref.UID != v.UID) {
		return false
	}
	if volume.Status.Phase != corev1.VolumeAvailable && volume.Spec.ClaimRef == nil || volume.DeletionTimestamp != nil {
		return false
	}
	mode := func(m *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
		if m == nil {
			return corev1.PersistentVolumeFilesystem
		}
		return *m
	}
	if volume.Spec.StorageClassName != className(v.PersistentVolumeClaim) || mode(volume.Spec.VolumeMode) != mode(v.Spec.VolumeMode) {
		return false
	}
	if v.Spec.Selector != nil && !selectorOf(v.Spec.Selector).Matches(labels.Set(volume.Labels)) {
		return false
	}
	return !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(volume.Spec.AccessModes, m) })
}

// zoneLabels are labels of volumes that name where they are, with the newer name of the old ones.
var zoneLabels = []struct{ key, newer string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// volumeZone requires the zone and the region of volumes.
func volumeZone(c *compilation) []check {
	known, _ := c.claims()
	var checks []check
	for i := range known {
		v := &known[i]
		if v.volume == nil {
			continue
		}
		for _, label := range zoneLabels {
			text, ok := v.volume.Labels[label.key]
			if !ok {
				continue
			}
			zones := strings.Split(text, "__")
			checks = append(checks, check{
				kind: OtherZone, source: v.source, lasting: always,
				passes: func(n *node) bool {
					value, ok := n.label(label.key)
					if !ok {
						value, ok = n.label(label.newer)
					}
					return ok && slices.Contains(zones, value) || !zoned(n)
				},
				explain: func(*node) (string, string) {
					return fmt.Sprintf("the volume %s of the claim %s is in %s %s", v.volume.Name, v.name, label.newer, strings.Join(zones, ", ")), "let the virtual machine run there, or copy the volume"
				},
			})
		}
	}
	return checks
}

// zoned reports whether a node has any label of a zone or a region.
func zoned(n *node) bool {
	for _, label := range zoneLabels {
		if _, ok := n.label(label.key); ok {
			return true
		}
	}
	return false
}

// volumeLimits requires that the drivers of volumes can attach more of them to the node.
func volumeLimits(c *compilation) []check {
	known, _ := c.claims()
	handles := map[string]map[string]bool{} // by driver
	for i := range known {
		if volume := known[i].volume; volume != nil && volume.Spec.CSI != nil {
			driver := volume.Spec.CSI.Driver
			if handles[driver] == nil {
				handles[driver] = map[string]bool{}
			}
			handles[driver][volume.Spec.CSI.VolumeHandle] = true
		}
	}
	if len(handles) == 0 {
		return nil
	}
	over := func(n *node) (driver string, used, limit int) {
		if n.csi == nil {
			return "", 0, 0
		}
		for i := range n.csi.Spec.Drivers {
			d := &n.csi.Spec.Drivers[i]
			if wanted := handles[d.Name]; d.Allocatable != nil && d.Allocatable.Count != nil && len(wanted) > 0 {
				used := c.snapshot.attached(n, d.Name)
				added := 0
				for handle := range wanted {
					if !used[handle] {
						added++
					}
				}
				if len(used)+added > int(*d.Allocatable.Count) && added > 0 {
					return d.Name, len(used), int(*d.Allocatable.Count)
				}
			}
		}
		return "", 0, 0
	}
	return []check{{
		kind: TooManyVolumes, source: c.of("spec.volumes", ""),
		passes: func(n *node) bool { driver, _, _ := over(n); return driver == "" },
		explain: func(n *node) (string, string) {
			driver, used, limit := over(n)
			return fmt.Sprintf("the driver %s has attached %d volumes to the node, of at most %d", driver, used, limit), "move a pod with such volumes, or use fewer volumes"
		},
	}}
}

// attached are the volumes of a driver that pods of a node use.
func (s *Snapshot) attached(n *node, driver string) map[string]bool {
	handles := map[string]bool{}
	for _, p := range n.pods {
		for _, name := range claimsOf(p.Pod) {
			v := s.claims[p.Namespace+"/"+name]
			if v == nil {
				continue
			}
			if volume := s.volumes[v.Spec.VolumeName]; volume != nil && volume.Spec.CSI != nil && volume.Spec.CSI.Driver == driver {
				handles[volume.Spec.CSI.VolumeHandle] = true
			}
		}
	}
	return handles
}
