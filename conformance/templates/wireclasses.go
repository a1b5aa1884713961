package templates

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
)

// wireClass is a known fault of virt-template.
type wireClass struct {
	name string
	// of reports by the input whether a case shows the fault.
	of func(*wireRun) bool
	// right reports whether Virtward gives the right answer.
	right func(*wireRun) bool
}

// wireClasses are the known faults, each with what is right. docs/internals/conformance.md explains them.
var wireClasses = []wireClass{
	{"a template that does not exist is a 500", (*wireRun).isMissing, code(http.StatusNotFound)},
	{"errors of the API server are a 500", (*wireRun).hasServerError, (*wireRun).passesServerError},
	{"an unknown parameter is a conflict", func(x *wireRun) bool { return x.Expect.Code == http.StatusConflict }, (*wireRun).isUnknownParameter},
	{"dryRun is not supported", func(x *wireRun) bool { return strings.Contains(x.Request.Query, "dryRun=") }, (*wireRun).isDryRun},
	{"any content type is JSON", (*wireRun).hasOtherContentType, code(http.StatusUnsupportedMediaType, http.StatusBadRequest)},
	{"bodies are not checked", (*wireRun).hasBadBody, (*wireRun).rejectsBody},
	{"bodies have no limit", func(x *wireRun) bool { return len(x.sent) > 3<<20 }, code(http.StatusRequestEntityTooLarge)},
	{"the answer's format is checked after the work", (*wireRun).hasUnknownAccept, func(x *wireRun) bool { return x.code == http.StatusNotAcceptable && len(x.calls) == 0 }},
	{"JSON is not tried after protobuf", (*wireRun).acceptsMore, func(x *wireRun) bool {
		return x.code == http.StatusCreated && x.parsed(x.body)["kind"] == "ProcessedVirtualMachineTemplate"
	}},
	{"fields of the API server are kept", (*wireRun).hasServerFields, (*wireRun).isWithoutServerFields},
	{"another namespace is a 500", (*wireRun).hasOtherNamespace, func(x *wireRun) bool { return x.code == http.StatusForbidden && len(x.calls) == 1 }},
	{"discovery names the kind of the answer", func(x *wireRun) bool { return strings.HasSuffix(x.Area, "/discovery") }, (*wireRun).discovers},
	{"only the first fault is reported", func(x *wireRun) bool { return x.Expect.Code == http.StatusUnprocessableEntity }, (*wireRun).namesMore},
}

func code(codes ...int) func(*wireRun) bool {
	return func(x *wireRun) bool { return slices.Contains(codes, x.code) }
}

func (x *wireRun) isMissing() bool {
	for i := range x.Templates {
		if t := &x.Templates[i]; strings.Contains(x.Request.Path, "/namespaces/"+t.Namespace+"/virtualmachinetemplates/"+t.Name+"/") {
			return false
		}
	}
	return x.TemplateAnswer == nil
}

func (x *wireRun) hasServerError() bool {
	return x.TemplateAnswer != nil || x.VirtualMachineAnswer != nil && x.VirtualMachineAnswer.Code >= http.StatusBadRequest
}

func (x *wireRun) passesServerError() bool {
	answer := x.TemplateAnswer
	if answer == nil {
		answer = x.VirtualMachineAnswer
	}
	got := x.parsed(x.body)
	message, _ := got["message"].(string)
	return x.code == int(answer.Code) && got["reason"] == string(answer.Reason) && message == answer.Message
}

func (x *wireRun) isUnknownParameter() bool {
	causes := causesOf(x.parsed(x.body))
	return x.code == http.StatusUnprocessableEntity && len(causes) > 0 && !slices.ContainsFunc(causes, func(c Cause) bool { return c.Class != "unknown-given-parameter" })
}

func (x *wireRun) isDryRun() bool {
	if !strings.Contains(x.Request.Query, "dryRun=All") {
		return x.code == http.StatusUnprocessableEntity && len(x.calls) == 0
	}
	return x.code == http.StatusCreated
}

func (x *wireRun) hasOtherContentType() bool {
	contentType := x.Request.Headers["Content-Type"]
	return contentType != "" && !strings.Contains(contentType, "json") && !strings.Contains(contentType, "yaml")
}

// hasBadBody reports whether a body is no ProcessOptions of the version in the path, or has names in the wrong case.
func (x *wireRun) hasBadBody() bool {
	var options struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Parameters map[string]string `json:"parameters"`
	}
	decoder := json.NewDecoder(bytes.NewReader(x.sent))
	if err := decoder.Decode(&options); err != nil || decoder.More() {
		return true
	}
	_, version, _ := strings.Cut(x.Request.Path, "/apis/")
	group, rest, _ := strings.Cut(version, "/")
	version, _, _ = strings.Cut(rest, "/")
	var names map[string]json.RawMessage
	if err := json.Unmarshal(x.sent, &names); err != nil {
		return true
	}
	for name := range names {
		if name != "parameters" && strings.EqualFold(name, "parameters") || strings.Contains(x.Request.Query, "fieldValidation=Strict") && !slices.Contains([]string{"apiVersion", "kind", "parameters"}, name) {
			return true
		}
	}
	return options.Kind != "" && options.Kind != "ProcessOptions" || options.APIVersion != "" && options.APIVersion != group+"/"+version
}

// rejectsBody reports whether a body is rejected, or a name in the wrong case is warned of.
func (x *wireRun) rejectsBody() bool {
	if x.code == http.StatusCreated {
		return strings.Contains(strings.Join(x.header.Values("Warning"), "\n"), "unknown field")
	}
	return x.code == http.StatusBadRequest && len(x.calls) == 0
}

func (x *wireRun) hasUnknownAccept() bool {
	accept := x.Request.Headers["Accept"]
	return accept != "" && !strings.Contains(accept, "json") && !strings.Contains(accept, "yaml") && !strings.Contains(accept, "*")
}

func (x *wireRun) acceptsMore() bool {
	accept := x.Request.Headers["Accept"]
	return strings.Contains(accept, "protobuf") && strings.Contains(accept, "json")
}

func (x *wireRun) hasOtherNamespace() bool {
	return strings.HasSuffix(x.Request.Path, "/create") && len(x.Templates) == 1 && strings.Contains(string(x.Templates[0].Spec.VirtualMachine.Raw), `"namespace"`) && len(x.Expect.Calls) == 2
}

func (x *wireRun) discovers() bool {
	resources, _ := x.parsed(x.body)["resources"].([]any)
	found := map[any]bool{}
	for _, one := range resources {
		if resource, ok := one.(map[string]any); ok && resource["kind"] == "ProcessOptions" {
			found[resource["name"]] = true
		}
	}
	return found[subresources.Resource+"/"+subresources.Process] && found[subresources.Resource+"/"+subresources.Create]
}

func (x *wireRun) namesMore() bool {
	got := causesOf(x.parsed(x.body))
	for _, recorded := range recordedCauses(x.parsed(x.Expect.Body)) {
		if !slices.ContainsFunc(got, func(c Cause) bool { return unequal([]Cause{recorded}, []Cause{c}) == "" }) {
			return false
		}
	}
	return x.code == http.StatusUnprocessableEntity
}

// hasServerFields reports whether the VirtualMachine of a template has fields that the API server sets.
func (x *wireRun) hasServerFields() bool {
	return slices.ContainsFunc(x.Templates, func(t v1beta1.VirtualMachineTemplate) bool {
		var vm map[string]any
		return t.Spec.VirtualMachine != nil && json.Unmarshal(t.Spec.VirtualMachine.Raw, &vm) == nil && withoutServerFields(vm)
	})
}

// isWithoutServerFields reports whether the VirtualMachine is rendered without these fields, and created without them. For one with a
// resourceVersion, the API server answers virt-template with an error.
func (x *wireRun) isWithoutServerFields() bool {
	got, want := x.parsed(x.body), x.parsed(x.Expect.Body)
	vm, _ := got["virtualMachine"].(map[string]any)
	if normalCode(x.code) != http.StatusOK || vm == nil {
		return false
	}
	if x.created != nil {
		data, err := json.Marshal(x.created)
		var sent map[string]any
		if err != nil || json.Unmarshal(data, &sent) != nil || withoutServerFields(sent) {
			return false
		}
	} else if withoutServerFields(vm) {
		return false
	}
	if normalCode(x.Expect.Code) != http.StatusOK {
		return x.created != nil
	}
	withoutServerFields(vm)
	if recorded, ok := want["virtualMachine"].(map[string]any); ok {
		withoutServerFields(recorded)
	}
	return withoutAdditions(got) == withoutAdditions(want)
}
