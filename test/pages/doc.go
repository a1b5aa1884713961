// Package pages reads the blocks of code in pages of the documentation, and runs their commands as a reader does.
// It also reads headings and links.
//
// Input: the table of pages, and the text of a page. Output: its blocks, anchors and links, and errors of a test where a command does not do what the
// page shows. Every block has one of these forms:
//
//   - Commands: a fenced block of the language console or sh, or an indented block. In a console block, lines after a command are its
//     output, which is compared. The commands run in the lane of the page: only with the CLI, or on the sandbox.
//   - YAML: the sandbox admits its objects in a dry run, or a command uses it as a file.
//   - Go and YAML that a file has, text, a query of Prometheus, or a diff.
//
// Comments, which readers do not see, say what differs. A comment applies to the block that it is in front of:
//
//	<!-- not run: REASON -->     its commands do not run, for one of Reasons
//	<!-- runs only: REASON -->   its commands run, and the page shows another output, for one of Reasons
//	<!-- file: NAME -->          it is written to a file, which commands use
//	<!-- from: PATH -->          the file has its lines
//	<!-- tested by: PATH -->     this test checks it
//	<!-- with: WORD=VALUE … -->  a word is replaced before a command runs
//	<!-- run: COMMANDS -->       commands that run at this place, and need no block
//
// The package does not start a control plane, and does not check the text between blocks.
package pages
