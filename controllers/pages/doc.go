// Package pages lists objects of the API server in pages that are bounded by bytes. What enters is the address of a list;
// what leaves are its objects as JSON, or of one that is too large its name.
//
// Whoever may create objects creates large ones. A page of 500 objects has 750 MB at the most, since an API server
// stores objects of 1.5 MB. A Reader never holds more than MaxBytes of what it reads, and asks for as many objects as
// fit into that.
//
// The package decodes no object and keeps none.
package pages
