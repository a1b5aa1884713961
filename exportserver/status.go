package exportserver

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/virtward/virtward/ovf"
	"github.com/virtward/virtward/ovf/archive"
	"github.com/virtward/virtward/ovf/transfer"
)

// Phase is what a server does.
type Phase string

// The phases.
const (
	// PhaseMeasuring means that the disks are read for the first time. A problem can pass: the server tries again.
	PhaseMeasuring Phase = "Measuring"
	// PhaseReady means that the file can be downloaded.
	PhaseReady Phase = "Ready"
	// PhaseFailed means that there is a problem that does not pass.
	PhaseFailed Phase = "Failed"
)

// ReasonFailed is the reason of a problem that no server of a URL has caused.
const ReasonFailed = "ExportFailed"

// Status is what a server did.
type Status struct {
	Phase Phase `json:"phase"`
	// Done and All are the bytes of the disks that were measured.
	Done int64 `json:"done"`
	All  int64 `json:"all"`
	// Name, Size, Tag and Files are those of the OVA, once it is measured.
	Name  string         `json:"name,omitempty"`
	Size  int64          `json:"size,omitempty"`
	Tag   string         `json:"tag,omitempty"`
	Files []archive.File `json:"files,omitempty"`
	// SHA256 is the digest of the OVA, once it was downloaded in one answer.
	SHA256 string `json:"sha256,omitempty"`
	// Warnings are what is not exported.
	Warnings []ovf.Warning `json:"warnings,omitempty"`
	// Requests are those for the OVA, Completed the answers with all of it, Sent the bytes of all answers.
	Requests  int64             `json:"requests"`
	Completed int64             `json:"completed"`
	Sent      int64             `json:"sent"`
	Problem   *transfer.Problem `json:"problem,omitempty"`
}

// maxSmallFiles bounds the files of an export that are not disks.
const maxSmallFiles = 4

// validTag is the form of the tag of an archive.
var validTag = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ParseStatus reads a status of a server. A user who can execute programs in the pod of the server controls the status: only its form is
// certain.
func ParseStatus(data []byte) (*Status, error) {
	s := &Status{}
	if err := transfer.Decode(data, s); err != nil {
		return nil, fmt.Errorf("the status: %w", err)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("the status: %w", err)
	}
	return s, nil
}

func (s *Status) validate() error {
	switch {
	case s.Phase != PhaseMeasuring && s.Phase != PhaseReady && s.Phase != PhaseFailed:
		return fmt.Errorf("phase is %.40q", s.Phase)
	case s.Phase == PhaseFailed && s.Problem == nil:
		return errors.New("it has failed without a problem")
	case s.Done < 0 || s.Done > s.All || s.Size < 0:
		return errors.New("done, all or size is not possible")
	case s.Phase == PhaseReady && (s.Size == 0 || s.Name == "" || !validTag.MatchString(s.Tag)):
		return errors.New("it is ready without a size, a name or a tag")
	case len(s.Files) > MaxDisks+maxSmallFiles:
		return fmt.Errorf("it has more than %d files", MaxDisks+maxSmallFiles)
	case s.Problem != nil && len(s.Problem.Message) > maxMessage:
		return fmt.Errorf("the message of the problem has more than %d bytes", maxMessage)
	}
	return nil
}
