package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
)

// maxUnknown bounds the unknown objects of one virtual machine.
const maxUnknown = 100

// Unknown returns the objects that an evaluated virtual machine refers to and that are not in the files, each with its
// field. With a cluster, none is unknown.
func (w *Evaluator) Unknown(ctx context.Context, result *evaluator.Result) []string {
	if w.Evaluator.References == nil || w.online {
		return nil
	}
	return Unknown(ctx, w.Evaluator.References, result)
}

// Unknown returns the objects that an evaluated virtual machine refers to and that are not among the given ones, each with its
// field. The objects answer ErrNotGiven for those.
func Unknown(ctx context.Context, objects references.Objects, result *evaluator.Result) []string {
	u := &unknowns{ctx: ctx, objects: objects, namespace: result.Namespace}
	for _, r := range result.References {
		if r.State != effective.Found {
			u.add(r.Field, cmp.Or(r.Kind, "object that is inferred from a volume"), r.Name)
		}
	}
	if verdict := result.Verdict; verdict != nil {
		u.ofMachine(verdict)
	}
	return u.found
}

type unknowns struct {
	ctx       context.Context
	objects   references.Objects
	namespace string
	found     []string
}

func (u *unknowns) add(field, kind, name string) {
	if len(u.found) < maxUnknown {
		u.found = append(u.found, strings.TrimSpace(fmt.Sprintf("%s: %s %.253s", field, kind, name)))
	}
}

// given reports whether the files have an object. An empty namespace is that of the virtual machine.
func (u *unknowns) given(kind schema.GroupVersionKind, namespace, name string) bool {
	if namespace = cmp.Or(namespace, u.namespace); platform.IsClusterWide(kind.GroupKind()) {
		namespace = ""
	}
	_, err := u.objects.Get(u.ctx, kind, namespace, name)
	return !errors.Is(err, references.ErrNotGiven)
}

func (u *unknowns) require(field string, resource apikinds.Resource, namespace, name string) {
	if name != "" && !u.given(resource.GroupVersionKind, namespace, name) {
		u.add(field, resource.Kind, name)
	}
}

func (u *unknowns) ofMachine(verdict *effective.Verdict) {
	prefix, path := "", "spec"
	if verdict.Container != nil {
		prefix = verdict.Container.Template.String() + "."
	}
	made := map[string]bool{}
	if verdict.VM != nil {
		path = "spec.template.spec"
		u.templates(verdict.VM.Spec.DataVolumeTemplates, prefix, made)
	}
	if verdict.Spec != nil {
		u.volumes(verdict.Spec.Volumes, prefix+path, made)
		u.networks(verdict.Spec.Networks, prefix+path)
	}
}

func (u *unknowns) networks(all []v1.Network, path string) {
	for i := range all {
		if all[i].Multus == nil {
			continue
		}
		namespace, name, qualified := strings.Cut(all[i].Multus.NetworkName, "/")
		if !qualified {
			namespace, name = "", namespace
		}
		u.require(fmt.Sprintf("%s.networks[%d].multus.networkName", path, i), apikinds.NetworkAttachments, namespace, name)
	}
}

// templates adds the sources and the StorageClasses of DataVolume templates. The VM makes the volumes of these names itself.
func (u *unknowns) templates(all []v1.DataVolumeTemplateSpec, prefix string, made map[string]bool) {
	for i := range all {
		made[all[i].Name] = true
		field := fmt.Sprintf("%sspec.dataVolumeTemplates[%d].spec", prefix, i)
		if ref := all[i].Spec.SourceRef; ref != nil && ref.Kind == apikinds.DataSource {
			namespace := ""
			if ref.Namespace != nil {
				namespace = *ref.Namespace
			}
			u.require(field+".sourceRef.name", apikinds.DataSources, namespace, ref.Name)
		}
		if source := all[i].Spec.Source; source != nil && source.PVC != nil {
			u.require(field+".source.pvc.name", apikinds.PersistentVolumeClaims, source.PVC.Namespace, source.PVC.Name)
		}
		if storage := all[i].Spec.Storage; storage != nil && storage.StorageClassName != nil {
			u.require(field+".storage.storageClassName", apikinds.StorageClasses, "", *storage.StorageClassName)
		}
		if claim := all[i].Spec.PVC; claim != nil && claim.StorageClassName != nil {
			u.require(field+".pvc.storageClassName", apikinds.StorageClasses, "", *claim.StorageClassName)
		}
	}
}

func (u *unknowns) volumes(all []v1.Volume, path string, made map[string]bool) {
	for i := range all {
		field := fmt.Sprintf("%s.volumes[%d]", path, i)
		switch v := &all[i]; {
		case v.PersistentVolumeClaim != nil && !made[v.PersistentVolumeClaim.ClaimName]:
			u.require(field+".persistentVolumeClaim.claimName", apikinds.PersistentVolumeClaims, "", v.PersistentVolumeClaim.ClaimName)
		case v.DataVolume != nil && !made[v.DataVolume.Name] && !u.given(apikinds.PersistentVolumeClaims.GroupVersionKind, "", v.DataVolume.Name):
			u.require(field+".dataVolume.name", apikinds.DataVolumes, "", v.DataVolume.Name)
		}
	}
}
