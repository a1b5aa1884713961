// Command gen writes the schemas that the variables of policies are typed by: those of KubeVirt's definitions,
// made complete where a definition leaves parts out, and cut to what a type needs.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/domain"
)

type schema = apiextensionsv1.JSONSchemaProps

// source is one schema to write: a part of a definition.
type source struct {
	name       string // of the type, and of the file
	definition string // the file of the definition
	path       []string
}

// sources returns the schemas: one that is found within a later one becomes a reference there.
func sources() []source {
	all := []source{
		{name: "VirtualMachineInstanceSpec", definition: "virtualmachineinstances.kubevirt.io", path: []string{"spec"}},
		{name: "VirtualMachineSpec", definition: "virtualmachines.kubevirt.io", path: []string{"spec"}},
	}
	machines := apikinds.MachineKinds(func(m *apikinds.Machine) bool { return !m.Parameters })
	for i := range machines {
		all = append(all, source{name: machines[i].Kind, definition: machines[i].Plural + "." + machines[i].Group})
	}
	return append(
		all,
		source{name: apikinds.Plugins.Kind, definition: apikinds.Plugins.Plural + "." + apikinds.Plugins.Group},
		source{name: "VirtualMachineInstancetypeSpec", definition: "virtualmachineinstancetypes.instancetype.kubevirt.io", path: []string{"spec"}},
		source{name: "VirtualMachinePreferenceSpec", definition: "virtualmachinepreferences.instancetype.kubevirt.io", path: []string{"spec"}},
	)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: gen DEFINITIONS OUT")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run reads the definitions of a folder and writes the schemas into another.
func run(definitions, out string) (err error) {
	known := map[string]string{} // the text of a schema → the name of the type
	if err := write(out, "ObjectMeta", ofType(reflect.TypeFor[metav1.ObjectMeta]()), known); err != nil {
		return err
	}
	if err := write(out, "Domain", ofType(reflect.TypeFor[domain.Domain]()), map[string]string{}); err != nil {
		return err
	}
	defer func() {
		if err == nil { // last: it is not a part of others
			err = write(out, "PodSpec", ofType(reflect.TypeFor[corev1.PodSpec]()), known)
		}
	}()
	for _, s := range sources() {
		read, err := stored(filepath.Join(definitions, s.definition+".yaml"))
		if err != nil {
			return err
		}
		for _, name := range s.path {
			part, found := read.Properties[name]
			if !found {
				return fmt.Errorf("%s has no %s", s.definition, strings.Join(s.path, "."))
			}
			read = &part
		}
		if err := write(out, s.name, reduce("", *read), known); err != nil {
			return err
		}
	}
	return nil
}

// write writes a schema, in which the known ones are references, and makes it known.
func write(out, name string, s *schema, known map[string]string) error {
	whole, err := json.Marshal(s)
	if err != nil {
		return err
	}
	short, err := refer(s, known)
	if err != nil {
		return err
	}
	known[string(whole)] = name
	content, err := json.Marshal(short)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, name+".json"), append(content, '\n'), 0o644)
}

// stored is the schema of the version that a definition stores.
func stored(file string) (*schema, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, definition); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			return version.Schema.OpenAPIV3Schema, nil
		}
	}
	return nil, fmt.Errorf("%s stores no version", file)
}

// reduce keeps of a schema what the type of a value needs. Quantities, which may be written as numbers, are
// strings: the typed objects that policies read say them so. Metadata without a schema gets one.
func reduce(name string, s schema) *schema {
	if s.XIntOrString {
		if s.Pattern != "" {
			return &schema{Type: "string", Format: "quantity"}
		}
		return &schema{XIntOrString: true}
	}
	if name == "metadata" && s.Type == "object" && len(s.Properties) == 0 {
		return ofType(reflect.TypeFor[metav1.ObjectMeta]())
	}
	reduced := &schema{
		Format: s.Format, Type: s.Type, Enum: s.Enum, MaxItems: s.MaxItems, MaxLength: s.MaxLength, MaxProperties: s.MaxProperties,
	}
	if s.Type == "integer" {
		reduced.Format = "" // every integer is one of 64 bits to an expression
	}
	if s.Items != nil && s.Items.Schema != nil {
		reduced.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: reduce("", *s.Items.Schema)}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		reduced.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: reduce("", *s.AdditionalProperties.Schema)}
	}
	if s.Properties != nil {
		reduced.Properties = map[string]schema{}
		for name, property := range s.Properties {
			reduced.Properties[name] = *reduce(name, property)
		}
	}
	return reduced
}

// refer replaces the parts of a schema that are known by a reference to them.
func refer(s *schema, known map[string]string) (*schema, error) {
	whole, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if name, found := known[string(whole)]; found {
		return &schema{Ref: &name}, nil
	}
	short := *s
	if s.Items != nil {
		items, err := refer(s.Items.Schema, known)
		if err != nil {
			return nil, err
		}
		short.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: items}
	}
	if s.AdditionalProperties != nil {
		values, err := refer(s.AdditionalProperties.Schema, known)
		if err != nil {
			return nil, err
		}
		short.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: values}
	}
	if s.Properties != nil {
		short.Properties = map[string]schema{}
		for name, property := range s.Properties {
			replaced, err := refer(&property, known)
			if err != nil {
				return nil, err
			}
			short.Properties[name] = *replaced
		}
	}
	return &short, nil
}

// ofType is the schema of the JSON form of a Go type; definitions never carry that of their metadata. What is within itself has
// any content there.
func ofType(t reflect.Type, outer ...reflect.Type) *schema {
	entry := value.TypeReflectEntryOf(t)
	switch {
	case t.Kind() == reflect.Pointer:
		return ofType(t.Elem(), outer...)
	case t == reflect.TypeFor[resource.Quantity]():
		return &schema{Type: "string", Format: "quantity"}
	case t == reflect.TypeFor[intstr.IntOrString]():
		return &schema{XIntOrString: true}
	case t == reflect.TypeFor[metav1.Time]():
		return &schema{Type: "string", Format: "date-time"}
	case entry.CanConvertToUnstructured():
		return &schema{XPreserveUnknownFields: ptr.To(true)}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return &schema{Type: "integer"}
	case reflect.Slice:
		return &schema{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: ofType(t.Elem(), outer...)}}
	case reflect.Map:
		return &schema{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: ofType(t.Elem(), outer...)}}
	case reflect.Struct:
		if slices.Contains(outer, t) {
			return &schema{XPreserveUnknownFields: ptr.To(true)}
		}
		object := &schema{Type: "object", Properties: map[string]schema{}}
		for _, field := range entry.OrderedFields() {
			object.Properties[field.JsonName] = *ofType(field.GetFrom(reflect.Zero(t)).Type(), append(slices.Clone(outer), t)...)
		}
		return object
	default:
		panic(fmt.Sprintf("the metadata of an object has a %s", t)) // a type of the library changed
	}
}
