package importserver

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/virtward/virtward/importserver/volumes"
)

// archiveCodes are the codes of answers for a volume without an OVA that can be opened. The controller has the messages for them.
var archiveCodes = []struct {
	err  error
	code int
}{
	{volumes.ErrAbsent, http.StatusNotFound},
	{volumes.ErrSeveral, http.StatusConflict},
	{volumes.ErrKind, http.StatusUnprocessableEntity},
	{volumes.ErrDenied, http.StatusForbidden},
}

// serveArchive sends the OVA of the volume, or ranges of it, to Virtward's controller: the controller cannot mount the claim. It takes one
// of the places of the disks.
func (s *Server) serveArchive(w http.ResponseWriter, r *http.Request) {
	leave, ok := s.enter(r.Context(), s.places)
	if !ok {
		denyCrowded(w)
		return
	}
	defer leave()
	file, err := volumes.Open(s.volume)
	if err != nil {
		code := http.StatusInternalServerError
		for _, known := range archiveCodes {
			if errors.Is(err, known.err) {
				code = known.code
			}
		}
		s.metrics.failures.WithLabelValues(reasonUnreadable).Inc()
		s.log.Error(err, "the archive cannot be served")
		http.Error(w, err.Error(), code)
		return
	}
	defer file.Close()
	w.Header().Set("ETag", file.Tag)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server ends requests that take long
	http.ServeContent(&patient{ResponseWriter: w, control: control, sent: s.metrics.sent.Add}, r, "", time.Time{}, io.NewSectionReader(file, 0, file.Size()))
}

// patient gives a client more time with each block that it takes.
type patient struct {
	http.ResponseWriter

	control *http.ResponseController
	sent    func(float64)
}

// Write implements io.Writer.
func (p *patient) Write(data []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(stall)) // the server ends requests that take long
	n, err := p.ResponseWriter.Write(data)
	p.sent(float64(n))
	return n, err //nolint:wrapcheck // of the client
}
