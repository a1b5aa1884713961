// Package virtualimages has the commands kubectl virtward image: create, upload, and usage.
//
// Input: flags, and VirtualImages of a cluster that the user may read. Output: a VirtualImage, the progress of its import, and
// tables of those that use images. The package writes VirtualImages only, with the permissions of the user.
package virtualimages
