// Package statuses writes the statuses of all controllers. Each field of a status is in one of two classes, and each class has
// one helper. The package documentation of controllers has the table of all fields.
//
// Memory is what a controller reads again to decide what comes next: it is written before the act that it records, by an update
// with the resourceVersion that was read. If another process has written meanwhile, nothing is written and nothing may be done:
// the key is requested again.
//
// Report is what a controller tells users about what it observed: it is written last, also if observing or applying failed, by
// server-side apply with one field owner, of the version that was read. Several controllers can each report their own part of a
// status.
//
// What enters: an object as it was read, and the next status or part. What leaves: at most one write, if the stored status
// differs, and then the events of the transition. Neither class decides: plans do. Store is for controllers whose objects come
// from configcache: it reads the status only if it can differ.
//
// A test rejects writes of statuses elsewhere.
package statuses
