package convert

// KnownPodPaths are the paths of the fields of pods that are known before the pod exists.
func KnownPodPaths() []string {
	var all []string
	for _, f := range podFields() {
		if f.unknown == "" {
			all = append(all, f.path)
		}
	}
	return all
}

// ReadNumber and SpanPattern are the forms of texts that are numbers and times.
const (
	ReadNumber  = readNumber
	SpanPattern = spanPattern
)
