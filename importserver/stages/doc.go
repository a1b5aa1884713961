// Package stages copies the OVA of a web server into a volume, for servers that send no parts of it, and for compressed files.
//
// Input: a client, a place and a folder. Output: the file disk.img of the folder, which CDI has created, and how far the copy is. A copy
// that ends early begins again from the first byte: who cannot send parts cannot send the rest. The copy is decompressed, and has at most
// a number of bytes. The package computes no digest: who reads the copy must compare it.
package stages
