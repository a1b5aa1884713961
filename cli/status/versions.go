package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/virtward/virtward/schemas"
)

// component is a system that Virtward needs or uses.
type component struct {
	name     string
	resource schema.GroupVersionResource
	// observed is the field of the status with the version, and ready the value of status.phase.
	observed, ready string
	// least is the oldest supported version, and newest the newest one that this program knows; empty for any.
	least, newest string
	// absent says what it means that the cluster has none, and required whether that is wrong.
	absent   string
	required bool
	// features are what needs a group of APIs, or a version.
	features []feature
}

// feature is a part of Virtward that needs an API or a version of a component.
type feature struct {
	name, group, since string
}

func components() []component {
	return []component{
		{
			name: "KubeVirt", resource: schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "kubevirts"}, observed: "observedKubeVirtVersion", ready: "Deployed",
			least: "1.6", newest: schemas.Newest(), absent: "not installed: no virtual machine runs", required: true,
			features: []feature{
				{"instancetypes", "instancetype.kubevirt.io", ""},
				{"pools", "pool.kubevirt.io", ""},
				{"snapshots and restores", "snapshot.kubevirt.io", ""},
				{"clones", "clone.kubevirt.io", ""},
				{"configuration.hypervisors", "kubevirt.io", "1.8"},
			},
		},
		{
			name: "CDI", resource: schema.GroupVersionResource{Group: "cdi.kubevirt.io", Version: "v1beta1", Resource: "cdis"}, observed: "observedVersion", ready: "Deployed",
			least: "1.62", absent: "not installed: golden images, VirtualImages, and DataVolumes of virtual machines need it",
			features: []feature{{"DataVolumes and golden images", "cdi.kubevirt.io", ""}, {"uploads", "upload.cdi.kubevirt.io", ""}},
		},
	}
}

// versions reports the versions of Kubernetes, KubeVirt and CDI, and what they support.
func (c *cluster) versions(ctx context.Context) []Result {
	results := []Result{c.kubernetes(ctx)}
	groups, err := c.groups(ctx)
	for _, one := range components() {
		results = append(results, c.component(ctx, one, groups, err))
	}
	return results
}

// kubernetes reports the version of the API server.
func (c *cluster) kubernetes(ctx context.Context) Result {
	r := Result{Subject: "Kubernetes", State: OK}
	var found struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := c.decode(ctx, "/version", &found); err != nil {
		r.State, r.Message = Unknown, "cannot read the version: "+err.Error()
		return r
	}
	return supported(r, found.GitVersion, "1.32", "")
}

// groups returns the groups of APIs that the cluster serves.
func (c *cluster) groups(ctx context.Context) ([]string, error) {
	list := &metav1.APIGroupList{}
	if err := c.decode(ctx, "/apis", list); err != nil {
		return nil, fmt.Errorf("cannot read the groups of APIs: %w", err)
	}
	var names []string
	for i := range list.Groups {
		names = append(names, list.Groups[i].Name)
	}
	return names, nil
}

// maxDocument bounds a document of the API server, in bytes.
const maxDocument = 4 << 20

func (c *cluster) decode(ctx context.Context, path string, into any) error {
	body, err := c.raw(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, maxDocument)).Decode(into)
}

// component reports the version of a component, and the features that it supports.
func (c *cluster) component(ctx context.Context, of component, groups []string, unread error) Result {
	r := Result{Subject: of.name, State: OK}
	objects, err := c.list(ctx, of.resource, "", "")
	switch {
	case err != nil && !absent(err):
		return unknown(of.name, err)
	case err != nil, len(objects) == 0:
		if r.Message = of.absent; of.required {
			r.State, r.Remedy = Warning, "install "+of.name
		}
		return r
	}
	found := text(&objects[0], "status", of.observed)
	r = supported(r, found, of.least, of.newest)
	if phase := text(&objects[0], "status", "phase"); phase != of.ready {
		r.State, r.Message = worst(r.State, Warning), fmt.Sprintf("%s; its phase is %q, not %s", r.Message, phase, of.ready)
		r.Remedy = "kubectl describe " + of.resource.Resource + " " + objects[0].GetName()
	}
	if unread != nil {
		r.Message += "; " + unread.Error()
		return r
	}
	var has, lacks []string
	for _, f := range of.features {
		if slices.Contains(groups, f.group) && (f.since == "" || atLeast(found, f.since)) {
			has = append(has, f.name)
		} else {
			lacks = append(lacks, f.name)
		}
	}
	if len(has) > 0 {
		r.Message += "; with " + strings.Join(has, ", ")
	}
	if len(lacks) > 0 {
		r.Message += "; without " + strings.Join(lacks, ", ")
	}
	return r
}

// supported adds a version to a result, and whether it is supported.
func supported(r Result, found, least, newest string) Result {
	r.Message = found
	switch {
	case found == "":
		r.State, r.Message = Unknown, "the version is not known"
	case !atLeast(found, least):
		r.State, r.Message, r.Remedy = Error, found+" is not supported", fmt.Sprintf("upgrade to %s or later", least)
	case newest != "" && !atMost(found, newest):
		r.State, r.Message, r.Remedy = Warning, found+" is newer than "+newest+", the newest that this command knows", "use a newer release of Virtward"
	}
	return r
}

// atLeast reports whether a version is not older than another one. A version that cannot be read is not.
func atLeast(found, least string) bool {
	v, err := version.ParseGeneric(found)
	if err != nil {
		return false
	}
	return !minor(v).LessThan(version.MustParseGeneric(least))
}

// atMost reports whether the minor version of a version is not newer than another one.
func atMost(found, newest string) bool {
	v, err := version.ParseGeneric(found)
	return err == nil && !version.MustParseGeneric(newest).LessThan(minor(v))
}

// minor returns a version without its patch.
func minor(v *version.Version) *version.Version {
	return version.MustParseGeneric(fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
}
