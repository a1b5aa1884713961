package templates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// ConvertCase is an OpenShift Template of a public repository: a line of convert.jsonl.
type ConvertCase struct {
	ID     string `json:"id"`
	Area   string `json:"area"`
	Source struct {
		Name string `json:"name"`
		Path string `json:"path"`
	} `json:"source"`
	Expect ConvertAnswer `json:"expect"`
}

// ConvertAnswer sums up the template that virtctl wrote.
type ConvertAnswer struct {
	Error                    string              `json:"error"`
	APIVersion               string              `json:"apiVersion"`
	Kind                     string              `json:"kind"`
	Name                     string              `json:"name"`
	Namespace                string              `json:"namespace"`
	Annotations              int                 `json:"annotations"`
	Labels                   int                 `json:"labels"`
	Message                  bool                `json:"message"`
	Parameters               []v1beta1.Parameter `json:"parameters"`
	ProcessedWith            []string            `json:"processedWith"`
	Processed                string              `json:"processed"`
	VirtualMachineAPIVersion string              `json:"virtualMachineApiVersion"`
	VirtualMachineKind       string              `json:"virtualMachineKind"`
}

// bundles are the OpenShift Templates of a directory.
type bundles map[string]*unstructured.Unstructured

// startConvert reads the Templates. Without a directory, all cases are skipped.
func startConvert(o Options) (Replay, error) {
	found := bundles{}
	if o.Sources != "" {
		if err := found.read(o.Sources); err != nil {
			return nil, err
		}
	}
	return func(line []byte) (Result, error) {
		var c ConvertCase
		if err := json.Unmarshal(line, &c); err != nil {
			return Result{}, err
		}
		return found.run(&c), nil
	}, nil
}

// read reads all files of a directory and its subdirectories. A Template is found by the name of its file and its own.
func (b bundles) read(directory string) error {
	return filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		documents, err := manifests.ReadAll(context.Background(), []string{path}, false, os.Stdin)
		if err != nil {
			return err
		}
		for _, document := range documents {
			if templates.IsOpenShiftTemplate(document.Object) {
				b[filepath.Base(path)+"/"+document.Object.GetName()] = document.Object
			}
		}
		return nil
	})
}

// run converts the Template of a case, and renders it.
func (b bundles) run(c *ConvertCase) Result {
	result := Result{ID: c.ID, Area: c.Area, Outcome: Other}
	source := b[filepath.Base(c.Source.Path)+"/"+c.Source.Name]
	if source == nil {
		result.Outcome, result.Difference = Skipped, "there is no Template "+c.Source.Name+" of "+c.Source.Path
		return result
	}
	others := len(objectsOf(source)) - 1
	got, notes, err := answerOf(source, c.Expect.ProcessedWith)
	switch {
	case c.Expect.Error != "" && err != nil:
		result.Outcome = Equal
	case c.Expect.Error != "" && others > 0 && len(notes) >= others:
		result.Outcome, result.Class = Better, "a Template with other objects is not converted"
	case c.Expect.Error != "":
		result.Difference = "recorded: " + c.Expect.Error + "; converted"
	case err != nil:
		result.Difference = err.Error()
	default:
		if result.Difference = cmp.Diff(&c.Expect, got, cmpopts.EquateEmpty()); result.Difference == "" {
			result.Outcome = Equal
		}
	}
	return result
}

func objectsOf(source *unstructured.Unstructured) []any {
	objects, _, _ := unstructured.NestedSlice(source.Object, "objects")
	return objects
}

// answerOf converts a Template, renders it, and sums up what came out. The notes name what is left out.
func answerOf(source *unstructured.Unstructured, given []string) (answer *ConvertAnswer, notes []string, err error) {
	template, notes, err := templates.Convert(source.DeepCopy())
	if err != nil {
		return nil, nil, err
	}
	values := map[string]string{}
	for _, name := range given {
		values[name] = "sample"
	}
	rendered, findings := templates.Render(&template.Spec, values, templates.Options{Random: rand.New(rand.NewPCG(1, 2))}) //nolint:gosec // a test
	if rendered == nil {
		return nil, nil, fmt.Errorf("it does not render: %w", firstOf(findings))
	}
	answer = &ConvertAnswer{
		APIVersion: template.APIVersion, Kind: template.Kind, Name: template.Name, Namespace: template.Namespace,
		Annotations: len(template.Annotations), Labels: len(template.Labels), Message: template.Spec.Message != "",
		ProcessedWith: given, Processed: "ok",
		VirtualMachineAPIVersion: rendered.VirtualMachine.APIVersion, VirtualMachineKind: rendered.VirtualMachine.Kind,
	}
	for _, p := range template.Spec.Parameters {
		answer.Parameters = append(answer.Parameters, v1beta1.Parameter{Name: p.Name, Value: p.Value, Generate: p.Generate, From: p.From, Required: p.Required})
	}
	return answer, notes, nil
}

// firstOf is the first finding that denies.
func firstOf(findings []validators.Finding) error {
	for i := range findings {
		if findings[i].Severity == validators.Deny {
			return findings[i].Error
		}
	}
	return errors.New("there is no finding")
}

// ConvertAll converts and renders all Templates of a directory. It returns their number, and what failed.
func ConvertAll(directory string) (converted int, failures []error, err error) {
	found := bundles{}
	if err := found.read(directory); err != nil {
		return 0, nil, err
	}
	for name, source := range found {
		if _, _, err := answerOf(source, nil); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
			continue
		}
		converted++
	}
	return converted, failures, nil
}
