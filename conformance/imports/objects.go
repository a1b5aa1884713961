package imports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// Name is the namespace and the name of an object.
type Name struct{ Namespace, Name string }

// Snapshot is a VolumeSnapshot.
type Snapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		ReadyToUse bool `json:"readyToUse"`
	} `json:"status"`
}

// Objects are those that the controllers read and write.
type Objects struct {
	Crons     map[Name]*cdiv1beta1.DataImportCron
	Sources   map[Name]*cdiv1beta1.DataSource
	Volumes   map[Name]*cdiv1beta1.DataVolume
	Claims    map[Name]*corev1.PersistentVolumeClaim
	Snapshots map[Name]*Snapshot

	// Now is the time of imports; zero for none.
	Now metav1.Time

	// seen is what each DataSource was last reconciled for.
	seen map[Name]string
}

// NewObjects returns no objects.
func NewObjects() *Objects {
	return &Objects{
		Crons: map[Name]*cdiv1beta1.DataImportCron{}, Sources: map[Name]*cdiv1beta1.DataSource{}, Volumes: map[Name]*cdiv1beta1.DataVolume{},
		Claims: map[Name]*corev1.PersistentVolumeClaim{}, Snapshots: map[Name]*Snapshot{}, seen: map[Name]string{},
	}
}

// Continue takes over what earlier objects were reconciled for, so that only changes count.
func (o *Objects) Continue(earlier *Objects) { o.seen = earlier.seen }

// Add adds an object, or replaces what it had but the status.
func (o *Objects) Add(object []byte) error {
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &meta); err != nil {
		return fmt.Errorf("an object: %w", err)
	}
	name := Name{meta.Namespace, meta.Name}
	switch meta.Kind {
	case "DataImportCron":
		return add(o.Crons, name, object)
	case "DataSource":
		return add(o.Sources, name, object)
	case "DataVolume":
		return add(o.Volumes, name, object)
	case "PersistentVolumeClaim":
		return add(o.Claims, name, object)
	case "VolumeSnapshot":
		return add(o.Snapshots, name, object)
	}
	return fmt.Errorf("kind %s is not modeled", meta.Kind)
}

func add[T any](objects map[Name]*T, name Name, object []byte) error {
	added := new(T)
	if err := json.Unmarshal(object, added); err != nil {
		return fmt.Errorf("an object: %w", err)
	}
	objects[name] = added
	return nil
}

// Delete deletes an object.
func (o *Objects) Delete(kind string, name Name) {
	switch kind {
	case "DataImportCron":
		delete(o.Crons, name)
	case "DataSource":
		delete(o.Sources, name)
	case "DataVolume":
		delete(o.Volumes, name)
	case "PersistentVolumeClaim":
		delete(o.Claims, name)
	case "VolumeSnapshot":
		delete(o.Snapshots, name)
	}
}

// Names returns the names of objects, sorted.
func Names[T any](objects map[Name]*T) []Name {
	return slices.SortedFunc(maps.Keys(objects), func(a, b Name) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// copied matches the labels that CDI copies between its objects. Its pattern has no hyphen in the domain.
var copied = regexp.MustCompile(`^([a-z.]+\.)?kubevirt\.io/`)

// copyLabels adds the labels of an object that CDI copies, but those that are there.
func copyLabels(to *map[string]string, from map[string]string) {
	for key, value := range from {
		if _, found := (*to)[key]; !found && copied.MatchString(key) {
			setLabel(to, key, value)
		}
	}
}

func setLabel(labels *map[string]string, key, value string) {
	if *labels == nil {
		*labels = map[string]string{}
	}
	(*labels)[key] = value
}
