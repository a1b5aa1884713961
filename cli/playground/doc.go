// Package playground is the command playground: a page to write virtual machines and policies, and to see at once how they are
// evaluated.
//
// Its input is the requests of a browser on the same machine. Its output is the page, and the answers of package answers. It
// reads the files that the command line names and, once and if asked to, a cluster. It writes no file, and changes nothing in a cluster.
package playground
