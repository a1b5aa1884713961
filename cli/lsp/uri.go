package lsp

import (
	"net/url"
	"path"
	"strings"
)

// pathOf returns the path of a file's URI, with slashes. It returns false for other URIs, such as those of new documents.
func pathOf(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	file := path.Clean(u.Path)
	if len(file) > 2 && file[2] == ':' { // /c:/ of Windows
		file = file[1:]
	}
	return file, true
}
