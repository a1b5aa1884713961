package templates

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	captured "github.com/virtward/virtward/templates/capture"
)

// captureClass is a known fault of virt-template's captures.
type captureClass struct {
	name string
	// of reports by the input whether a case shows the fault.
	of func(*CaptureCase) bool
	// fix makes the right outcome of the recorded one.
	fix func(*CaptureCase, *captureOutcome)
}

// captureClasses are the known faults, each with what is right. Those that replace the whole outcome come first.
// docs/internals/conformance.md explains them.
var captureClasses = []captureClass{
	{"the state of the firmware needs a snapshot", (*CaptureCase).hasStateWithoutSnapshot, succeed},
	{"memory dumps and ephemeral volumes become disks", (*CaptureCase).hasDumps, succeed},
	{"two DataVolume templates have one name", (*CaptureCase).hasDuplicates, succeed},
	{"names exceed a label", (*CaptureCase).hasLongNames, succeed},
	{"volumes without a copy are shared with the source", func(c *CaptureCase) bool { return len(c.uncopied()) > 0 }, fail},
	{"a snapshot without a VirtualMachine is cloned", func(c *CaptureCase) bool { return c.hasEvent("snapshot-ready-no-source-vm") }, fail},
	{"an instancetype that cannot be expanded is tried without limit", func(c *CaptureCase) bool { return c.ExpandError != "" }, fail},
	{"names of templates are not validated", func(c *CaptureCase) bool {
		return len(validation.IsDNS1123Subdomain(captured.TemplateName(&c.Request))) > 0
	}, reject},
	{"a volume of the user is taken for KubeVirt's", (*CaptureCase).hasUsersState, cloneUsersState},
	{"settings of DataVolume templates are lost", (*CaptureCase).hasSettings, keepSettings},
	{"identities are kept", (*CaptureCase).hasIdentities, dropIdentities},
	{"text refers to parameters by chance", func(c *CaptureCase) bool { return strings.Contains(c.source(), "${") }, keepText},
	{"a failed request keeps its objects", (*CaptureCase).fails, cleanUp},
	{"DataVolumes of a deleted request stay", func(c *CaptureCase) bool { return c.losesRequest() && len(c.VolumeBackups) > 0 }, cleanUp},
	{"a request outlives its template", (*CaptureCase).losesTemplate, func(_ *CaptureCase, o *captureOutcome) {
		o.end, o.reference, o.steps = "Progressing False, Ready False", "", nil
	}},
}

// source is the spec of the VirtualMachine as JSON.
func (c *CaptureCase) source() string {
	data, err := json.Marshal(c.Source.Spec)
	if err != nil {
		return ""
	}
	return string(data)
}

// tree is the spec of the VirtualMachine.
func (c *CaptureCase) tree() map[string]any {
	var tree map[string]any
	if json.Unmarshal([]byte(c.source()), &tree) != nil {
		return nil
	}
	return tree
}

// disk is a volume of the VirtualMachine with a claim.
type disk struct{ volume, claim, base, snapshot string }

// disks are the volumes with a claim; snapshot is empty without a copy.
func (c *CaptureCase) disks() (list []disk) {
	if c.Source.Spec.Template == nil {
		return nil
	}
	for _, v := range c.Source.Spec.Template.Spec.Volumes {
		d := disk{volume: v.Name}
		switch {
		case v.DataVolume != nil:
			d.claim, d.base = v.DataVolume.Name, v.DataVolume.Name
		case v.PersistentVolumeClaim != nil:
			d.claim, d.base = v.PersistentVolumeClaim.ClaimName, v.Name
		default:
			continue
		}
		for _, b := range c.VolumeBackups {
			if b.VolumeName == v.Name {
				d.snapshot = b.VolumeSnapshotName
			}
		}
		list = append(list, d)
	}
	return list
}

func (c *CaptureCase) uncopied() []disk {
	return slices.DeleteFunc(c.disks(), func(d disk) bool { return d.snapshot != "" })
}

func (c *CaptureCase) hasStateWithoutSnapshot() bool {
	for _, b := range c.VolumeBackups {
		if b.VolumeSnapshotName == "" && !slices.ContainsFunc(c.disks(), func(d disk) bool { return d.volume == b.VolumeName }) {
			return true
		}
	}
	return false
}

func (c *CaptureCase) hasDumps() bool {
	return c.Source.Spec.Template != nil && slices.ContainsFunc(c.dropped(), func(string) bool { return true })
}

// dropped are the volumes that are no disks.
func (c *CaptureCase) dropped() (names []string) {
	if c.Source.Spec.Template == nil {
		return nil
	}
	for _, v := range c.Source.Spec.Template.Spec.Volumes {
		if v.MemoryDump != nil || v.Ephemeral != nil {
			names = append(names, v.Name)
		}
	}
	return names
}

func (c *CaptureCase) hasDuplicates() bool {
	seen := map[string]bool{}
	for _, d := range c.disks() {
		if seen[d.base] {
			return true
		}
		seen[d.base] = true
	}
	for _, d := range c.disks() {
		if d.base == d.claim {
			continue
		}
		for i := range c.Source.Spec.DataVolumeTemplates {
			if c.Source.Spec.DataVolumeTemplates[i].Name == d.base {
				return true
			}
		}
	}
	return false
}

// hasLongNames: with a name of 31 characters, the names of DataVolumes have more than 63.
func (c *CaptureCase) hasLongNames() bool {
	return slices.ContainsFunc(c.disks(), func(d disk) bool { return len(d.base) > 31 })
}

func (c *CaptureCase) hasUsersState() bool {
	return slices.ContainsFunc(c.disks(), func(d disk) bool { return strings.Contains(d.volume, "persistent-state-for") })
}

func (c *CaptureCase) hasSettings() bool {
	for i := range c.Source.Spec.DataVolumeTemplates {
		t := &c.Source.Spec.DataVolumeTemplates[i]
		if slices.ContainsFunc(c.disks(), func(d disk) bool { return d.claim == t.Name }) {
			return true
		}
	}
	return false
}

func (c *CaptureCase) hasIdentities() bool {
	text := c.source()
	return strings.Contains(text, `"serial"`) || strings.Contains(text, `"pciAddress"`) || strings.Contains(text, `"hostname"`)
}

// fails reports whether the capture must fail.
func (c *CaptureCase) fails() bool {
	failures := []string{"snapshot-failed", "snapshot-source-missing", "snapshot-error", "snapshot-ready-no-content", "datavolumes-failed", "relabel-datavolumes", "delete-snapshot", "snapshot-deleted"}
	return c.Source.Spec.Template == nil || slices.ContainsFunc(failures, c.hasEvent)
}

// fail: the snapshot is deleted, and nothing is cloned.
func fail(c *CaptureCase, o *captureOutcome) {
	reject(c, o)
	o.created[fmt.Sprintf("%s of %s in %s", snapshotRole, c.Request.Spec.VirtualMachineRef.Name, c.Request.Spec.VirtualMachineRef.Namespace)] = true
	o.removed[snapshotRole] = true
}

// reject: nothing is created.
func reject(_ *CaptureCase, o *captureOutcome) {
	*o = *newCaptureOutcome()
	o.end = "Progressing False, Ready False"
}

// cleanUp: what was created is deleted, unless it is not the request's any more.
func cleanUp(c *CaptureCase, o *captureOutcome) {
	for role := range o.created {
		name, _, _ := strings.Cut(strings.ReplaceAll(role, " of namespace ", "|"), "|")
		switch {
		case strings.HasPrefix(role, snapshotRole):
			o.removed[snapshotRole] = true
		case strings.HasPrefix(role, "the clone of ") && !c.hasEvent("relabel-datavolumes"):
			o.removed[name] = true
		}
	}
}

// succeed: every volume with a claim is cloned once, and other volumes of the snapshot are not. Names are compared by role.
func succeed(c *CaptureCase, o *captureOutcome) {
	recorded := *o
	*o = *newCaptureOutcome()
	o.byRole, o.admitted, o.end, o.reference = true, true, "Progressing False, Ready True", captured.TemplateName(&c.Request)
	o.removed[snapshotRole] = true
	namespace := c.Request.Spec.VirtualMachineRef.Namespace
	o.created[fmt.Sprintf("%s of %s in %s", snapshotRole, c.Request.Spec.VirtualMachineRef.Name, namespace)] = true
	o.created[fmt.Sprintf("%s %s in %s", templateRole, o.reference, c.Request.Namespace)] = true
	o.labels, o.parameters = recorded.labels, recorded.parameters
	if o.labels == nil { // the recorded capture failed
		o.labels = map[string]string{"template.kubevirt.io/RequestUID": string(c.Request.UID)}
		o.parameters = fmt.Sprint("NAME", nil, "expression", "vm-[a-z0-9]{5}", true)
	}
	roles := map[string]string{} // of claims
	for _, d := range c.disks() {
		if _, known := roles[d.claim]; known {
			continue
		}
		role := cloneRole(d.snapshot)
		roles[d.claim] = role
		o.handedOver[role] = true
		o.created[fmt.Sprintf("%s of namespace %s in %s", role, namespace, c.Request.Namespace)] = true
	}
	o.vm = o.normal(map[string]any{"metadata": map[string]any{"name": "${NAME}"}, "spec": c.rightSpec(roles)})
	o.processed = o.normal(map[string]any{"metadata": map[string]any{"name": "clone1"}, "spec": c.rightSpec(roles)})
}

// rightSpec is the spec of the VirtualMachine with clones by their roles.
func (c *CaptureCase) rightSpec(roles map[string]string) map[string]any {
	spec := c.tree()
	templates, _ := spec["dataVolumeTemplates"].([]any)
	pending := maps.Clone(roles)
	for _, one := range templates {
		t, _ := one.(map[string]any)
		name := fmt.Sprint(at(t, "metadata", "name"))
		if role, captured := roles[name]; captured {
			settle(t, role, c.Request.Namespace)
			delete(pending, name)
		}
	}
	for _, role := range pending {
		t := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"storage": map[string]any{}}}
		settle(t, role, c.Request.Namespace)
		templates = append(templates, t)
	}
	if len(templates) > 0 {
		spec["dataVolumeTemplates"] = templates
	}
	dropped := c.dropped()
	guest, _ := at(spec, "template", "spec").(map[string]any)
	volumes, _ := guest["volumes"].([]any)
	guest["volumes"] = slices.DeleteFunc(volumes, func(one any) bool { return slices.Contains(dropped, fmt.Sprint(at(one, "name"))) })
	if devices, _ := at(guest, "domain", "devices").(map[string]any); devices["disks"] != nil {
		disks, _ := devices["disks"].([]any)
		devices["disks"] = slices.DeleteFunc(disks, func(one any) bool { return slices.Contains(dropped, fmt.Sprint(at(one, "name"))) })
	}
	for _, one := range volumes {
		v, _ := one.(map[string]any)
		claim := cmp.Or(text(at(v, "dataVolume", "name")), text(at(v, "persistentVolumeClaim", "claimName")))
		if role, captured := roles[claim]; captured {
			name := v["name"]
			clear(v)
			v["name"], v["dataVolume"] = name, map[string]any{"name": role}
		}
	}
	return spec
}

// settle makes a DataVolume template clone a role, and keeps its settings.
func settle(t map[string]any, role, namespace string) {
	metadata, _ := t["metadata"].(map[string]any)
	metadata["name"] = role
	spec, _ := t["spec"].(map[string]any)
	delete(spec, "sourceRef")
	spec["source"] = map[string]any{"pvc": map[string]any{"name": role, "namespace": namespace}}
	if spec["pvc"] == nil && spec["storage"] == nil {
		spec["storage"] = map[string]any{}
	}
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// cloneUsersState: the volume is cloned as any other.
func cloneUsersState(c *CaptureCase, o *captureOutcome) {
	for _, d := range c.disks() {
		role := cloneRole(d.snapshot)
		if o.handedOver[role] || !strings.Contains(d.volume, "persistent-state-for") {
			continue
		}
		o.handedOver[role] = true
		o.created[fmt.Sprintf("%s of namespace %s in %s", role, c.Request.Spec.VirtualMachineRef.Namespace, c.Request.Namespace)] = true
		o.each(func(vm map[string]any, name string) {
			spec, _ := vm["spec"].(map[string]any)
			t := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"storage": map[string]any{}}}
			settle(t, role, c.Request.Namespace)
			t["metadata"] = map[string]any{"name": d.base + "-" + name}
			templates, _ := spec["dataVolumeTemplates"].([]any)
			spec["dataVolumeTemplates"] = append(templates, any(t))
			volumes, _ := at(spec, "template", "spec", "volumes").([]any)
			for _, one := range volumes {
				if v, _ := one.(map[string]any); v["name"] == d.volume {
					clear(v)
					v["name"], v["dataVolume"] = d.volume, map[string]any{"name": d.base + "-" + name}
				}
			}
		})
	}
}

// each calls a function with the VirtualMachine of the template, and with that which it makes. name is that of the
// VirtualMachine.
func (o *captureOutcome) each(do func(vm map[string]any, name string)) {
	if o.vm != nil {
		do(o.vm, "${NAME}")
		o.vm = o.normal(o.vm)
	}
	if o.processed != nil {
		do(o.processed, "clone1")
		o.processed = o.normal(o.processed)
	}
}

// keepSettings: a DataVolume template has the settings of the source's.
func keepSettings(c *CaptureCase, o *captureOutcome) {
	if o.byRole { // the outcome has them already
		return
	}
	sources, _ := c.tree()["dataVolumeTemplates"].([]any)
	o.each(func(vm map[string]any, name string) {
		list, _ := at(vm, "spec", "dataVolumeTemplates").([]any)
		for _, one := range list {
			t, _ := one.(map[string]any)
			for _, other := range sources {
				source, _ := other.(map[string]any)
				metadata, _ := source["metadata"].(map[string]any)
				settings, _ := source["spec"].(map[string]any)
				if at(t, "metadata", "name") != fmt.Sprint(metadata["name"], "-", name) {
					continue
				}
				kept := maps.Clone(settings)
				delete(kept, "sourceRef")
				kept["source"] = at(t, "spec", "source")
				t["spec"] = kept
				described := maps.Clone(metadata)
				described["name"] = at(t, "metadata", "name")
				t["metadata"] = described
			}
		}
	})
}

// dropIdentities: serials, addresses and the hostname are not in the template.
func dropIdentities(_ *CaptureCase, o *captureOutcome) {
	o.each(func(vm map[string]any, _ string) {
		guest, _ := at(vm, "spec", "template", "spec").(map[string]any)
		delete(guest, "hostname")
		for _, path := range [][]string{{"domain", "chassis"}, {"domain", "firmware"}} {
			if owner, is := at(guest, path...).(map[string]any); is {
				delete(owner, "serial")
				delete(owner, "uuid")
			}
		}
		for _, list := range []string{"disks", "interfaces"} {
			devices, _ := at(guest, "domain", "devices", list).([]any)
			for _, one := range devices {
				device, _ := one.(map[string]any)
				for _, name := range []string{"serial", "macAddress", "pciAddress"} {
					delete(device, name)
				}
				if target, is := device["disk"].(map[string]any); is {
					delete(target, "pciAddress")
				}
			}
		}
	})
}

// keepText: the template is valid, and the VirtualMachine has the text as the source has it.
func keepText(_ *CaptureCase, o *captureOutcome) {
	if o.vm == nil {
		return
	}
	o.anyTemplate, o.admitted = true, true
	o.processed = nil
	data, err := json.Marshal(o.vm)
	if err != nil || json.Unmarshal(data, &o.processed) != nil {
		return
	}
	name := func(object any, path ...string) {
		if owner, is := at(object, path...).(map[string]any); is {
			owner["name"] = strings.ReplaceAll(text(owner["name"]), "${NAME}", "clone1")
		}
	}
	name(o.processed, "metadata")
	list, _ := at(o.processed, "spec", "dataVolumeTemplates").([]any)
	for _, t := range list {
		name(t, "metadata")
	}
	volumes, _ := at(o.processed, "spec", "template", "spec", "volumes").([]any)
	for _, v := range volumes {
		name(v, "dataVolume")
	}
}
