package imports

import (
	"cmp"
	"encoding/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
)

type object = map[string]any

// adapt replaces parts of a template by those of the import: the instancetype, the preference and the storage.
func adapt(template *v1beta1.VirtualMachineTemplate, spec *v1beta1.VirtualMachineTemplateImportSpec) error {
	if spec.Instancetype == nil && spec.Preference == nil && spec.Storage == nil {
		return nil
	}
	machine := object{}
	if err := json.Unmarshal(template.Spec.VirtualMachine.Raw, &machine); err != nil {
		return fault(v1beta1.ReasonNotImportable, "the template cannot be decoded: %s", err)
	}
	vm := child(machine, "spec")
	if i := spec.Instancetype; i != nil {
		vm["instancetype"] = object{"kind": cmp.Or(i.Kind, apikinds.VirtualMachineClusterInstancetype), "name": i.Name}
		domain := child(child(child(vm, "template"), "spec"), "domain")
		delete(domain, "cpu")
		delete(domain, "memory")
		for _, list := range []string{"requests", "limits"} { // KubeVirt rejects them beside an instancetype
			resources := below(domain, "resources", list)
			delete(resources, "cpu")
			delete(resources, "memory")
		}
	}
	if p := spec.Preference; p != nil {
		vm["preference"] = object{"kind": cmp.Or(p.Kind, apikinds.VirtualMachineClusterPreference), "name": p.Name}
	}
	if spec.Storage != nil {
		volumes, _ := vm["dataVolumeTemplates"].([]any)
		for _, v := range volumes {
			of, _ := v.(object)
			store(storageOf(child(of, "spec")), spec.Storage)
		}
	}
	raw, err := json.Marshal(machine)
	if err != nil {
		return fault(v1beta1.ReasonNotImportable, "the template cannot be encoded: %s", err)
	}
	template.Spec.VirtualMachine.Raw = raw
	return nil
}

// storageOf is what a DataVolume says about its claim.
func storageOf(spec object) object {
	if claim, is := spec["pvc"].(object); is {
		return claim
	}
	return child(spec, "storage")
}

// store sets the class and the access mode of the volumes of virtual machines: those of the imported ones.
func store(storage object, wanted *v1beta1.ImportStorage) {
	if wanted.Class != "" {
		storage["storageClassName"] = wanted.Class
	}
	if wanted.AccessMode != "" {
		storage["accessModes"] = []any{wanted.AccessMode}
	}
}

// child is an object below another one. It is created if it does not exist.
func child(of object, name string) object {
	found, is := of[name].(object)
	if !is {
		found = object{}
		of[name] = found
	}
	return found
}
