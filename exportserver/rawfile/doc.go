// Package rawfile reads raw images in files and block devices of this machine.
//
// Input: a path, or a file that is open. Output: its size, its bytes, and where its holes are, which need not be read. Open never follows a
// link: who controls the content of a volume cannot name a file beside it. The package writes nothing.
package rawfile
