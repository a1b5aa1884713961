// Package sources decides from which places images may be read: golden images from registries, and VirtualImages from web
// servers and registries.
//
// What enters: the hosts and networks that an admin permits, and a URL or an address. What leaves: nothing, or an error for the
// user that names the value of the chart. The package is pure: it resolves no name. Those below it read: web reads files,
// registry reads manifests, and transfers runs what takes long.
package sources
