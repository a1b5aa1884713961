package options

import (
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/texts"
)

// WriteObject writes an object as kubectl does: as JSON, YAML or a name, and by default the name and what was done with the
// object. kind is the resource and its group: virtualimage.kupenstack.io.
func WriteObject(w io.Writer, object *unstructured.Unstructured, output, kind, done string) error {
	object.SetManagedFields(nil)
	switch output {
	case OutputJSON:
		return texts.WriteJSON(w, object.Object)
	case OutputYAML:
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	case OutputName:
		done = ""
	}
	_, err := fmt.Fprintln(w, strings.TrimSpace(kind+"/"+texts.OneLine(object.GetName())+" "+done))
	return err
}
