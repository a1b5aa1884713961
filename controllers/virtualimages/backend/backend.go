// Package backend has the contract between the controller of VirtualImages and the systems that store images.
//
// A backend creates, observes and deletes one image at a time, identified by what the controller stored before the first
// call. All calls can be repeated, and return at once: a long import continues behind them.
package backend

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/virtualimages"
)

// Image is an attempt to import a VirtualImage.
type Image struct {
	// Cluster is the UID of the namespace kube-system.
	Cluster         string
	Namespace, Name string
	UID             types.UID
	// ID is virtualimages.ID of the attempt.
	ID      string
	Attempt int32
	Spec    v1alpha1.VirtualImageSpec
}

// Stamp marks what belongs to the image in a backend.
func (i *Image) Stamp() string { return virtualimages.Stamp(i.Cluster, i.UID) }

// Unavailable is the error of all calls of a backend until it answers, or until an admin changes its configuration.
type Unavailable struct {
	// Reason is a word for the conditions of its images, and Message a sentence without secrets.
	Reason, Message string
}

// Error implements error.
func (u *Unavailable) Error() string { return u.Message }

// Backend stores images. An error means that the backend could not be reached or did not answer as expected, and that the
// call is repeated later. An Unavailable says why. What the owner of an image must know is in the observation.
type Backend interface {
	// Ensure starts the import of an image that is absent, and continues one that was interrupted.
	Ensure(ctx context.Context, image *Image) (virtualimages.Observation, error)
	// Observe reads the state of an image. It writes nothing.
	Observe(ctx context.Context, image *Image) (virtualimages.Observation, error)
	// Delete ends the import and deletes the image. It is complete when the state is Absent or Spent. It never deletes what
	// the image does not own.
	Delete(ctx context.Context, image *Image) (virtualimages.Observation, error)
}

// Lister is a Backend whose images can have users outside of the cluster.
type Lister interface {
	// ListsUsers reports whether they count. It makes no call.
	ListsUsers() bool
	// Users reads the users of an image. What cannot be read is in the answer.
	Users(ctx context.Context, image *Image) *virtualimages.CloudUsers
}
