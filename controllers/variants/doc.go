// Package variants keeps variants of VM templates: one for each architecture of the golden image that a template clones.
//
// What enters: VM templates with the label of an image, their variants, and the catalogs. What leaves: variants that are
// created, changed and deleted, and events on the templates. It writes only variants that it created.
package variants
