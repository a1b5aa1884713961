// Package images builds container images from programs that are built already, and packs charts and signatures as OCI
// artifacts.
//
// What enters: programs, a packaged chart, signatures. What leaves: images, indexes and artifacts of go-containerregistry. Their
// digests depend on nothing else: no container daemon and no base image of others is needed. The root file system has a user without
// rights, a folder for temporary files and the program.
package images
