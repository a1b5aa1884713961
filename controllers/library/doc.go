// Package library creates policies in a cluster that gets their kind and the webhooks that validate them at the same
// time: Helm can create an object only after its kind exists.
//
// Input: policies, and a client of the cluster. Output: the policies exist, or an error that names the first one that
// cannot be created. It never changes an existing object, and a second run changes nothing.
package library
