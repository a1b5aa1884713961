package requests

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotations of CDI. It takes a claim with storage.populatedFor for the content of the DataVolume of this name, without writing to it. It notes
// the claim in annotationAdopted of the DataVolume, once the claim is bound. A claim that it creates has the UID of its DataVolume.
const (
	annotationAdopted = "cdi.kubevirt.io/storage.prePopulated"
	annotationCreated = "cdi.kubevirt.io/createdForDataVolume"
)

// HasAdopted reports whether CDI took a claim that existed before a DataVolume for its content.
func HasAdopted(dv *cdiv1beta1.DataVolume) bool {
	_, has := dv.Annotations[annotationAdopted]
	return has
}

// Adopted says what is wrong with such a DataVolume.
func Adopted(dv *cdiv1beta1.DataVolume) string {
	return "PersistentVolumeClaim " + Named(dv) + " existed before its DataVolume, so CDI wrote nothing to it"
}

// IsCreatedFor reports whether a claim has the mark of CDI for a DataVolume. Users who know the UID of the DataVolume can set it too.
func IsCreatedFor(claim *corev1.PersistentVolumeClaim, dv *cdiv1beta1.DataVolume) bool {
	return claim.Annotations[annotationCreated] == string(dv.UID)
}

// Deletion has the options that delete an object as it was read. CDI makes a DataVolume the owner of the claim that it takes, which is not that
// of Virtward: it stays.
func Deletion(object client.Object) []client.DeleteOption {
	uid := object.GetUID()
	options := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if dv, is := object.(*cdiv1beta1.DataVolume); is && HasAdopted(dv) {
		options = append(options, client.PropagationPolicy(metav1.DeletePropagationOrphan))
	}
	return options
}
