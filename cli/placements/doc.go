// Package placements reads what a placement needs: nodes, pods, claims, volumes and quotas, of files or of a cluster.
//
// Input: documents of files, or a client with the rights of the user. Output: a placement.Cluster, and notes about what the user may
// not read. Lists are read in pages, trimmed, and bounded. The package changes nothing.
package placements
