// Package guarded reports whether the guards of an object have been active since the object was created. What enters: an
// object and the names of its guards. What leaves: why the object is not trusted, or nothing.
//
// A controller acts with Virtward's rights for the author of an object, because a guard checks the author. An object that
// could be written while the guard was missing is not trusted, so the controller does not act for it.
//
// The package reads the guards from the API server for each answer. It writes nothing.
package guarded
