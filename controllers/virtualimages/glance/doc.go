// Package glance stores images in OpenStack Glance.
//
// What enters: an image with an identifier that was chosen before, and a client for Glance. What leaves: the calls that create,
// import, observe and delete the image, and what Glance says about it. By default, the process streams the file from its source
// to Glance; web-download, by which Glance reads the source itself, is an option of the admin.
//
// All calls can be repeated. An image has the identifier of its attempt and a property with the stamp of its VirtualImage: an
// image without the stamp is neither imported nor deleted. Nothing is imported unless the whole file was read and checked.
// The package knows no Kubernetes. Memory has a buffer for each stream, and answers of Glance are bounded.
package glance
