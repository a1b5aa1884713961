package templates

// Outcome of a case.
type Outcome string

// The outcomes.
const (
	Equal  Outcome = "equal"
	Better Outcome = "better"
	Other  Outcome = "other"
	// Skipped cases are not compared, and count in no total.
	Skipped Outcome = "skipped"
)

// Result is the outcome of one case.
type Result struct {
	ID, Area string
	Outcome  Outcome
	// Class is the known fault of the recorded answer, for Better.
	Class string
	// Difference says what differs, for Other, or why the case is skipped.
	Difference string
}

// Summary counts the outcomes.
type Summary struct{ Equal, Better, Other, Skipped int }

// Agreed are the cases whose outcome is Equal or Better.
func (s Summary) Agreed() int { return s.Equal + s.Better }

// Total are all compared cases.
func (s Summary) Total() int { return s.Equal + s.Better + s.Other }

// Summarize counts results.
func Summarize(results []Result) (s Summary) {
	for i := range results {
		switch results[i].Outcome {
		case Equal:
			s.Equal++
		case Better:
			s.Better++
		case Skipped:
			s.Skipped++
		default:
			s.Other++
		}
	}
	return s
}
