package uninstall

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// shownNames bounds the names of objects in a cell of the table.
const shownNames = 3

// names are the first names of a group, for a table.
func (g *Group) names() string {
	var shown []string
	for _, name := range g.Names[:min(len(g.Names), shownNames)] {
		shown = append(shown, texts.OneLine(name))
	}
	text := strings.Join(shown, ", ")
	if g.Count > shownNames {
		text += ", …"
	}
	return text
}

// write writes a plan as a table, or as a document.
func write(w io.Writer, format string, plan *Plan) error {
	if format != printers.Table {
		return printers.Document(w, format, plan)
	}
	if len(plan.Steps) > 0 {
		rows := [][]string{{"STEP", "DOES", "KIND", "COUNT", "OBJECTS"}}
		for i := range plan.Steps {
			step := &plan.Steps[i]
			for n := range step.Groups {
				number, name := strconv.Itoa(i+1), step.Name
				if n > 0 {
					number, name = "", ""
				}
				rows = append(rows, []string{number, name, step.Groups[n].Kind, strconv.Itoa(step.Groups[n].Count), step.Groups[n].names()})
			}
		}
		if err := printers.Rows(w, printers.Narrow, rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	rows := [][]string{{"LEFT", "COUNT", "OBJECTS", "BECAUSE", "TO DELETE"}}
	for i := range plan.Left {
		l := &plan.Left[i]
		rows = append(rows, []string{l.Kind, strconv.Itoa(l.Count), l.names(), l.Why, l.Remedy})
	}
	return printers.Rows(w, printers.Narrow, rows)
}

// notes writes what is not in the table.
func notes(w io.Writer, plan *Plan) {
	for _, text := range plan.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	for _, text := range plan.Unread {
		fmt.Fprintf(w, "warning: not read: %s\n", texts.OneLine(text))
	}
	for _, need := range plan.Needs {
		fmt.Fprintf(w, "needed: %s: %s\n", need.Flag, texts.OneLine(need.Message))
	}
}
