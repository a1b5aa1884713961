// Package metadatawatch tells which objects changed, without keeping them.
//
// What enters: watches of the metadata of objects. What leaves: the names of those whose spec, labels, annotations or
// deletion changed; a change of the status alone is none. For each object there is a sum of eight bytes in memory,
// and its name. The package reads no specs and writes nothing.
package metadatawatch
