// Package blocks replaces the generated blocks of files that people write otherwise.
//
// Input: the text of a file, the name of a block and its new lines. Output: the text with the block. The lines around a block are
// `<!-- generated: NAME -->` and `<!-- end -->` in Markdown, and `# generated: NAME` and `# end` in YAML. What is outside of them
// stays as it is.
//
// The package reads and writes no files.
package blocks
