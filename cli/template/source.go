package template

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/templates"
)

// source is where a template comes from: a file, or the cluster by its name.
type source struct {
	options.Sources

	name, file string
}

func (s *source) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&s.file, "filename", "f", "", "File with the template; - is standard input")
	flags.StringVar(&s.name, "name", "", "Name of the template in the cluster, as the argument")
	cmd.ValidArgsFunction = s.completeNames
	options.AddClusterFlags(cmd, s.Config, ", to read the template", "Namespace of the template")
}

// take takes the argument: a name, or - for standard input.
func (s *source) take(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return options.Usagef("name one template: see %s --help", cmd.CommandPath())
	case len(args) == 1 && args[0] == "-" && s.file == "" && s.name == "":
		s.file = "-"
	case len(args) == 1 && (s.name != "" || s.file != ""):
		return options.Usagef("name the template once: as the argument, with --name, or with -f")
	case len(args) == 1:
		s.name = args[0]
	}
	if (s.name == "") == (s.file == "") {
		return options.Usagef("name a template of the cluster, or a file with -f: see %s --help", cmd.CommandPath())
	}
	return nil
}

// read reads the template.
func (s *source) read(ctx context.Context, stdin io.Reader) (*v1beta1.VirtualMachineTemplate, error) {
	if s.file == "" {
		return s.get(ctx)
	}
	return ReadFile(ctx, s.file, stdin)
}

// ReadFile reads the template of a file, which has no other object. The name - is that of standard input.
func ReadFile(ctx context.Context, file string, stdin io.Reader) (*v1beta1.VirtualMachineTemplate, error) {
	document, err := readOne(ctx, file, stdin)
	if err != nil {
		return nil, err
	}
	object := document.Object
	if templates.IsOpenShiftTemplate(object) {
		return nil, fmt.Errorf("%s: it is a Template of OpenShift: convert it with template convert", document.Location())
	}
	if object.GetKind() != apikinds.VirtualMachineTemplate || object.GroupVersionKind().Group != v1beta1.GroupVersion.Group {
		return nil, fmt.Errorf("%s: %s is not a VirtualMachineTemplate of %s", document.Location(), object.GetKind(), v1beta1.GroupVersion.Group)
	}
	if err := schemas.Match("", object.GroupVersionKind()); err != nil {
		return nil, fmt.Errorf("%s: apiVersion: %w", document.Location(), err)
	}
	template, err := decode(object, true)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", document.Location(), err)
	}
	return template, nil
}

// readOne reads the only object of a file.
func readOne(ctx context.Context, file string, stdin io.Reader) (manifests.Document, error) {
	found, err := manifests.ReadAll(ctx, []string{file}, false, stdin)
	if err != nil {
		return manifests.Document{}, err
	}
	if len(found) != 1 {
		return manifests.Document{}, fmt.Errorf("%s: it has %d objects, and must have one", manifests.Name(file), len(found))
	}
	return found[0], nil
}

// decode reads a template. Where it is strict, an unknown field is an error.
func decode(object *unstructured.Unstructured, strict bool) (*v1beta1.VirtualMachineTemplate, error) {
	written, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(written))
	if strict {
		decoder.DisallowUnknownFields()
	}
	template := &v1beta1.VirtualMachineTemplate{}
	if err := decoder.Decode(template); err != nil {
		return nil, fmt.Errorf("it is not a VirtualMachineTemplate: %w", err)
	}
	return template, nil
}

// get reads the template from the cluster.
func (s *source) get(ctx context.Context) (*v1beta1.VirtualMachineTemplate, error) {
	cluster, err := options.Connect(s.Config)
	if err != nil {
		return nil, err
	}
	object, err := cluster.Client.Resource(v1beta1.GroupVersion.WithResource("virtualmachinetemplates")).Namespace(s.Namespace(cluster)).Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	return decode(object, false)
}
