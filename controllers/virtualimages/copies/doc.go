// Package copies makes copies of stored images in the cluster: CDI imports each from this process into a DataVolume, and a
// DataSource with the name of the image refers to it.
//
// What enters: the backend that stores images, the backend of CDI, and the keys of tokens. What leaves: for each copy, a Secret
// with a token and a ConfigMap with certificates, both owned by the VirtualImage, and the files that CDI's importers read.
//
// A token is for one attempt to import one image, ends at a time, and is worthless once the copy is complete. The credentials of
// the cloud never leave the process. Memory has a buffer for each reader, whose number is bounded.
package copies
