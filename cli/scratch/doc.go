// Package scratch has the temporary files in which commands decompress disks and archives.
//
// Input: nothing. Output: a file that is removed when it is closed.
package scratch
