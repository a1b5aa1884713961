// Package dependents remembers which keys of a reconciler wait for which objects.
//
// What enters: the objects of each key. What leaves: the keys of an object that changed. The index keeps names only, and
// its size is bounded: a key whose objects do not fit is reported, and its reconciler reads them at an interval.
package dependents
