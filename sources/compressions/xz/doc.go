// Package xz decompresses files in the format of xz.
//
// Input: compressed bytes, and a bound of the dictionary. Output: the content. The dictionary is the memory of a decompression: a file names
// its size, up to 4 GiB, for each of its blocks, so the bound is compared first, and there is one dictionary for all blocks. The package reads
// all streams of a file, and compares each block and each index with its check. It reads no filters for programs, and no format of LZMA without
// a container. It starts no goroutines.
package xz
