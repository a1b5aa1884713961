package status

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/virtward/virtward/cli/printers"
)

// document is the output in JSON and YAML.
type document struct {
	// State is the worst one of the results.
	State   State    `json:"state"`
	Results []Result `json:"results"`
}

func (c *command) write(w io.Writer, results []Result) error {
	all := document{State: OK, Results: append([]Result{}, results...)}
	for i := range results {
		all.State = worst(all.State, results[i].State)
	}
	if c.output != printers.Table {
		return printers.Document(w, c.output, all)
	}
	out := bufio.NewWriter(w)
	return errors.Join(writeTable(out, results), out.Flush())
}

// resultPrinter prints the results of checks.
var resultPrinter = printers.Printer[Result]{
	Columns: []string{"CHECK", "STATE", "SUBJECT", "MESSAGE"},
	Row:     func(r *Result) []string { return []string{r.Check, string(r.State), r.Subject, r.Message} },
}

// writeTable writes a line for each result, and below it what to do.
func writeTable(w io.Writer, results []Result) error {
	if err := resultPrinter.Table(w, printers.Table, results); err != nil {
		return err
	}
	remedies := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Remedy == "" })
	if len(remedies) > 0 {
		fmt.Fprintln(w, "\nTo do:")
	}
	for i := range remedies {
		if _, err := fmt.Fprintf(w, "  %s %s: %s\n", remedies[i].Check, remedies[i].Subject, remedies[i].Remedy); err != nil {
			return err
		}
	}
	return nil
}
