// Package exportserver serves a template and its disks as an OVA, or as an OCI artifact in an image layout, that it makes while it is read.
//
// Input: a plan with the template and the places of its disks, which are raw images at URLs or files of volumes, and requests with the token
// of the plan. Output: the file, in any parts, and a status. No file is stored. First the server reads all disks once, and learns the size and
// the entity tag. Then each request reads what it needs again. The same parts have the same bytes, so downloads continue after a break.
// A part of a layer of an artifact is compressed from the beginning of the layer.
//
// The server fails if a disk is not what it was: the answer ends before the wrong bytes.
package exportserver
