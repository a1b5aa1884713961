package effective

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
)

// Container is an object that virtual machines are made from, such as a VirtualMachinePool.
type Container struct {
	Kind string
	// Object is the object itself, and Old the one before an update; nil if there was none.
	Object, Old any
	// Template is the path of the VM or the VMI in it.
	Template *field.Path
}

// The kinds by which policies know what is evaluated.
const (
	kindVM  = string(policyv1alpha1.PolicyVirtualMachine)
	kindVMI = string(policyv1alpha1.PolicyVirtualMachineInstance)
)

// evaluatePolicies adds the findings of the admin's policies. They name fields of the object that was sent. Fields in the
// template of a container become fields of the VM or the VMI. It returns the findings about the container itself.
func (p *Pipeline) evaluatePolicies(v *Verdict, in *Input) (ofContainer []validators.Finding) {
	if len(in.Policies.Policies()) == 0 || v.VM != nil && in.VM.Spec.Template == nil {
		return nil
	}
	previews, bytes := p.previews(in, v)
	if in.Evaluating != nil {
		defer in.Evaluating(bytes)()
	}
	d := documents(in, v)
	d.Previews = previews
	var found []validators.Finding
	if in.Request.Operation == "" {
		found = in.Policies.Audit(d, in.Now)
	} else {
		found = in.Policies.Evaluate(d, in.Now)
	}
	if in.Container == nil {
		v.Findings = append(v.Findings, found...)
		return nil
	}
	template := in.Container.Template.String() + "."
	for i := range found {
		rest, inside := strings.CutPrefix(found[i].Error.Field, template)
		if !inside {
			ofContainer = append(ofContainer, found[i])
			continue
		}
		found[i].Error.Field = rest
		v.Findings = append(v.Findings, found[i])
	}
	return ofContainer
}

// documents are what policies see.
func documents(in *Input, v *Verdict) *cel.Documents {
	vm, atRunTime := completed(running(in, v))
	atRunTime = withoutGiven(atRunTime, ofInstance(in, v.Changes))
	d := &cel.Documents{
		VM: vm, Request: in.Request, Namespace: in.Namespace, Facts: in.Facts, Requester: in.Requester, Author: in.Author, Rollout: in.Rollout, References: in.Gathered, MoreReferences: in.GatherMore, Authorizer: in.Authorizer, AuthorizerApart: in.AuthorizerApart,
		Provenance: ofRunning(in, v.Changes, atRunTime), AtRunTime: atRunTime, Gone: in.Gone, Hurry: in.Hurry, Large: in.Large, OnlyDenying: in.OnlyDenying, OwnerLabels: in.OwnerLabels,
	}
	switch {
	case in.Container != nil:
		d.Kind, d.Object, d.OldObject = in.Container.Kind, in.Container.Object, in.Container.Old
	case in.VM != nil:
		d.Kind, d.Object = kindVM, in.VM
		if in.OldVM != nil {
			d.OldObject = in.OldVM
		}
	default:
		d.Kind, d.Object = kindVMI, in.VMI
		if in.OldVMI != nil {
			d.OldObject = in.OldVMI
		}
	}
	switch {
	case in.Request.Operation == string(policyv1alpha1.PolicyDelete):
		d.Object, d.OldObject = nil, d.Object
	case d.OldObject == nil && in.Request.Operation == string(policyv1alpha1.PolicyUpdate):
		d.OldObject = d.Object // as in an update that changes nothing
	}
	if in.Instancetype != nil {
		d.Instancetype = &in.Instancetype.Spec
	}
	if in.Preference != nil {
		d.Preference = &in.Preference.Spec
	}
	return d
}

// running is the virtual machine that will run: the VMI as it arrived or is complete, or the one that KubeVirt makes
// of the VM.
func running(in *Input, v *Verdict) *v1.VirtualMachineInstance {
	if in.VMI != nil && in.PostMutation {
		return in.VMI
	}
	return v.instance()
}

// instance is the complete VMI, or the one that KubeVirt makes of the VM.
func (v *Verdict) instance() *v1.VirtualMachineInstance {
	if v.VM == nil {
		return v.VMI
	}
	template := &v.VM.Spec.Template.ObjectMeta
	vmi := &v1.VirtualMachineInstance{Spec: *v.Spec}
	vmi.ObjectMeta = metav1.ObjectMeta{
		Name: v.VM.Name, GenerateName: v.VM.GenerateName, Namespace: v.VM.Namespace,
		Labels: template.Labels, Annotations: template.Annotations,
	}
	if len(v.Annotations) > 0 {
		vmi.Annotations = make(map[string]string, len(template.Annotations)+len(v.Annotations))
		maps.Copy(vmi.Annotations, template.Annotations)
		maps.Copy(vmi.Annotations, v.Annotations)
	}
	return vmi
}

// ofInstance are the changes to the VMI, at its own fields. Those to one that arrived are what it came without.
func ofInstance(in *Input, changes []provenance.Change) []provenance.Change {
	if in.VMI != nil {
		if in.PostMutation {
			return nil
		}
		return changes
	}
	return ofTemplate(changes)
}

// ofTemplate are the changes to the template of a VM, at the fields of its instance.
func ofTemplate(changes []provenance.Change) []provenance.Change {
	template := templatePath.String() + "."
	found := make([]provenance.Change, 0, len(changes))
	for i := range changes {
		if rest, ok := strings.CutPrefix(changes[i].Path, template); ok {
			c := changes[i]
			c.Path = rest
			found = append(found, c)
		}
	}
	return found
}

// ofRunning adds the values at run time to the changes of an instance. An instance that arrived has none.
func ofRunning(in *Input, changes, atRunTime []provenance.Change) []provenance.Change {
	if in.VMI != nil && in.PostMutation {
		return nil
	}
	return slices.Concat(ofInstance(in, changes), atRunTime)
}

// withoutGiven removes run-time values inside of what an instancetype or a preference gave: findings about them are at the
// field that names it.
func withoutGiven(atRunTime, changes []provenance.Change) []provenance.Change {
	given := map[string]bool{}
	for i := range changes {
		if strings.HasPrefix(changes[i].Layer, "instancetype/") || strings.HasPrefix(changes[i].Layer, "preference/") {
			given[changes[i].Path] = true
		}
	}
	if len(given) == 0 {
		return atRunTime
	}
	return slices.DeleteFunc(atRunTime, func(value provenance.Change) bool {
		for end := range len(value.Path) {
			if next := value.Path[end]; (next == '.' || next == '[') && given[value.Path[:end]] {
				return true
			}
		}
		return given[value.Path]
	})
}

// place moves findings on a template to the path of the template in its container, and adds those on the container.
func (v *Verdict) place(container *Container, others []validators.Finding) {
	if container == nil {
		return
	}
	within(container.Template, v.Findings)
	v.Findings = append(v.Findings, others...)
}

// inContainer is a document in the place of the template of its container.
func inContainer(container *Container, document map[string]any) map[string]any {
	if container == nil {
		return document
	}
	outer := fieldsOf(container.Object)
	if outer == nil {
		return document
	}
	if err := unstructured.SetNestedField(outer, document, fieldpath.Split(container.Template.String())...); err != nil {
		return document
	}
	return outer
}
