// Package goldenimages imports the golden images of catalogs for the architectures of the nodes.
//
// What enters: GoldenImageCatalogs, the nodes, and the DataImportCrons, DataSources and DataVolumes of the namespaces of
// the catalogs. What leaves: DataImportCrons, pointers between DataSources, and the statuses of the catalogs. Package images
// plans each write, and each plan is made of what is observed, so a controller that is killed at any moment continues.
package goldenimages
