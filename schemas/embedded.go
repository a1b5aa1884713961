package schemas

import (
	"archive/zip"
	"bytes"
	_ "embed" // the archive
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

//go:generate go run ./gen -chart ../charts/virtward -versions zz_generated.versions.go zz_generated.schemas.zip

//go:embed zz_generated.schemas.zip
var archive []byte

// own is the folder of the archive with the definitions of Virtward's chart.
const own = "virtward"

// Minors returns the minor versions of KubeVirt whose schemas are embedded, oldest first.
func Minors() []string { return []string{"1.6", "1.7", "1.8", "1.9"} }

// Newest returns the newest minor version whose schemas are embedded.
func Newest() string { return Minors()[len(Minors())-1] }

// MinorOf returns the embedded minor version for a version such as v1.8.2. It returns false if the schemas of that minor
// version are not embedded.
func MinorOf(text string) (string, bool) {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return "", false
	}
	minor := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	return minor, slices.Contains(Minors(), minor)
}

// Embedded has the schemas of one minor version of KubeVirt, and of Virtward's own kinds. It reads each at its first use.
// It is safe for concurrent use.
type Embedded struct {
	minor string

	mutex sync.Mutex
	// schemas are those that were read: at most the kinds of the archive.
	schemas map[schema.GroupKind]*Schema
}

var all = struct {
	mutex   sync.Mutex
	byMinor map[string]*Embedded
}{byMinor: map[string]*Embedded{}}

// Of returns the schemas of a minor version. A version that is not in Minors has only Virtward's own kinds. All callers share what was
// read, because reading the schema of a virtual machine takes longer than validating one.
func Of(minor string) *Embedded {
	if !slices.Contains(Minors(), minor) {
		minor = ""
	}
	all.mutex.Lock()
	defer all.mutex.Unlock()
	found := all.byMinor[minor]
	if found == nil {
		found = &Embedded{minor: minor, schemas: map[schema.GroupKind]*Schema{}}
		all.byMinor[minor] = found
	}
	return found
}

// Minor returns the minor version.
func (e *Embedded) Minor() string { return e.minor }

// For returns the schema of a kind, or nil if it is not embedded. All versions of a kind of KubeVirt have the same schema.
func (e *Embedded) For(kind schema.GroupVersionKind) (*Schema, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	key := kind.GroupKind()
	if found := e.schemas[key]; found != nil {
		return found, nil
	}
	spec, err := embedded(e.minor, key)
	if err != nil || spec == nil {
		return nil, err
	}
	found, err := New(spec, kind.Version)
	if err != nil {
		return nil, fmt.Errorf("the embedded schema of %s: %w", kind.Kind, err)
	}
	e.schemas[key] = found
	return found, nil
}

// embedded reads a definition from the archive. It returns nil if there is none.
func embedded(minor string, kind schema.GroupKind) (*apiextensionsv1.CustomResourceDefinitionSpec, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("the embedded schemas: %w", err)
	}
	name := path.Join(kind.Group, kind.Kind+".json")
	for _, file := range files.File {
		folder, below, _ := strings.Cut(file.Name, "/")
		if below != name || folder != minor && folder != own {
			continue
		}
		content, err := file.Open()
		if err != nil {
			return nil, fmt.Errorf("the embedded schema %s: %w", file.Name, err)
		}
		defer content.Close()
		data, err := io.ReadAll(content)
		if err != nil {
			return nil, fmt.Errorf("the embedded schema %s: %w", file.Name, err)
		}
		spec := &apiextensionsv1.CustomResourceDefinitionSpec{}
		if err := json.Unmarshal(data, spec); err != nil {
			return nil, fmt.Errorf("the embedded schema %s: %w", file.Name, err)
		}
		return spec, nil
	}
	return nil, nil
}
