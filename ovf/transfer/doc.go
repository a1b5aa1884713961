// Package transfer states what an import server serves: the disks of a package of OVF, each made of parts of files.
//
// Input: a plan as JSON, which a controller writes and the server reads. Output: the plan, or all errors of it with their fields; and the
// status of the disks, which the server writes and the controller reads. The package is pure. Both documents are bounded by MaxBytes,
// and by the numbers of files, disks and parts.
package transfer
