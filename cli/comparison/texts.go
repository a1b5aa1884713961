package comparison

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/printers"
)

// heading returns lines about the assumptions, the counts, the warnings and the notes.
func (r *Report) heading() (lines []string) {
	if len(r.Assumed) > 0 {
		lines = append(lines, "what if: "+strings.Join(r.Assumed, ", "), "now: "+described(r.Now), "then: "+described(r.Then))
	} else {
		lines = append(lines, "now: "+described(r.Now))
	}
	counts := fmt.Sprintf("virtual machines: %d evaluated", r.Evaluated)
	if len(r.Assumed) > 0 {
		counts += fmt.Sprintf(", %d of them newly rejected", r.NewlyRejected)
	}
	if r.NotEvaluated > 0 {
		counts += fmt.Sprintf("; %d could not be evaluated", r.NotEvaluated)
	}
	if n := len(r.Unreadable); n > 0 {
		counts += fmt.Sprintf("; documents that cannot be read: %d", n)
	}
	lines = append(lines, counts)
	for _, text := range explanation.Messages(r.Unreadable) {
		lines = append(lines, "unreadable: "+text)
	}
	for _, w := range r.Warnings {
		lines = append(lines, "warning: "+w)
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	for i := range lines {
		lines[i] = explanation.Printable(lines[i])
	}
	return lines
}

func described(f explanation.Facts) string {
	return fmt.Sprintf("%s, %s by default (%s)", f.Hypervisor.ConfiguredName, f.DefaultArchitecture, f.Source)
}

// result returns a line that replaces empty tables.
func (r *Report) result() string {
	switch {
	case len(r.Rules) == 0 && len(r.Unreadable) > 0:
		return "No findings in the other documents."
	case len(r.Rules) == 0:
		return "No findings."
	case len(r.Assumed) > 0 && !r.Changes():
		return "Nothing changes."
	}
	return ""
}

// rows returns the rows of the tables of rules and of violations. Without an assumption, they have no changes.
func (r *Report) rows() (rules, violations [][]string) {
	compared := len(r.Assumed) > 0
	rules = [][]string{{"RULE", "SEVERITY", "FINDINGS"}}
	violations = [][]string{{"OBJECT", "RULE", "SEVERITY", "FIELD", "MESSAGE"}}
	if compared {
		rules[0] = []string{"RULE", "SEVERITY", "NEW", "GONE", "STAYS"}
		violations[0] = slices.Insert(violations[0], 0, "CHANGE")
	}
	for i := range r.Rules {
		row := &r.Rules[i]
		counts := []string{strconv.Itoa(row.Stays)}
		if compared {
			counts = []string{strconv.Itoa(row.New), strconv.Itoa(row.Gone), strconv.Itoa(row.Stays)}
		}
		rules = append(rules, append([]string{row.Rule, string(row.Severity)}, counts...))
	}
	for i := range r.Violations {
		v := &r.Violations[i]
		cells := []string{explanation.Printable(v.Object.String()), v.Rule, string(v.Severity), explanation.Printable(v.Error.Field), v.Short()}
		if compared {
			cells = slices.Insert(cells, 0, string(v.Change))
		}
		violations = append(violations, cells)
	}
	if len(r.Violations) == 0 {
		violations = nil
	}
	return rules, violations
}

// unreported returns lines about findings that are counted and not shown.
func (r *Report) unreported() (lines []string) {
	for i := range r.Rules {
		if row := &r.Rules[i]; row.NotReported > 0 {
			lines = append(lines, fmt.Sprintf("%s (%s): %d more: use --max 0 to show all", row.Rule, row.Severity, row.NotReported))
		}
	}
	return lines
}

// WriteTable writes the report for a terminal: the heading, a row for each rule with findings, and a row for each
// violation.
func (r *Report) WriteTable(w io.Writer) error {
	lines := r.heading()
	if nothing := r.result(); nothing != "" {
		lines = append(lines, nothing)
	}
	if err := writeLines(w, lines); err != nil || len(r.Rules) == 0 {
		return err
	}
	rules, violations := r.rows()
	for _, table := range [][][]string{rules, violations} {
		if len(table) == 0 {
			continue
		}
		if err := printers.Rows(w, printers.Narrow, slices.Concat([][]string{{""}}, table)); err != nil {
			return err
		}
	}
	return writeLines(w, r.unreported())
}

// WriteMarkdown writes the report for a comment on a pull request.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var lines []string
	for _, line := range r.heading() {
		lines = append(lines, "- "+escaped(line))
	}
	if nothing := r.result(); nothing != "" {
		lines = append(lines, "", nothing)
	}
	if len(r.Rules) > 0 {
		rules, violations := r.rows()
		lines = append(append(lines, markdown(rules)...), markdown(violations)...)
	}
	for i, line := range r.unreported() {
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "- "+escaped(line))
	}
	return writeLines(w, lines)
}

// markdown returns a table, after an empty line.
func markdown(rows [][]string) (lines []string) {
	for i, row := range rows {
		cells := make([]string, len(row))
		for j := range row {
			cells[j] = escaped(row[j])
			if i == 0 {
				cells[j] = strings.ToUpper(row[j][:1]) + strings.ToLower(row[j][1:])
			}
		}
		if i == 0 {
			lines = append(lines, "")
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 {
			lines = append(lines, "|"+strings.Repeat("---|", len(row)))
		}
	}
	return lines
}

// escaped escapes the special characters of Markdown.
func escaped(text string) string { return special.Replace(text) }

// special are the special characters of Markdown within a line.
var special = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "[", `\[`, "]", `\]`, "&", "&amp;", "~", `\~`, "@", "@\u200b")

func writeLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
