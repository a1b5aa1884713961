package simulators

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// ServeDisks starts a web server whose every path is a disk of 1 GiB in the format qcow2, without data. A path that ends with .html
// is a page.
func ServeDisks() *httptest.Server {
	disk := make([]byte, 1<<16)
	copy(disk, "QFI\xfb\x00\x00\x00\x03")
	binary.BigEndian.PutUint64(disk[24:], 1<<30)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := disk
		if strings.HasSuffix(r.URL.Path, ".html") {
			content = []byte("<html><body>Log in first.</body></html>")
		}
		http.ServeContent(w, r, "", time.Unix(1_700_000_000, 0), bytes.NewReader(content))
	}))
}
