package explanation

import "io"

// Format writes each explanation as a text, in any order and in parallel, and joins the texts.
type Format struct {
	// Text returns the text of an explanation, which is the first one, or the only one.
	Text func(e *Explanation, first, only bool) ([]byte, error)
	// Unreadable returns the text of a document that cannot be read.
	Unreadable func(u Unreadable, only bool) ([]byte, error)

	// between is written between texts, open and closing around several texts, none without any, and end after all.
	between, open, closing, none, end string
}

// YAML writes YAML documents.
func YAML() Format {
	return Format{between: "---\n", Text: func(e *Explanation, first, _ bool) ([]byte, error) { return e.yaml(first) }, Unreadable: func(u Unreadable, _ bool) ([]byte, error) { return u.yaml() }}
}

// Tables writes tables, with an empty line between them.
func Tables() Format {
	return Format{between: "\n", Text: func(e *Explanation, first, _ bool) ([]byte, error) { return e.table(first) }, Unreadable: func(u Unreadable, _ bool) ([]byte, error) { return u.table(), nil }}
}

// Pods writes tables of the pods, with an empty line between them.
func Pods() Format {
	format := Tables()
	format.Text = func(e *Explanation, first, _ bool) ([]byte, error) { return e.podTables(first) }
	return format
}

// JSON writes one explanation as an object, and several as a list.
func JSON() Format {
	return Format{
		between: ",\n  ", open: "[\n  ", closing: "\n]", none: "[]", end: "\n",
		Text:       func(e *Explanation, _, only bool) ([]byte, error) { return asJSON(e, only) },
		Unreadable: func(u Unreadable, only bool) ([]byte, error) { return asJSON(u, only) },
	}
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
	switch len(texts) {
	case 0:
		open, closing = f.none, ""
	case 1:
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
