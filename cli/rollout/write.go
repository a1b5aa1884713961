package rollout

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/texts"
)

// shownValue bounds a value in the table, in characters.
const shownValue = 32

func (c *planCommand) write(plans []plan) error {
	out := bufio.NewWriter(c.program.Streams.Out)
	var err error
	switch c.output {
	case options.OutputJSON:
		err = texts.WriteJSON(out, map[string]any{"plans": plans})
	case options.OutputYAML:
		var data []byte
		if data, err = yaml.Marshal(map[string]any{"plans": plans}); err == nil {
			_, err = out.Write(data)
		}
	default:
		err = writeTables(out, plans)
	}
	return errors.Join(err, out.Flush())
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
		_, err := fmt.Fprintln(w, "No change is pending.")
		return err
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIELD\tRUNS\tDESIRED\tTAKES")
	for i := range p.Changes {
		c := &p.Changes[i]
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", c.Field+layer(c), value(c.Old), value(c.New), c.Takes)
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	if p.Omitted > 0 {
		fmt.Fprintf(w, "… and %d more\n", p.Omitted)
	}
	fmt.Fprintln(w)
	return p.writeReasons(w)
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

// announced says that KubeVirt leaves a change pending silently.
func announced(c *rollouts.Change) string {
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
