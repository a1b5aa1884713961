// Package goldenimages has the commands kubectl virtward golden: list, status and why.
//
// Input: the catalogs of golden images in a cluster, and CDI's objects that the user may read. Output: tables and sentences.
// The package changes nothing in the cluster.
package goldenimages
