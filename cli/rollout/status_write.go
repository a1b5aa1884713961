package rollout

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// shownFields bounds the fields of a row of the table. The wide one has all.
const shownFields = 2

// write writes the statuses. Virtual machines without a pending change are only in the table if they are named.
func (c *statusCommand) write(all []status, named bool) error {
	out := bufio.NewWriter(c.program.Streams.Out)
	var err error
	switch c.output {
	case options.OutputJSON:
		err = texts.WriteJSON(out, map[string]any{"virtualMachines": present(all)})
	case options.OutputYAML:
		var data []byte
		if data, err = yaml.Marshal(map[string]any{"virtualMachines": present(all)}); err == nil {
			_, err = out.Write(data)
		}
	default:
		err = c.writeTable(out, all, named)
	}
	return errors.Join(err, out.Flush())
}

// present is a list that is not null in JSON.
func present(all []status) []status {
	if all == nil {
		return []status{}
	}
	return all
}

func (c *statusCommand) writeTable(out io.Writer, all []status, named bool) error {
	shown := slices.Clone(all)
	if !named {
		shown = slices.DeleteFunc(shown, func(s status) bool { return len(s.Pending) == 0 && !s.failed && s.RestartRequired == "" })
	}
	columns := printers.GetNewTabWriter(out)
	if len(shown) > 0 {
		c.row(columns, "NAMESPACE", "NAME", "TAKES", "FIELDS", "SINCE", "KUBEVIRT", "REASON")
	}
	for i := range shown {
		c.writeRows(columns, &shown[i])
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	running, pending := 0, 0
	for i := range all {
		if all[i].Running {
			running++
		}
		if len(all[i].Pending) > 0 {
			pending++
		}
	}
	if !named {
		fmt.Fprintf(out, "%d of %d running virtual machines have pending changes.\n", pending, running)
	}
	for i := range shown {
		for _, note := range shown[i].Notes {
			fmt.Fprintf(out, "note: %s/%s: %s\n", shown[i].Namespace, shown[i].Name, texts.OneLine(note))
		}
	}
	return nil
}

// row writes the columns of the output.
func (c *statusCommand) row(w io.Writer, namespace, name, takes, fields, since, announced, reason string) {
	cells := []string{name, takes, fields, since}
	if c.all {
		cells = append([]string{namespace}, cells...)
	}
	if c.output == outputWide {
		cells = append(cells, announced, reason)
	}
	fmt.Fprintln(w, strings.Join(cells, "\t"))
}

// writeRows writes a row for each reason.
func (c *statusCommand) writeRows(w io.Writer, s *status) {
	const none = "–"
	announced := none
	if s.RestartRequired != "" {
		announced = "RestartRequired"
	}
	if len(s.Pending) == 0 {
		text := "nothing is pending"
		switch {
		case s.failed:
			text = "not known"
		case !s.Running:
			text = "it does not run"
		case s.RestartRequired != "":
			text = "KubeVirt requires a restart: " + texts.OneLine(s.RestartRequired)
		}
		c.row(w, s.Namespace, s.Name, none, none, none, announced, text)
		return
	}
	for i := range s.Pending {
		change := &s.Pending[i]
		reason := change.Reason
		if change.WayOut != "" {
			reason += " " + change.WayOut
		}
		c.row(w, s.Namespace, s.Name, texts.OneLine(change.Takes), c.fields(change), age(change.Since), announced, texts.OneLine(reason))
	}
	if s.Omitted > 0 {
		c.row(w, s.Namespace, s.Name, none, fmt.Sprintf("and %d more", s.Omitted), none, announced, none)
	}
}

// fields lists the fields of a change, without the path of the template.
func (c *statusCommand) fields(change *v1alpha1.PendingChange) string {
	shown := change.Fields
	if c.output != outputWide {
		shown = shown[:min(len(shown), shownFields)]
	}
	var short []string
	for _, field := range shown {
		short = append(short, texts.OneLine(strings.TrimPrefix(field, template+".")))
	}
	text := strings.Join(short, ", ")
	if more := len(change.Fields) - len(shown) + change.More; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func age(since metav1.Time) string {
	if since.IsZero() {
		return "unknown"
	}
	return duration.HumanDuration(time.Since(since.Time))
}
