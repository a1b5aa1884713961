package rollout

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts"
)

// shownValue bounds a value in the table, in characters.
const shownValue = 32

func (c *planCommand) write(all *planned) error {
	document := map[string]any{"plans": append([]plan{}, all.plans...)}
	var failed []string
	for _, err := range all.failed {
		failed = append(failed, err.Error())
	}
	if failed != nil {
		document["notPlanned"] = failed
	}
	if c.output != printers.Table {
		return printers.Document(c.program.Streams.Out, c.output, document)
	}
	out := bufio.NewWriter(c.program.Streams.Out)
	return errors.Join(writeTables(out, all.plans), out.Flush())
}

func writeTables(w io.Writer, plans []plan) error {
	for i := range plans {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := plans[i].writeTable(w); err != nil {
			return err
		}
	}
	return nil
}

// writeTable writes a line for each change, and below the table the reasons and ways out.
func (p *plan) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "VirtualMachine %s/%s\n", p.Namespace, p.Name)
	for _, note := range p.Notes {
		fmt.Fprintln(w, "note:", texts.OneLine(note))
	}
	if len(p.Changes) == 0 {
		text := "No change is pending."
		if p.RestartRequired != "" {
			text = fmt.Sprintf("No change is pending. KubeVirt requires a restart nevertheless: %s.", p.RestartRequired)
		}
		_, err := fmt.Fprintln(w, text)
		return err
	}
	if err := changePrinter.Table(w, printers.Table, p.Changes); err != nil {
		return err
	}
	if p.Omitted > 0 {
		fmt.Fprintf(w, "… and %d more\n", p.Omitted)
	}
	fmt.Fprintln(w)
	return p.writeReasons(w)
}

// changePrinter prints the changes of a plan.
var changePrinter = printers.Printer[rollouts.Change]{
	Columns: []string{"FIELD", "RUNS", "DESIRED", "TAKES"},
	Row: func(c *rollouts.Change) []string {
		return []string{c.Field + layer(c), value(c.Old), value(c.New), string(c.Takes)}
	},
	Spacing: printers.Narrow,
}

// writeReasons writes each reason once, with the fields that it is about.
func (p *plan) writeReasons(w io.Writer) error {
	written := map[string]bool{}
	for i := range p.Changes {
		c := &p.Changes[i]
		text := string(c.Takes) + ": " + c.Reason
		if c.WayOut != "" {
			text += " " + c.WayOut
		}
		if written[text] {
			continue
		}
		written[text] = true
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
		for k := i; k < len(p.Changes); k++ {
			if other := &p.Changes[k]; other.Takes == c.Takes && other.Reason == c.Reason && other.WayOut == c.WayOut {
				fmt.Fprintln(w, "  "+other.Field+announced(other))
			}
		}
	}
	return nil
}

// announced says that KubeVirt leaves a change pending silently, or announces a restart that it does not need.
func announced(c *rollouts.Change) string {
	if c.Announced == rollouts.ByRestartRequired && c.Takes == rollouts.Live {
		return " (KubeVirt announces a restart nevertheless)"
	}
	if c.Announced == rollouts.Silent && c.Takes != rollouts.Live && c.Takes != rollouts.NextStart {
		return " (KubeVirt does not announce it)"
	}
	return ""
}

// layer names the instancetype or the preference that a change results from.
func layer(c *rollouts.Change) string {
	if c.Layer == "" {
		return ""
	}
	return " (" + texts.OneLine(c.Layer) + ")"
}

func value(text string) string {
	if text == "" {
		return "–"
	}
	return texts.ShortenCharacters(text, shownValue)
}
