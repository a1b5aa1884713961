package imports

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
)

// ReconcileSource resolves a DataSource, as CDI's controller does: its status has the source that can be cloned, and the
// condition Ready.
func (o *Objects) ReconcileSource(name Name) {
	source := o.Sources[name]
	if source == nil {
		return
	}
	resolved, reason, message := o.follow(source)
	if reason == "" {
		reason, message = o.availability(source, resolved)
	}
	status := corev1.ConditionFalse
	source.Status.Source = cdiv1beta1.DataSourceSource{}
	if reason == readyReason {
		status = corev1.ConditionTrue
		source.Status.Source = cdiv1beta1.DataSourceSource{PVC: resolved.Spec.Source.PVC, Snapshot: resolved.Spec.Source.Snapshot}
	}
	source.Status.Conditions = []cdiv1beta1.DataSourceCondition{{
		Type: cdiv1beta1.DataSourceReady, ConditionState: cdiv1beta1.ConditionState{Status: status, Reason: reason, Message: message},
	}}
}

const readyReason = "Ready"

// follow returns the DataSource that a pointer points to, or why it cannot.
func (o *Objects) follow(source *cdiv1beta1.DataSource) (resolved *cdiv1beta1.DataSource, reason, message string) {
	pointer := source.Spec.Source.DataSource
	if pointer == nil {
		return source, "", ""
	}
	target := Name{pointer.Namespace, pointer.Name}
	if target.Namespace == "" {
		target.Namespace = source.Namespace
	}
	switch {
	case target == Name{source.Namespace, source.Name}:
		return nil, "SelfReference", "DataSource cannot self-reference"
	case target.Namespace != source.Namespace:
		return nil, "CrossNamespaceReference", "DataSource cannot reference a DataSource in another namespace"
	case o.Sources[target] == nil:
		return nil, "NotFound", fmt.Sprintf("datasources.cdi.kubevirt.io %q not found", target.Name)
	case o.Sources[target].Spec.Source.DataSource != nil:
		return nil, "MaxReferenceDepthReached", "DataSource reference chain exceeds maximum depth of 1"
	}
	return o.Sources[target], "", ""
}

// availability returns whether the claim or the snapshot of a DataSource can be cloned. Labels of these are copied.
func (o *Objects) availability(source, resolved *cdiv1beta1.DataSource) (reason, message string) {
	switch from := resolved.Spec.Source; {
	case from.PVC != nil:
		name := Name{from.PVC.Namespace, from.PVC.Name}
		volume, claim := o.Volumes[name], o.Claims[name]
		switch {
		case volume != nil && volume.Status.Phase != cdiv1beta1.Succeeded:
			return string(volume.Status.Phase), fmt.Sprintf("Import DataVolume phase %s", volume.Status.Phase)
		case volume != nil:
			copyLabels(&source.Labels, volume.Labels)
		case claim == nil:
			return "NotFound", "PVC not found"
		}
		if claim != nil {
			copyLabels(&source.Labels, claim.Labels)
		}
	case from.Snapshot != nil:
		snapshot := o.Snapshots[Name{from.Snapshot.Namespace, from.Snapshot.Name}]
		switch {
		case snapshot == nil:
			return "NotFound", "Snapshot not found"
		case !snapshot.Status.ReadyToUse:
			return "SnapshotNotReady", "Snapshot phase is not ready"
		}
		copyLabels(&source.Labels, snapshot.Labels)
	default:
		return "NoSource", "No source PVC set"
	}
	return readyReason, "DataSource is ready to be consumed"
}
