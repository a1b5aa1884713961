// Package registry reads the architectures of images from registries, on behalf of the authors of catalogs.
//
// What enters: the URL of an image, credentials and authorities, and the places that the admin permits. What leaves: the
// architectures of its index, or of the configuration of its only image, or a *web.Error with a reason for the user. The address
// of every connection is checked after DNS, also those of redirects and of token servers. Requests, bytes, entries and time
// are bounded. No layer of an image is read.
package registry
