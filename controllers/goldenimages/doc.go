// Package goldenimages imports the golden images of catalogs for the architectures of the nodes.
//
// What enters: GoldenImageCatalogs, the nodes, the DataImportCrons, DataSources and DataVolumes of the namespaces of the catalogs,
// and the manifests of their images. What leaves: DataImportCrons, pointers between DataSources, deletions of images that are not
// retained, and the statuses of the catalogs. The planner plans each write, from what is observed and from what the status remembers,
// so a controller that is killed at any moment continues.
package goldenimages
