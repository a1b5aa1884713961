// Package addresses gives images and URLs one normal form: the place that a client connects to.
//
// What enters: the text of a reference to an image, or of a URL, as a user wrote it. What leaves: an Image or a URL
// whose fields compare with ==, or an error. Two texts that reach the same place have the same normal form. The
// package resolves no name, reads no file, and opens no connection.
//
// A text that two consumers read differently has no normal form, and is an error. Policies deny such a text, because
// they cannot say what it reaches.
package addresses
