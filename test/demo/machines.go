package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// explanation has the parts of the output of `kubectl virtward explain -o json` that the demo reads.
type explanation struct {
	Effective map[string]any `json:"effective"`
	Changes   []struct {
		Path  string `json:"path"`
		Layer string `json:"layer"`
		Value any    `json:"value"`
	} `json:"changes"`
}

// layerOf returns the layer that filled a field. It fails if the field has another value.
func (e *explanation) layerOf(path string, value any) (string, error) {
	for _, c := range e.Changes {
		if c.Path == path {
			if !reflect.DeepEqual(c.Value, value) {
				return "", fmt.Errorf("%s is %v, want %v", path, c.Value, value)
			}
			return c.Layer, nil
		}
	}
	return "", fmt.Errorf("%s is not filled", path)
}

// filled fails unless a layer filled the field with the value.
func (e *explanation) filled(path string, value any, layer string) error {
	got, err := e.layerOf(path, value)
	if err == nil && got != layer {
		err = fmt.Errorf("%s was filled by layer %s, want %s", path, got, layer)
	}
	return err
}

// specOfFile returns the VMI spec of an example.
func (s *show) specOfFile(file string) (map[string]any, error) {
	content, err := s.file(file)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	if err := yaml.UnmarshalStrict(content, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return specOf(object)
}

// explained shows the output of explain for a file, and returns it with the spec of the stored object.
func (s *show) explained(ctx context.Context, file, name string) (*explanation, map[string]any, error) {
	line := "kubectl virtward explain -f " + file + " --from-cluster -o "
	if _, err := s.does(ctx, alice, line+"table"); err != nil {
		return nil, nil, err
	}
	said := &explanation{}
	if err := s.decode(ctx, line+"json", said); err != nil {
		return nil, nil, err
	}
	object, err := s.stored(ctx, name)
	return said, object, err
}

// stored returns the VMI spec of a stored object.
func (s *show) stored(ctx context.Context, name string) (map[string]any, error) {
	var object map[string]any
	if err := s.decode(ctx, "kubectl get "+name+" -o json", &object); err != nil {
		return nil, err
	}
	return specOf(object)
}

// specOf returns the VMI spec of a VMI or a VM.
func specOf(object map[string]any) (map[string]any, error) {
	fields := []string{"spec"}
	if object["kind"] == "VirtualMachine" {
		fields = []string{"spec", "template", "spec"}
	}
	spec, found, err := unstructured.NestedMap(object, fields...)
	if err == nil && !found {
		err = errors.New("the object has no spec")
	}
	return spec, err
}

// withoutIdentity removes the random UUID of KubeVirt, and the empty values of its Go types.
func withoutIdentity(spec map[string]any) map[string]any {
	unstructured.RemoveNestedField(spec, "domain", "firmware", "uuid")
	for _, field := range []string{"firmware", "resources"} {
		if m, found, err := unstructured.NestedMap(spec, "domain", field); found && err == nil && len(m) == 0 {
			unstructured.RemoveNestedField(spec, "domain", field)
		}
	}
	return spec
}

// changes shows and returns the difference of two specs.
func (s *show) changes(from string, before map[string]any, to string, after map[string]any) ([]string, error) {
	written, err := yaml.Marshal(map[string]any{"spec": before})
	if err != nil {
		return nil, err
	}
	now, err := yaml.Marshal(map[string]any{"spec": after})
	if err != nil {
		return nil, err
	}
	lines := diff(string(written), string(now))
	s.difference(from, to, lines)
	return lines, nil
}

// ready is a command that waits until a VM is ready.
func ready(name string) string {
	return "kubectl wait vm/" + name + " --for=condition=Ready --timeout=60s"
}

// agrees fails unless a VMI has the spec that explain printed.
func (s *show) agrees(said *explanation, vmi map[string]any) error {
	spec, err := specOf(said.Effective)
	if err != nil {
		return err
	}
	spec, vmi = withoutIdentity(spec), withoutIdentity(vmi)
	if !reflect.DeepEqual(spec, vmi) {
		explained, err := yaml.Marshal(spec)
		if err != nil {
			return err
		}
		runs, err := yaml.Marshal(vmi)
		if err != nil {
			return err
		}
		return fmt.Errorf("the VMI differs from what explain says (-explain +VMI):\n%s", strings.Join(diff(string(explained), string(runs)), "\n"))
	}
	return nil
}

// expect fails unless a field of a spec has a value.
func expect(spec map[string]any, value any, fields ...string) error {
	got, _, err := unstructured.NestedFieldNoCopy(spec, fields...)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(got, value) {
		return fmt.Errorf("%v is %v, want %v", fields, got, value)
	}
	return nil
}
