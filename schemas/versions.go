package schemas

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
)

// Kind is a kind that Virtward reads or that KubeVirt defines, with its versions.
type Kind struct {
	Group, Kind string
	// Product installs the definition of the kind.
	Product string
	// Versions that releases of the product serve or have served. They begin with the one to prefer.
	Versions []Version
}

// Version is a version of a kind. Since is the first release that serves it, empty if all known ones do, and Until the first
// release that no longer does, empty if the newest one does.
type Version struct{ Name, Since, Until string }

// others has the kinds of CDI and of Kubernetes.
var others = []Kind{
	{importerGroup, "CDI", importer, []Version{{"v1beta1", "", ""}, {"v1alpha1", "", ""}}},
	{importerGroup, "CDIConfig", importer, beta},
	{importerGroup, "DataImportCron", importer, beta},
	{importerGroup, "DataSource", importer, beta},
	{importerGroup, "DataVolume", importer, beta},
	{importerGroup, "ObjectTransfer", importer, beta},
	{importerGroup, "StorageProfile", importer, beta},
	{importerGroup, "VolumeCloneSource", importer, []Version{{"v1beta1", "", ""}}},
	{importerGroup, "VolumeImportSource", importer, []Version{{"v1beta1", "", ""}}},
	{importerGroup, "VolumeUploadSource", importer, []Version{{"v1beta1", "", ""}}},

	{"", "ConfigMap", kubernetes, []Version{{"v1", "", ""}}},
	{"", "Namespace", kubernetes, []Version{{"v1", "", ""}}},
	{"", "PersistentVolumeClaim", kubernetes, []Version{{"v1", "", ""}}},
	{"apps", "ControllerRevision", kubernetes, []Version{{"v1", "", ""}, {"v1beta2", "", "1.16"}, {"v1beta1", "", "1.16"}}},
	{"storage.k8s.io", "StorageClass", kubernetes, []Version{{"v1", "", ""}, {"v1beta1", "", "1.22"}}},
	{"snapshot.storage.k8s.io", "VolumeSnapshot", "CSI external-snapshotter", []Version{{"v1", "", ""}, {"v1beta1", "", "6.0"}, {"v1alpha1", "", "2.0"}}},
	{"k8s.cni.cncf.io", "NetworkAttachmentDefinition", "Multus", []Version{{"v1", "", ""}}},
}

// Products and groups of kinds.
const (
	kubeVirt      = "KubeVirt"
	kubernetes    = "Kubernetes"
	importer      = "CDI"
	importerGroup = "cdi.kubevirt.io"
)

// beta has the versions of most kinds of CDI.
var beta = []Version{{"v1beta1", "", ""}, {"v1alpha1", "", "1.56"}}

// Kinds returns the kinds whose versions are known.
func Kinds() []Kind { return slices.Concat(defined, others) }

// find returns a kind, or nil if its versions are not known.
func find(of schema.GroupKind) *Kind {
	for _, table := range [][]Kind{defined, others} {
		for i := range table {
			if table[i].Group == of.Group && table[i].Kind == of.Kind {
				return &table[i]
			}
		}
	}
	return nil
}

// VersionsOf returns all versions of a kind, also those that are no longer served; none if its versions are not known.
func VersionsOf(of schema.GroupKind) (names []string) {
	if k := find(of); k != nil {
		for _, v := range k.Versions {
			names = append(names, v.Name)
		}
	}
	return names
}

// In reports whether a release of the kind's product serves the version.
func (v Version) In(release string) bool {
	return !older(release, v.Since) && (v.Until == "" || older(release, v.Until))
}

// older reports whether a release is older than another. None is older than an empty one.
func older(release, than string) bool {
	if than == "" {
		return false
	}
	a, err := version.ParseGeneric(release)
	if err != nil {
		return false
	}
	b, err := version.ParseGeneric(than)
	return err == nil && a.LessThan(b)
}

// serves reports whether a version is served by a minor version of KubeVirt, or by a supported one if it is empty. Of other
// products, all supported releases serve the same.
func (k *Kind) serves(v Version, minor string) bool {
	switch {
	case k.Product != kubeVirt:
		return v.Until == ""
	case minor != "":
		return v.In(minor)
	}
	return slices.ContainsFunc(Minors(), v.In)
}

// Served returns the versions of the kind that a minor version of KubeVirt serves, or a supported one if it is empty. They begin
// with the one to prefer.
func (k *Kind) Served(minor string) (names []string) {
	for _, v := range k.Versions {
		if k.serves(v, minor) {
			names = append(names, v.Name)
		}
	}
	return names
}

// Match returns an error in the words of kubectl if no API server with a minor version of KubeVirt serves a kind in this
// version. It is nil for a kind whose versions are not known. Without a minor version, all supported ones count.
func Match(minor string, kind schema.GroupVersionKind) error {
	k := find(kind.GroupKind())
	if k == nil {
		return misplaced(minor, kind)
	}
	return k.match(minor, kind.Version, k.Served(minor))
}

// MatchServed is Match for a cluster, which serves these versions of the kind, the one to prefer first.
func MatchServed(kind schema.GroupVersionKind, served []string) error {
	k := find(kind.GroupKind())
	if k == nil {
		k = &Kind{Group: kind.Group, Kind: kind.Kind}
	}
	return k.match("", kind.Version, served)
}

// match returns an error if the version is not served. minor is the minor version of KubeVirt, if it is known.
func (k *Kind) match(minor, name string, served []string) error {
	if slices.Contains(served, name) {
		return nil
	}
	text := noMatch(schema.GroupVersionKind{Group: k.Group, Version: name, Kind: k.Kind})
	if i := slices.IndexFunc(k.Versions, func(v Version) bool { return v.Name == name }); i >= 0 {
		switch v := k.Versions[i]; {
		case v.Until != "" && (k.Product != kubeVirt || minor == "" || !older(minor, v.Until)):
			text += fmt.Sprintf(": %s %s removed it", k.Product, v.Until)
		case v.Since != "":
			text += fmt.Sprintf(": %s %s added it", k.Product, v.Since)
		}
	}
	if len(served) > 0 {
		text += ": use " + schema.GroupVersion{Group: k.Group, Version: served[0]}.String()
	}
	return fmt.Errorf("%s", text)
}

// misplaced returns an error for a known kind in a group of KubeVirt's that has no such kind, or without a group.
func misplaced(minor string, kind schema.GroupVersionKind) error {
	if kind.Group != "" && !strings.Contains(kind.Group, "kubevirt") {
		return nil // other products can have a kind of the same name
	}
	for _, k := range Kinds() {
		if served := k.Served(minor); k.Kind == kind.Kind && len(served) > 0 {
			return fmt.Errorf("%s: use %s", noMatch(kind), schema.GroupVersion{Group: k.Group, Version: served[0]})
		}
	}
	return nil
}

// noMatch returns kubectl's words for a kind that is not served.
func noMatch(kind schema.GroupVersionKind) string {
	return (&meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}).Error()
}
