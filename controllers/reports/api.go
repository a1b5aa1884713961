package reports

import (
	"fmt"
	"slices"
	"strings"

	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// API is one that clusters have for reports. The zero value is none.
type API struct {
	version        schema.GroupVersion
	kind, resource string
	// whole tells that it has all fields of a Report. If not, it has neither a source nor a configuration of a whole report.
	whole bool
}

// APIs are those that reports can be written to. The first one is the default: https://openreports.io. The other one is that of
// Kubernetes' policy working group, from which OpenReports came. Its results have the same fields, and more programs show it.
func APIs() []API {
	return []API{
		{openreports.SchemeGroupVersion, "Report", "reports", true},
		{schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"}, "PolicyReport", "policyreports", false},
	}
}

// APIsNamed finds APIs by their names, such as wgpolicyk8s.io/v1alpha2.
func APIsNamed(names []string) ([]API, error) {
	var found []API
	for _, name := range names {
		at := slices.IndexFunc(APIs(), func(a API) bool { return a.Name() == name })
		switch {
		case at < 0:
			return nil, fmt.Errorf("%q is no API of reports: it must be one of %s", name, strings.Join(Names(), ", "))
		case slices.Contains(found, APIs()[at]):
			return nil, fmt.Errorf("%q is named twice", name)
		}
		found = append(found, APIs()[at])
	}
	return found, nil
}

// Names are those of all APIs.
func Names() []string {
	var names []string
	for _, api := range APIs() {
		names = append(names, api.Name())
	}
	return names
}

// Name is the group and the version.
func (a API) Name() string { return a.version.String() }

// reduced is a Report as the API stores it, so that it can be compared with what is stored.
func (a API) reduced(report *openreports.Report) *openreports.Report {
	if report != nil && !a.whole {
		report.Source, report.Configuration = "", nil
	}
	return report
}

// empty is an object to read into.
func (a API) empty() client.Object {
	if a.whole {
		return &openreports.Report{}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(a.version.WithKind(a.kind))
	return object
}

func (a API) decode(object client.Object) (*openreports.Report, error) {
	if report, is := object.(*openreports.Report); is {
		return report, nil
	}
	report := &openreports.Report{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, report); err != nil {
		return nil, fmt.Errorf("decoding a %s: %w", a.kind, err)
	}
	return report, nil
}

func (a API) encode(report *openreports.Report) (client.Object, error) {
	if a.whole {
		return report, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(report)
	if err != nil {
		return nil, fmt.Errorf("encoding a %s: %w", a.kind, err)
	}
	delete(content, "source")
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(a.version.WithKind(a.kind))
	return object, nil
}
