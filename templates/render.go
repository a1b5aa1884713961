package templates

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubevirtv1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

// The bounds of a rendered VirtualMachine. etcd takes 1.5 MiB.
const (
	maxRendered = 3 << 19
	maxDepth    = 200
	// maxPath bounds a path in a finding, and maxPathName each name in it, in bytes. Keys of Kubernetes have at most 317.
	maxPath     = 2 << 10
	maxPathName = 320
	// maxUnknown bounds the paths of what depends on values that are not known.
	maxUnknown = 5000
	// maxReplaced bounds the bytes of all replacements, also of those that are not written because a field takes no text.
	maxReplaced = 4 * maxRendered
)

// virtualMachineAt is where the VirtualMachine is in a template.
const virtualMachineAt = "spec.virtualMachine"

// Rendered is a VirtualMachine made of a template.
type Rendered struct {
	VirtualMachine *kubevirtv1.VirtualMachine
	Message        string
	// Values are those of all parameters, by their names.
	Values map[string]string
	// restricted are the findings that hold only where templates must be approved.
	restricted []validators.Finding
}

// Options of a render.
type Options struct {
	// Random draws generated values.
	Random Random
	// Approved: only approved templates may be used. So a given value must not add fields to the VirtualMachine, must not
	// change the structure of a text, and must be constrained in a text whose form is not known. Elsewhere the first two are
	// warnings.
	Approved bool
}

// Render makes a VirtualMachine of a template with values for its parameters. The findings are all that is wrong, sorted;
// the result is nil if one of them denies it.
func Render(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, options Options) (*Rendered, []validators.Finding) {
	return (&renderer{report: &report{}, options: options}).run(spec, given, false)
}

// Check validates a template as it is: with its default values. What depends on the value of a required parameter
// without a default is not validated, and a finding says so.
func Check(spec *v1beta1.VirtualMachineTemplateSpec, random Random) []validators.Finding {
	_, findings := Preview(spec, nil, random)
	return findings
}

// run renders the template. In a partial run, required parameters may lack a value.
func (r *renderer) run(spec *v1beta1.VirtualMachineTemplateSpec, given map[string]string, partial bool) (*Rendered, []validators.Finding) {
	tree := r.parse(spec.VirtualMachine)
	w := newReferences(spec.Parameters)
	if tree != nil {
		w.walkAll(tree)
	}
	for _, name := range namesIn(spec.Message) { // a message has the text, also for ${{NAME}}
		w.asText[name] = true
	}
	r.values = (&resolver{report: r.report, given: given, random: r.options.Random, partial: partial, references: w}).resolve(spec.Parameters)
	r.checkReferences(w, spec)
	if tree != nil {
		r.object(tree, virtualMachineShape(), false)
	}
	message := r.message(spec.Message)
	var vm *kubevirtv1.VirtualMachine
	if !Denied(r.findings) {
		vm = r.decode()
	}
	findings := r.sorted()
	if vm == nil || Denied(findings) {
		return nil, findings
	}
	values := make(map[string]string, len(r.values))
	for name, v := range r.values {
		values[name] = v.text
	}
	return &Rendered{VirtualMachine: vm, Message: message, Values: values, restricted: r.restricted}, findings
}

// renderer writes the JSON of the VirtualMachine.
type renderer struct {
	*report

	options Options
	values  map[string]*value
	out     []byte
	path    []step
	tooLong bool
	// replaced counts the bytes of the values that were inserted, compared those of the texts that were parsed.
	replaced, compared int
	// restricted are the findings that hold only where templates must be approved.
	restricted []validators.Finding
	// unknown are the paths of what depends on values that are not known.
	unknown []string
}

// message renders the template's message. ${{NAME}} is replaced with the text.
func (r *renderer) message(message string) string {
	if message == "" {
		return ""
	}
	r.path = nil
	segments := split(message)
	if name, whole := wholeReference(message); whole {
		segments = []segment{{text: name, reference: true}}
	}
	var b strings.Builder
	for _, s := range segments {
		part := s.text
		if s.reference {
			v := r.values[s.text]
			if v == nil {
				continue
			}
			part = v.text
		}
		if b.Len()+len(part) > maxRendered {
			r.deny(RuleTooLarge, &field.Error{Type: field.ErrorTypeTooLong, Field: "spec.message", BadValue: "", Detail: fmt.Sprintf("the rendered message has more than %d bytes", maxRendered)})
			return ""
		}
		b.WriteString(part)
	}
	return b.String()
}

// decode reads the VirtualMachine that was written. Fields that the API server sets are removed.
func (r *renderer) decode() *kubevirtv1.VirtualMachine {
	vm := &kubevirtv1.VirtualMachine{}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(r.out, vm); err != nil {
		if len(r.unknown) > 0 { // a type that decodes itself may not take null
			return nil
		}
		r.deny(RuleDoesNotDecode, invalid(virtualMachineAt, "", err.Error()))
		return nil
	}
	vm.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	vm.Status = kubevirtv1.VirtualMachineStatus{}
	kept := vm.ObjectMeta
	vm.ObjectMeta = metav1.ObjectMeta{
		Name: kept.Name, GenerateName: kept.GenerateName, Namespace: kept.Namespace, Labels: kept.Labels, Annotations: kept.Annotations, Finalizers: kept.Finalizers,
	}
	return vm
}
