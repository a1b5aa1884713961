// Package configcache keeps the active configuration: the severities of rules, the site's defaults, the policies, and the
// labels of namespaces.
//
// What enters: objects of Virtward's kinds, which it watches. What leaves: their compiled state, which changes when they
// do; reading it is one atomic load. An invalid object does not affect the others. The package evaluates nothing, and
// writes nothing into the cluster.
package configcache
