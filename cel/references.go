package cel

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apicel "k8s.io/apiserver/pkg/cel"
)

// References are the objects that a virtual machine points at, by kind. The lists are in the order of the fields that
// point at them.
type References struct {
	NetworkAttachmentDefinitions []NetworkReference      `json:"networkAttachmentDefinitions"`
	PersistentVolumeClaims       []VolumeReference       `json:"persistentVolumeClaims"`
	DataVolumes                  []VolumeReference       `json:"dataVolumes"`
	DataSources                  []SourceReference       `json:"dataSources"`
	StorageClasses               []StorageClassReference `json:"storageClasses"`
	ConfigMaps                   []Reference             `json:"configMaps"`

	// Unknown says why the objects of a kind are not known, by the name of its list. An expression that reads such a list
	// fails.
	Unknown map[string]error `json:"-"`
}

// Reference is an object that a field points at.
type Reference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Path is the field of the object that points at it.
	Path string `json:"path"`
	// Found reports whether it exists. Without it, the fields below are empty.
	Found       bool              `json:"found"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// NetworkReference is a NetworkAttachmentDefinition.
type NetworkReference struct {
	Reference `json:",inline"`

	// Config is the configuration of CNI as it is written, Types are those of its plugins, and VLANs all VLANs that they
	// name, sorted.
	Config string   `json:"config"`
	Types  []string `json:"types"`
	VLANs  []int64  `json:"vlans"`
}

// VolumeReference is a PersistentVolumeClaim or a DataVolume.
type VolumeReference struct {
	Reference `json:",inline"`

	StorageClassName string   `json:"storageClassName"`
	AccessModes      []string `json:"accessModes"`
	VolumeMode       string   `json:"volumeMode"`
	Size             string   `json:"size"`
	// Source is the kind of the source of a DataVolume, such as http or pvc.
	Source string `json:"source"`
}

// SourceReference is a DataSource.
type SourceReference struct {
	Reference `json:",inline"`

	// Source is its kind: pvc, snapshot or dataSource.
	Source string `json:"source"`
}

// StorageClassReference is the StorageClass of a volume. It has no name if the cluster's default applies, and if the volume does
// not exist.
type StorageClassReference struct {
	Reference `json:",inline"`

	// ClusterDefault reports whether the cluster's default applies.
	ClusterDefault bool              `json:"clusterDefault"`
	Provisioner    string            `json:"provisioner"`
	Parameters     map[string]string `json:"parameters"`
}

// Causes of an error of an expression that reads references, for errors.Is.
var (
	// ErrUnknownReference means that objects which the virtual machine points at are not known.
	ErrUnknownReference = errors.New("unknown")
	// ErrReferencesNotRead means in addition that no policy needs the list, or may read it.
	ErrReferencesNotRead = fmt.Errorf("%w: no policy reads them", ErrUnknownReference)
	// ErrReferenceNotGiven means in addition that no cluster is read, and that the objects are not in the files.
	ErrReferenceNotGiven = fmt.Errorf("%w: not in the files", ErrUnknownReference)
)

// TargetReferences returns the names of the lists that migrationTargets is computed from, sorted: both have the access modes of claims.
func TargetReferences() []string { return []string{"dataVolumes", "persistentVolumeClaims"} }

// AccessModes returns the access modes of a claim in the namespace of the virtual machine, which a volume of it uses: those of the
// claim, and if it does not exist yet, those that its DataVolume states. The error says why they are not known.
func (r *References) AccessModes(claim string) ([]string, error) {
	err := r.unknown("persistentVolumeClaims")
	if err == nil {
		if modes := modesOf(r.PersistentVolumeClaims, claim); modes != nil {
			return modes, nil
		}
	}
	later := r.unknown("dataVolumes")
	if later == nil {
		if modes := modesOf(r.DataVolumes, claim); len(modes) > 0 {
			return modes, nil
		}
	}
	for _, why := range []error{err, later} {
		switch {
		case why == nil:
		case r == nil || errors.Is(why, ErrReferencesNotRead):
			return nil, fmt.Errorf("%w: policies may not read it: add persistentvolumeclaims and datavolumes to the chart's value policies.references", ErrUnknownReference)
		default:
			return nil, why
		}
	}
	return nil, fmt.Errorf("%w: the claim does not exist yet, and no DataVolume states them", ErrUnknownReference)
}

// modesOf are the access modes of the volume with a name; nil if it is not found.
func modesOf(volumes []VolumeReference, name string) []string {
	for i := range volumes {
		if v := &volumes[i]; v.Name == name && v.Found {
			return v.AccessModes
		}
	}
	return nil
}

// ReferenceKinds returns the names of the lists, sorted. The list is shared: do not change it.
func ReferenceKinds() []string { return referenceKinds() }

var referenceKinds = sync.OnceValue(func() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[References]()) {
		if name := f.Tag.Get("json"); name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
})

// Of returns why one of some kinds is not known; nil if all are. Without references, none is.
func (r *References) Of(kinds []string) error {
	for _, kind := range kinds {
		if err := r.unknown(kind); err != nil {
			return err
		}
	}
	return nil
}

func (r *References) unknown(kind string) error {
	err := ErrUnknownReference
	if r != nil {
		err = r.Unknown[kind]
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("references.%s: %w", kind, err)
}

// complete returns the references with lists and maps instead of nil.
func (r *References) complete() *References {
	if r == nil {
		return NewReferences()
	}
	return r
}

// NewReferences returns references with empty lists.
func NewReferences() *References {
	return &References{
		NetworkAttachmentDefinitions: []NetworkReference{}, PersistentVolumeClaims: []VolumeReference{}, DataVolumes: []VolumeReference{},
		DataSources: []SourceReference{}, StorageClasses: []StorageClassReference{}, ConfigMaps: []Reference{}, Unknown: map[string]error{},
	}
}

// gathered are references of which only the known lists can be read.
type gathered struct {
	*object
	references *References
}

// Get returns a list, or the error that it is not known.
func (g *gathered) Get(key ref.Val) ref.Val {
	name, _ := key.(types.String)
	if err := g.references.unknown(string(name)); err != nil && slices.Contains(ReferenceKinds(), string(name)) {
		return types.WrapErr(err)
	}
	return g.object.Get(key)
}

// IsSet does not answer what is not known.
func (g *gathered) IsSet(key ref.Val) ref.Val {
	if v := g.Get(key); types.IsError(v) {
		return v
	}
	return g.object.IsSet(key)
}

// references is the variable references.
func (a *Activation) references() ref.Val {
	d := a.documents
	whole := a.once(&d.seen.references, func() any { return d.References.complete() })
	if object, ok := whole.(*object); ok {
		d.seen.references = &gathered{object: object, references: d.References}
	}
	return d.seen.references
}

// References returns the kinds of objects that the program reads, itself or through variables, sorted.
func (p *Program) References() []string {
	if p.reads[varReferences+".*"] {
		return ReferenceKinds()
	}
	var kinds []string
	for _, kind := range ReferenceKinds() {
		if p.reads[varReferences+"."+kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// readReferences notes which kinds an expression reads; all of them if it does not select one.
func (p *Program) readReferences(ast *celast.AST) {
	selected := map[int64]bool{}
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.SelectKind:
			if of := e.AsSelect().Operand(); of.Kind() == celast.IdentKind && of.AsIdent() == varReferences {
				p.reads[varReferences+"."+e.AsSelect().FieldName()] = true
				selected[of.ID()] = true
			}
		case celast.IdentKind:
			if strings.TrimPrefix(e.AsIdent(), ".") == varReferences && !selected[e.ID()] {
				p.reads[varReferences+".*"] = true
			}
		}
	}))
}

// referencesType is the type of references.
func referencesType(words *apicel.DeclType) *apicel.DeclType {
	text, texts := apicel.StringType, apicel.NewMapType(apicel.StringType, apicel.StringType, hintKeys)
	list := func(kind, element string, more ...*apicel.DeclField) *apicel.DeclField {
		fields := append([]*apicel.DeclField{
			field("name", text), field("namespace", text), field("path", text), field("found", apicel.BoolType), field("labels", texts), field("annotations", texts),
		}, more...)
		return field(kind, apicel.NewListType(objectType(element, fields...), hintItems))
	}
	volume := []*apicel.DeclField{field("storageClassName", text), field("accessModes", words), field("volumeMode", text), field("size", text), field("source", text)}
	return objectType("References",
		list("networkAttachmentDefinitions", "NetworkReference", field("config", text), field("types", words), field("vlans", apicel.NewListType(apicel.IntType, hintItems))),
		list("persistentVolumeClaims", "VolumeReference", volume...), list("dataVolumes", "VolumeReference", volume...), list("dataSources", "SourceReference", field("source", text)),
		list("storageClasses", "StorageClassReference", field("clusterDefault", apicel.BoolType), field("provisioner", text), field("parameters", texts)), list("configMaps", "Reference"))
}
