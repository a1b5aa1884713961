// Package imports models the controllers of CDI for golden images: DataImportCrons import images, and DataSources and
// pointers to them become ready.
//
// Input: objects in memory. Output: the objects after the controllers are done. The package follows recorded cases of the
// real controllers. It imports no data: a test says which imports succeed.
package imports
