package templates

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/conditions"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// The bounds of messages, in bytes.
const (
	maxMessage = 2048
	maxQuoted  = 512
)

// found is all evidence about a template.
type found struct {
	findings   []validators.Finding
	references []effective.Reference
	volumes    []evidence
	// rendered: the template makes a VirtualMachine.
	rendered bool
	// failure says why the template could not be observed; empty if it was. Then there is no other evidence.
	failure string
}

// report is the status: the condition Ready, the volumes and the parameters. Nothing that the controller does depends on it.
type report = statuses.Report[*v1beta1.VirtualMachineTemplate, v1beta1.VirtualMachineTemplateStatus]

// Events are the reasons of the events on templates.
var Events = events.Table{
	events.Normal(v1beta1.ReasonTemplateReady, "a virtual machine can be made of the template"),
	events.Warning(v1beta1.ReasonInvalid, "the template makes no virtual machine"),
	events.Warning(v1beta1.ReasonDenied, "the virtual machine of the template would be denied"),
	events.Warning(v1beta1.ReasonReferenceMissing, "an instancetype or a preference does not exist"),
	events.Warning(v1beta1.ReasonVolumeNotReady, "a volume is not ready"),
	events.Warning(v1beta1.ReasonNotObserved, "the template could not be evaluated"),
}

// transition returns an event if the template became ready, or is not ready any more.
func transition(before, after *v1beta1.VirtualMachineTemplateStatus) []events.Event {
	was, is := meta.FindStatusCondition(before.Conditions, v1beta1.TemplateReady), meta.FindStatusCondition(after.Conditions, v1beta1.TemplateReady)
	if was != nil && was.Status == is.Status && (is.Status == metav1.ConditionTrue || was.Reason == is.Reason) {
		return nil
	}
	return []events.Event{Events.Event(is.Reason, is.Message)}
}

// ready returns the condition Ready, from evidence.
func (f *found) ready(spec *v1beta1.VirtualMachineTemplateSpec) metav1.Condition {
	c := metav1.Condition{Type: v1beta1.TemplateReady, Status: metav1.ConditionFalse}
	denials := denialsOf(f.findings)
	missing := missingOf(f.references)
	volumes := notReadyOf(f.volumes)
	switch {
	case !f.rendered:
		c.Reason, c.Message = v1beta1.ReasonInvalid, cmp.Or(strings.Join(denials, "; "), "the template makes no VirtualMachine")
	case len(denials) > 0:
		c.Reason, c.Message = v1beta1.ReasonDenied, strings.Join(denials, "; ")
	case len(missing) > 0:
		c.Reason, c.Message = v1beta1.ReasonReferenceMissing, strings.Join(missing, "; ")
	case len(volumes) > 0:
		c.Reason, c.Message = v1beta1.ReasonVolumeNotReady, strings.Join(volumes, "; ")
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1beta1.ReasonTemplateReady, "a VirtualMachine can be made of the template"
	}
	if required := parametersOf(spec).Required; len(required) > 0 {
		c.Message = texts.Shorten(c.Message, maxMessage-maxQuoted-64) + "; not evaluated, because it depends on required parameters: " + texts.Shorten(strings.Join(required, ", "), maxQuoted)
	}
	c.Message = texts.Shorten(c.Message, maxMessage)
	return c
}

func denialsOf(findings []validators.Finding) (messages []string) {
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Deny {
			messages = append(messages, texts.Shorten(f.PublicField()+": "+f.PublicText(), maxQuoted))
		}
	}
	return messages
}

func missingOf(references []effective.Reference) (messages []string) {
	for _, r := range references {
		switch {
		case r.State == effective.Found:
		case r.Name == "": // its name is from an object that a reader of the template need not be allowed to read
			messages = append(messages, r.Field+": the object that is inferred from a volume does not exist, or cannot be read")
		default:
			messages = append(messages, fmt.Sprintf("%s: %s %s does not exist, or cannot be read", r.Field, r.Kind, r.Name))
		}
	}
	return messages
}

func notReadyOf(volumes []evidence) (messages []string) {
	for i := range volumes {
		if v := &volumes[i]; v.status == metav1.ConditionFalse {
			messages = append(messages, "volume "+v.volume+": "+v.message)
		}
	}
	return messages
}

// parametersOf returns the names of the parameters.
func parametersOf(spec *v1beta1.VirtualMachineTemplateSpec) *v1beta1.TemplateParameters {
	p := &v1beta1.TemplateParameters{}
	for i := range spec.Parameters {
		if one := &spec.Parameters[i]; one.Required && one.Value == "" && one.Generate == "" {
			p.Required = append(p.Required, one.Name)
		} else {
			p.Optional = append(p.Optional, one.Name)
		}
	}
	return p
}

// part returns the fields of the status that this controller writes.
func (f *found) part(template *v1beta1.VirtualMachineTemplate, now time.Time) *v1beta1.VirtualMachineTemplateStatus {
	if f.failure != "" {
		status := own(template.Status.DeepCopy())
		c := statuses.Unobserved(status.Conditions, v1beta1.TemplateReady, v1beta1.ReasonNotObserved, template.Generation, f.failure)
		conditions.Set(&status.Conditions, c, template.Generation, metav1.NewTime(now))
		return status
	}
	c := f.ready(&template.Spec)
	status := &v1beta1.VirtualMachineTemplateStatus{Parameters: parametersOf(&template.Spec)}
	if before := meta.FindStatusCondition(template.Status.Conditions, v1beta1.TemplateReady); before != nil {
		status.Conditions = []metav1.Condition{*before.DeepCopy()}
	}
	conditions.Set(&status.Conditions, c, template.Generation, metav1.NewTime(now))
	for i := range f.volumes {
		if i == v1beta1.MaxTemplateVolumes {
			break
		}
		v := &f.volumes[i]
		one := v1beta1.TemplateVolume{Name: texts.Shorten(v.volume, 253), Kind: v.kind.Kind, SourceNamespace: texts.Shorten(v.Namespace, 253), SourceName: texts.Shorten(v.Name, 253)}
		at := slices.IndexFunc(template.Status.Volumes, func(t v1beta1.TemplateVolume) bool {
			return t.Name == one.Name && t.Kind == one.Kind && t.SourceNamespace == one.SourceNamespace && t.SourceName == one.SourceName
		})
		if at >= 0 {
			one.Conditions = slices.Clone(template.Status.Volumes[at].Conditions)
		}
		conditions.Set(&one.Conditions, metav1.Condition{Type: v1beta1.TemplateReady, Status: v.status, Reason: v.reason, Message: texts.Shorten(v.message, maxQuoted)}, template.Generation, metav1.NewTime(now))
		status.Volumes = append(status.Volumes, one)
	}
	return status
}

// own returns the fields of a status that this controller writes.
func own(status *v1beta1.VirtualMachineTemplateStatus) *v1beta1.VirtualMachineTemplateStatus {
	part := &v1beta1.VirtualMachineTemplateStatus{Volumes: status.Volumes, Parameters: status.Parameters}
	if c := meta.FindStatusCondition(status.Conditions, v1beta1.TemplateReady); c != nil {
		part.Conditions = []metav1.Condition{*c}
	}
	return part
}
