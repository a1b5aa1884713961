package virtualimages

// State is that of an image in its backend.
type State string

// The states.
const (
	// Absent images do not exist in the backend.
	Absent State = "Absent"
	// Spent identifiers were of an image that is deleted. The backend takes none of them again.
	Spent State = "Spent"
	// Waiting imports wait for others, or for a check of the source.
	Waiting State = "Waiting"
	// Importing images are being imported.
	Importing State = "Importing"
	// Ready images can be used.
	Ready State = "Ready"
	// Failed imports do not continue. A backend may forget the failure after it reported it once.
	Failed State = "Failed"
	// Deactivated images exist, but their backend does not serve them.
	Deactivated State = "Deactivated"
	// Taken names or identifiers are those of an object of others.
	Taken State = "Taken"
	// Blocked deletions wait for something outside of the cluster, such as the protection of the image.
	Blocked State = "Blocked"
)

// Observation is what a backend says about an image.
type Observation struct {
	State State
	// Reason is a word for the condition, such as ChecksumMismatch; empty for the default of the state.
	Reason string
	// Message is a sentence for the owner of the image.
	Message string
	// Permanent failures do not end with another attempt.
	Permanent bool
	// Left tells of an image that is absent that some of its objects exist. Delete deletes them.
	Left bool
	// SizeBytes and Checksum are those of the stored image; 0 and empty if they are not known.
	SizeBytes int64
	Checksum  string
	// Done and Total measure the import; Total is 0 if it is not known. InBytes is set if they are bytes.
	Done, Total int64
	InBytes     bool
}

// gone reports whether nothing is left of an image.
func (o *Observation) gone() bool { return (o.State == Absent || o.State == Spent) && !o.Left }
