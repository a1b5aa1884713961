package printers

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/texts"
)

// Document writes a value as JSON or YAML.
func Document(w io.Writer, format string, value any) error {
	if format == JSON {
		return texts.WriteJSON(w, value)
	}
	data, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the output as YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// Object writes an object as kubectl does: as JSON, YAML or a name, and by default the name and what was done with the object.
// kind is the resource and its group: virtualimage.kupenstack.io.
func Object(w io.Writer, object *unstructured.Unstructured, format, kind, done string) error {
	object.SetManagedFields(nil)
	switch format {
	case JSON, YAML:
		return Document(w, format, object.Object)
	case Name:
		done = ""
	}
	_, err := fmt.Fprintln(w, strings.TrimSpace(kind+"/"+texts.OneLine(object.GetName())+" "+done))
	return err
}
