// Package metadatawatch reports which objects changed, without keeping them.
//
// What enters: watches of the metadata of objects. What leaves: the names of objects whose spec, labels, annotations or
// deletion changed; changes of only the status are not reported. Memory has each object's name, and a hash of eight
// bytes. The package reads no specs and writes nothing.
package metadatawatch
