// Package files writes archives and lists of checksums that are equal for equal content.
//
// What enters: names, modes and content, and one time for all files. What leaves: a file on the disk. Owners, local
// times and the order of a folder never enter an archive.
package files
