// Package web reads images from web servers on behalf of users.
//
// What enters: a URL, credentials and authorities of a user, and the places that the admin permits. What leaves: the size and
// the first bytes of a file, or its content as a stream or at random, or an Error with a reason for the user. The address of every
// connection is checked after DNS, also those of redirects. A stream that breaks continues where it ended, if the server
// says that the file is still the same. Memory has one buffer for each stream, and MaxRangedBytes for a file that is read at random.
package web
