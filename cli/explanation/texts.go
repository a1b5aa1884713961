package explanation

import "io"

// Format makes a text of each explanation, in any order and at the same time, and puts the texts together.
type Format struct {
	// Text of an explanation. first tells that no other one stands before it, alone that there is no other one.
	Text func(e *Explanation, first, alone bool) ([]byte, error)

	// between stands between texts, open and closing around several of them, end behind all.
	between, open, closing, end string
}

// YAML are documents.
func YAML() Format {
	return Format{between: "---\n", Text: func(e *Explanation, first, _ bool) ([]byte, error) { return e.yaml(first) }}
}

// Tables stand below each other.
func Tables() Format {
	return Format{between: "\n", Text: func(e *Explanation, first, _ bool) ([]byte, error) { return e.table(first) }}
}

// JSON is one explanation as an object, and several as a list.
func JSON() Format {
	return Format{between: ",\n  ", open: "[\n  ", closing: "\n]", end: "\n", Text: func(e *Explanation, _, alone bool) ([]byte, error) {
		if alone {
			return e.json("")
		}
		return e.json("  ")
	}}
}

// Write writes texts in their order.
func (f Format) Write(w io.Writer, texts [][]byte) error {
	write := func(parts ...string) error {
		for _, part := range parts {
			if _, err := io.WriteString(w, part); err != nil {
				return err
			}
		}
		return nil
	}
	open, closing := f.open, f.closing
	if len(texts) == 1 {
		open, closing = "", ""
	}
	if err := write(open); err != nil {
		return err
	}
	for i := range texts {
		if i > 0 {
			if err := write(f.between); err != nil {
				return err
			}
		}
		if _, err := w.Write(texts[i]); err != nil {
			return err
		}
	}
	return write(closing, f.end)
}
