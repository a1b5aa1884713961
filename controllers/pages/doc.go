// Package pages lists objects of the API server in pages whose bytes are bounded. What enters: a list. What leaves: its
// objects as JSON, or only the name of one that is too large.
//
// Users can create large objects. A page of 500 objects can have 750 MB, since an API server stores objects of 1.5 MB.
// A Reader holds at most MaxBytes of what it reads, and requests as many objects as fit.
//
// The package decodes no object and keeps none.
package pages
