// Package lsp is the language server.
//
// Its input is the messages of an editor: documents, their changes, and requests about them. Its output is diagnostics and
// answers. The packages below have its parts: texts, the protocol, folders, and the analysis. It writes no files, and runs no
// programs.
package lsp
