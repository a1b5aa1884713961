// Package uploadproxy sends files to the upload proxy of CDI.
//
// Input: a file, the URL of the proxy, and a function that requests tokens. Output: the checksum of the file, or the reason why
// CDI does not have it. The package holds a few buffers, for a file of any size. It never sends a token to another server.
package uploadproxy
