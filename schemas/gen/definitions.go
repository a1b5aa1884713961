package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// own is the folder of the archive with the definitions of the chart.
const own = "virtward"

// chartFolders has the folders of the chart with definitions.
var chartFolders = []string{"definitions", "template-definitions"}

// addDefinitions adds the definitions of a folder.
func addDefinitions(entries map[string][]byte, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no definition", folder)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, d); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if err := addDefinition(entries, own, d); err != nil {
			return err
		}
	}
	return nil
}

// addDefinition adds the parts of a definition that decide which objects are valid. It keeps the descriptions of Virtward's own
// kinds. Those of KubeVirt are in its Go types.
func addDefinition(entries map[string][]byte, folder string, d *apiextensionsv1.CustomResourceDefinition) error {
	short := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: d.Spec.Group, Scope: d.Spec.Scope,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: d.Spec.Names.Kind, Plural: d.Spec.Names.Plural},
	}}
	for _, v := range d.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			return fmt.Errorf("%s: version %s has no schema", d.Name, v.Name)
		}
		short.Spec.Versions = append(short.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v.Name, Served: v.Served, Storage: v.Storage, Subresources: v.Subresources, Schema: v.Schema,
		})
	}
	content, err := json.Marshal(short.Spec)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name, err)
	}
	var spec any
	if err := json.Unmarshal(content, &spec); err != nil {
		return err
	}
	if folder != own {
		withoutDescriptions(spec)
	}
	if content, err = json.Marshal(spec); err != nil {
		return err
	}
	entries[path.Join(folder, d.Spec.Group, d.Spec.Names.Kind+".json")] = content
	return nil
}

// withoutDescriptions removes the descriptions of schemas. A property of the name description is no text, and stays.
func withoutDescriptions(value any) {
	switch v := value.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, child := range v {
			withoutDescriptions(child)
		}
	case []any:
		for _, child := range v {
			withoutDescriptions(child)
		}
	}
}
