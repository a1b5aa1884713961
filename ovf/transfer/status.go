package transfer

import "fmt"

// DigestState is what is known about the digest of a disk.
type DigestState string

// The states of a digest.
const (
	// DigestAbsent means that the plan has no digest for all parts of the disk.
	DigestAbsent DigestState = "Absent"
	// DigestPending means that the disk was not read completely.
	DigestPending DigestState = "Pending"
	// DigestVerified means that all bytes of the disk were sent in one answer, and have the digests of the plan.
	DigestVerified DigestState = "Verified"
	// DigestMismatch means that the bytes have other digests. The last bytes were withheld.
	DigestMismatch DigestState = "Mismatch"
)

// Status is what a server did.
type Status struct {
	// Disks are in the order of the plan.
	Disks []DiskStatus `json:"disks"`
	// Stage is how far a copy is; nil without one.
	Stage *StageStatus `json:"stage,omitempty"`
}

// StageStatus is how far the copy of a file is.
type StageStatus struct {
	// Done and Total are bytes of the file as the server sends it. Total is 0 if the server does not state it.
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
}

// StageExit is the code with which the program ends that copies a file. Other codes are errors of this program.
type StageExit int32

// The codes.
const (
	// StageTooLarge means that the copy is larger than MaxBytes, or does not fit into the volume.
	StageTooLarge StageExit = iota + 10
	// StageDamaged means that the file cannot be decompressed.
	StageDamaged
	// StageWindow means that zstd needs more than MaxWindow.
	StageWindow
	// StageNotPermitted means that a redirect leads to a place that may not be connected to.
	StageNotPermitted
	// StageUnavailable means that the server does not send the file. Another attempt can succeed.
	StageUnavailable
	// StageUnwritable means that the file of the volume cannot be written. Another attempt can succeed.
	StageUnwritable
	// StageDictionary means that xz needs more than MaxDictionary.
	StageDictionary
	// StageFilter means that xz has a filter that is not read.
	StageFilter
	// StageMismatch means that the registry sends other bytes than those of the digest.
	StageMismatch
)

// ExitError is the error of a copy.
type ExitError struct {
	Code StageExit
	Err  error
}

// Error implements error.
func (e *ExitError) Error() string { return "copying the file into the volume: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code with which the program ends.
func (e *ExitError) ExitCode() int { return int(e.Code) }

// DiskStatus is the status of a disk.
type DiskStatus struct {
	Name string `json:"name"`
	// Size is the number of bytes that are served.
	Size int64 `json:"size"`
	// Format and VirtualSize are what was found in the image; empty before the first request, and for a compressed image.
	Format      string `json:"format,omitempty"`
	VirtualSize int64  `json:"virtualSize,omitempty"`
	// Received bytes came from the source, and Sent went to clients, with those that were sent again.
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	// Furthest is the highest number of bytes that an answer with the whole disk has sent.
	Furthest int64 `json:"furthest"`
	// Requests is the number of requests for bytes, Restarts that of requests for the whole disk after the first one, and Completed that
	// of answers that sent the whole disk.
	Requests  int64 `json:"requests"`
	Restarts  int64 `json:"restarts"`
	Completed int64 `json:"completed"`
	// Resumptions is how often a connection to the source broke and the transfer continued.
	Resumptions int64       `json:"resumptions"`
	Digest      DigestState `json:"digest"`
	// Problem is the last error. It stays after a later success.
	Problem *Problem `json:"problem,omitempty"`
}

// Problem is why a disk could not be served.
type Problem struct {
	// Reason is one of the reasons of sources/web, or a class of rejections of package ovf.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Permanent means that the next request fails too.
	Permanent bool `json:"permanent"`
}

// ParseStatus reads a status of a server with a number of disks. A user who can execute programs in the pod of the server controls the
// status: only its form is certain.
func ParseStatus(data []byte, disks int) (*Status, error) {
	s := &Status{}
	if err := Decode(data, s); err != nil {
		return nil, fmt.Errorf("the status: %w", err)
	}
	if len(s.Disks) != disks {
		return nil, fmt.Errorf("the status has %d disks instead of %d", len(s.Disks), disks)
	}
	return s, nil
}
