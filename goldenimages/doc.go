// Package goldenimages plans the golden images of a catalog: the DataImportCrons and DataSources that each image needs for the
// architectures of the nodes, the order in which they change, and the conditions of the images (VEP 48).
//
// Input: the catalog, the nodes, and the objects that exist. Output: the next writes, and the status. The package is pure.
// It never panics, and its output is bounded by the entries of the catalog and the architectures.
package goldenimages
