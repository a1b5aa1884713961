package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
)

// The roles of objects, besides those of clones.
const (
	requestRole  = "the request"
	snapshotRole = "the snapshot"
	templateRole = "the template"
)

// cloneRole is the role of the clone of a VolumeSnapshot.
func cloneRole(snapshot string) string { return "the clone of " + snapshot }

// captureOutcome is what a capture does, without the names and times that implementations choose.
type captureOutcome struct {
	// created, removed and handedOver are the roles of objects. Owners of clones are templates.
	created, removed, handedOver map[string]bool
	// steps are the conditions after each event; nil if they are not compared. end are those at the end, and reference is
	// the template in the status.
	steps          []string
	end, reference string
	// vm and parameters are those of the template, labels its labels, admitted whether the template is valid, and processed
	// the VirtualMachine that it makes.
	vm, processed map[string]any
	parameters    string
	labels        map[string]string
	admitted      bool
	// byRole: names of DataVolumes are compared by role. anyTemplate: the VirtualMachine of the template is not compared.
	byRole, anyTemplate bool
	// clones are the roles of the clones by their names.
	clones map[string]string
}

func newCaptureOutcome() *captureOutcome {
	return &captureOutcome{created: map[string]bool{}, removed: map[string]bool{}, handedOver: map[string]bool{}, clones: map[string]string{}}
}

// create records an object that the reconciler created.
func (o *captureOutcome) create(object client.Object) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	switch object.(type) {
	case *snapshotv1beta1.VirtualMachineSnapshot:
		fields["kind"] = "VirtualMachineSnapshot"
	case *cdiv1beta1.DataVolume:
		fields["kind"] = "DataVolume"
	case *v1beta1.VirtualMachineTemplate:
		fields["kind"] = "VirtualMachineTemplate"
	}
	o.record(fields)
	return nil
}

// record records a created object.
func (o *captureOutcome) record(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	spec, _ := object["spec"].(map[string]any)
	name, _ := metadata["name"].(string)
	switch object["kind"] {
	case "VirtualMachineSnapshot":
		o.created[fmt.Sprintf("%s of %v in %v", snapshotRole, at(spec, "source", "name"), metadata["namespace"])] = true
	case "DataVolume":
		role := cloneRole(fmt.Sprint(at(spec, "source", "snapshot", "name")))
		o.clones[name] = role
		o.created[fmt.Sprintf("%s of namespace %v in %v", role, at(spec, "source", "snapshot", "namespace"), metadata["namespace"])] = true
	case "VirtualMachineTemplate":
		o.created[fmt.Sprintf("%s %s in %v", templateRole, name, metadata["namespace"])] = true
		vm, _ := spec["virtualMachine"].(map[string]any)
		o.vm = o.normal(vm)
		o.parameters = parametersText(spec["parameters"])
		o.labels = map[string]string{}
		labels, _ := metadata["labels"].(map[string]any)
		for key, value := range labels {
			o.labels[key] = fmt.Sprint(value)
		}
	}
}

// parametersText are the parameters without what Virtward adds: descriptions, patterns and the dollar sign.
func parametersText(list any) string {
	var texts []string
	parameters, _ := list.([]any)
	for _, one := range parameters {
		p, _ := one.(map[string]any)
		if p["name"] != "DOLLAR" {
			texts = append(texts, fmt.Sprint(p["name"], p["value"], p["generate"], p["from"], p["required"]))
		}
	}
	return strings.Join(texts, "; ")
}

// at is a value within objects; nil if there is none.
func at(object any, path ...string) any {
	for _, name := range path {
		members, _ := object.(map[string]any)
		object = members[name]
	}
	return object
}

func (o *captureOutcome) handOver(v *cdiv1beta1.DataVolume) {
	if owner := metav1.GetControllerOf(v); owner != nil && owner.Kind == "VirtualMachineTemplate" {
		o.handedOver[o.clones[v.Name]] = true
	}
}

func (o *captureOutcome) remove(object client.Object) {
	switch object := object.(type) {
	case *snapshotv1beta1.VirtualMachineSnapshot:
		o.removed[snapshotRole] = true
	case *v1beta1.VirtualMachineTemplate:
		o.removed[templateRole] = true
	case *metav1.PartialObjectMetadata:
		o.removed[o.clones[object.Name]] = true
	case *v1beta1.VirtualMachineTemplateRequest:
		o.removed[requestRole] = true
	}
}

// step records the conditions after an event: whether the capture progresses, and whether the template is ready.
func (o *captureOutcome) step(conditions []metav1.Condition, reference *v1beta1.TemplateReference) {
	status := func(kind string) string {
		if c := meta.FindStatusCondition(conditions, kind); c != nil {
			return string(c.Status)
		}
		return "absent"
	}
	o.end = "Progressing " + status("Progressing") + ", Ready " + status("Ready")
	o.steps = append(o.steps, o.end)
	o.reference = ""
	if reference != nil {
		o.reference = reference.Name
	}
}

// use validates the template, and makes a VirtualMachine of it.
func (o *captureOutcome) use(template *v1beta1.VirtualMachineTemplate) error {
	if template == nil {
		return nil
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	o.admitted = !templates.Denied(templates.Check(&template.Spec, random))
	rendered, _ := templates.Render(&template.Spec, map[string]string{"NAME": "clone1"}, templates.Options{Random: random})
	if rendered == nil {
		return nil
	}
	data, err := json.Marshal(rendered.VirtualMachine)
	if err != nil {
		return err
	}
	var vm map[string]any
	if err := json.Unmarshal(data, &vm); err != nil {
		return err
	}
	o.processed = o.normal(vm)
	return nil
}

// normal is a VirtualMachine without nulls, empty resources and metadata, kind and status, and with the roles of clones in
// the place of their names.
func (o *captureOutcome) normal(vm map[string]any) map[string]any {
	vm = maps.Clone(vm)
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(vm, name)
	}
	cleaned, _ := o.clean("", vm).(map[string]any)
	return cleaned
}

func (o *captureOutcome) clean(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for key, member := range v {
			if member = o.clean(key, member); member != nil {
				object[key] = member
			}
		}
		if len(object) == 0 && slices.Contains([]string{"resources", "metadata", "status", "devices"}, name) {
			return nil
		}
		if role, isClone := o.clones[fmt.Sprint(object["name"])]; name == "pvc" && isClone {
			object["name"] = role
		}
		return object
	case []any:
		list := make([]any, 0, len(v))
		for _, element := range v {
			list = append(list, o.clean("", element))
		}
		if name == "dataVolumeTemplates" { // their order means nothing
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
		}
		return list
	}
	return value
}

// recordedOutcome is that of virt-template.
func recordedOutcome(c *CaptureCase) *captureOutcome {
	o := newCaptureOutcome()
	for i := range c.Expect.Steps {
		s := &c.Expect.Steps[i]
		slices.SortStableFunc(s.Created, func(a, b map[string]any) int { // clones before the template that names them
			return strings.Compare(fmt.Sprint(a["kind"]), fmt.Sprint(b["kind"]))
		})
		for _, object := range s.Created {
			o.record(object)
		}
		for _, object := range s.Changed {
			if object["kind"] == "DataVolume" {
				o.handedOver[o.clones[fmt.Sprint(at(object, "metadata", "name"))]] = true
			}
		}
		for _, text := range s.Deleted {
			kind, name, _ := strings.Cut(text, " ")
			switch kind {
			case "VirtualMachineSnapshot":
				o.removed[snapshotRole] = true
			case "VirtualMachineTemplateRequest":
				o.removed[requestRole] = true
			case "DataVolume":
				_, name, _ = strings.Cut(name, "/")
				o.removed[o.clones[name]] = true
			}
		}
		if len(s.Status.Conditions) > 0 {
			o.step(s.Status.Conditions, s.Status.TemplateRef)
		}
	}
	if c.Expect.TemplateAdmission != nil {
		o.admitted = c.Expect.TemplateAdmission.Allowed
	}
	if at(c.Expect.Processed, "spec") != nil {
		o.processed = o.normal(c.Expect.Processed)
	}
	return o
}

// difference says what differs; empty if nothing does.
func (o *captureOutcome) difference(got *captureOutcome) string {
	if o.byRole {
		var err error
		if got, err = got.named(); err != nil {
			return err.Error()
		}
	}
	if o.anyTemplate {
		same := *got
		same.vm = o.vm
		got = &same
	}
	if o.removed[requestRole] && got.removed[requestRole] { // conditions of a deleted request mean nothing
		same := *got
		same.end, same.reference, same.steps = o.end, o.reference, o.steps
		got = &same
	}
	for _, d := range []struct {
		what      string
		want, got any
	}{
		{"created", sortedKeys(o.created), sortedKeys(got.created)},
		{"deleted", sortedKeys(o.removed), sortedKeys(got.removed)},
		{"handed over", sortedKeys(o.handedOver), sortedKeys(got.handedOver)},
		{"conditions at the end", o.end, got.end},
		{"status.templateRef", o.reference, got.reference},
		{"labels of the template", o.labels, got.labels},
		{"parameters", o.parameters, got.parameters},
		{"the template's VirtualMachine", o.vm, got.vm},
		{"whether the template is valid", o.admitted, got.admitted},
		{"the VirtualMachine", o.processed, got.processed},
	} {
		if want, is := canonical(d.want), canonical(d.got); want != is {
			return fmt.Sprintf("%s: %.900s, recorded %.900s", d.what, is, want)
		}
	}
	if o.steps != nil && !slices.Equal(o.steps, got.steps) {
		return fmt.Sprintf("conditions: %q, recorded %q", got.steps, o.steps)
	}
	return ""
}

func sortedKeys(set map[string]bool) []string {
	keys := slices.Sorted(maps.Keys(set))
	if keys == nil {
		return []string{}
	}
	return keys
}

func canonical(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// maxName is the length of a label.
const maxName = 63

// named is the outcome with roles in the place of the names of DataVolumes, which must be unique labels.
func (o *captureOutcome) named() (*captureOutcome, error) {
	named := *o
	for _, vm := range []*map[string]any{&named.vm, &named.processed} {
		var copied map[string]any
		if err := json.Unmarshal([]byte(canonical(*vm)), &copied); err != nil {
			return nil, err
		}
		roles := map[string]string{}
		list, _ := at(copied, "spec", "dataVolumeTemplates").([]any)
		for _, t := range list {
			metadata, _ := at(t, "metadata").(map[string]any)
			name, role := text(metadata["name"]), text(at(t, "spec", "source", "pvc", "name"))
			if role == "" {
				continue
			}
			if roles[name] != "" || len(name) > maxName {
				return nil, fmt.Errorf("the name %s is not unique, or longer than a label", name)
			}
			roles[name] = role
			metadata["name"] = role
		}
		volumes, _ := at(copied, "spec", "template", "spec", "volumes").([]any)
		for _, v := range volumes {
			if volume, is := at(v, "dataVolume").(map[string]any); is && roles[text(volume["name"])] != "" {
				volume["name"] = roles[text(volume["name"])]
			}
		}
		*vm = o.normal(copied)
	}
	return &named, nil
}
