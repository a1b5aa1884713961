package imports

import (
	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/templates"
)

// nameParameter is the parameter for the name of the virtual machine.
const nameParameter = "NAME"

// fromMachine makes a template of a virtual machine, whose volumes clone the imported disks. The claims are DataVolumes by the names of
// volumes.
func (o *Outcome) fromMachine(of *v1beta1.VirtualMachineTemplateImport, from *oci.Object, claims map[string]string) (*v1beta1.VirtualMachineTemplate, object, *Fault) {
	machine, e := object{}, &escaper{}
	err := utiljson.Unmarshal(from.Config, &machine)
	vm, is := e.value(machine["spec"]).(object)
	if err != nil || !is {
		return nil, nil, fault(v1beta1.ReasonNotImportable, "the virtual machine of the artifact has no spec")
	}
	removeIdentities(vm)
	sizes := o.sizes()
	var made []any
	for i := range from.Volumes {
		v := &from.Volumes[i]
		claim := claims[v.Name]
		if claim == "" {
			return nil, nil, withoutDisk(v)
		}
		escaped := e.text(v.Name)
		name := "${" + nameParameter + "}-" + escaped
		for _, volume := range objects(below(vm, "template", "spec")["volumes"]) {
			if volume["name"] == escaped {
				delete(volume, "persistentVolumeClaim")
				volume["dataVolume"] = object{"name": name}
			}
		}
		made = append(made, object{"metadata": object{"name": name}, "spec": object{
			"source":  object{"pvc": object{"namespace": of.Namespace, "name": claim}},
			"storage": object{"resources": object{"requests": object{"storage": resource.NewQuantity(ovf.VolumeSize(sizes[claim]), resource.BinarySI).String()}}},
		}})
	}
	if delete(vm, "dataVolumeTemplates"); len(made) > 0 {
		vm["dataVolumeTemplates"] = made
	}
	template := &v1beta1.VirtualMachineTemplate{}
	template.Spec.Parameters = []v1beta1.Parameter{{
		Name: nameParameter, Description: "The name of the virtual machine", Generate: v1beta1.GenerateExpression, From: TemplateName(of) + "-[a-z0-9]{8}",
	}}
	if e.escaped {
		template.Spec.Parameters = append(template.Spec.Parameters, templates.Dollar(templates.DollarParameter))
	}
	return template, object{"apiVersion": machine["apiVersion"], "kind": machine["kind"], "metadata": object{"name": "${" + nameParameter + "}"}, "spec": vm}, nil
}

// removeIdentities removes what only one virtual machine can have.
func removeIdentities(vm object) {
	spec := below(vm, "template", "spec")
	delete(spec, "hostname")
	domain := below(spec, "domain")
	delete(below(domain, "firmware"), "uuid")
	delete(below(domain, "firmware"), "serial")
	delete(below(domain, "chassis"), "serial")
	devices := below(domain, "devices")
	for _, nic := range objects(devices["interfaces"]) {
		delete(nic, "macAddress")
		delete(nic, "pciAddress")
	}
	for _, disk := range objects(devices["disks"]) {
		delete(disk, "serial")
		delete(below(disk, "disk"), "pciAddress")
	}
}

// below is an object below another one; nil if it does not exist.
func below(of object, names ...string) object {
	for _, name := range names {
		of, _ = of[name].(object)
	}
	return of
}

// escaper keeps text that looks like a reference to a parameter.
type escaper struct{ escaped bool }

func (e *escaper) text(text string) string {
	kept := templates.Escape(text, templates.DollarParameter)
	e.escaped = e.escaped || kept != text
	return kept
}

// value escapes all texts of a value, the keys of objects too.
func (e *escaper) value(of any) any {
	switch v := of.(type) {
	case object:
		escaped := make(object, len(v))
		for key, value := range v {
			escaped[e.text(key)] = e.value(value)
		}
		return escaped
	case []any:
		for i := range v {
			v[i] = e.value(v[i])
		}
	case string:
		return e.text(v)
	}
	return of
}
