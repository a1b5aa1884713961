// Package examples embeds the examples that the playground shows.
//
// Input: none. Output: the files, as they are in this folder.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml kubevirt/mshv.yaml policy rejected templates/database.yaml
var files embed.FS

// Files returns the files.
func Files() fs.FS { return files }
