// Package configcache keeps what the admin of the cluster has decided, up to date and ready to be used: the severities of
// rules, the site's defaults, the policies, and the labels of namespaces by which they are selected.
//
// What enters: objects of our own kinds, by watching them. What leaves: what they mean together, compiled when they
// change, so that asking for it costs one atomic load. An object that cannot be used never keeps another one from
// being active. The package evaluates nothing, and writes nothing into the cluster.
package configcache
