// Package downloads downloads OVAs that a server of an export makes while it sends them.
//
// Input: a URL, a client, and the name of a file. Output: the file, which has its name only when it is complete and has the digest that the
// ETag of the server is made of. A download continues after broken connections. If it is interrupted, the next one continues with the part
// beside the file, whose name has the ETag: a part of another version is never continued.
package downloads
