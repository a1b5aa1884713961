// Package compressions decompresses files that are compressed as a whole.
//
// Input: the name of a compression, as virtualimages.Inspect finds it, and the compressed bytes. Output: the content, up to a number of
// bytes. The package reads no zip, and holds one window of the content.
package compressions
