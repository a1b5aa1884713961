// Package stages copies the OVA of a web server or of a registry into a volume, for servers that send no parts of it, and for compressed files.
//
// Input: clients, a place and a folder. Output: the file disk.img of the folder, which CDI has created, and how far the copy is. A copy
// that ends early begins again from the first byte: who cannot send parts cannot send the rest. The copy is decompressed, and has at most
// a number of bytes. The digest of a blob is compared, that of a file is not. Others can write the folder: who reads the copy must compare it.
package stages
