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

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/texts"
)

// shownFields bounds the fields of a row of the table. The wide one has all.
const shownFields = 2

// write writes the statuses. Virtual machines without a pending change are only in the table if they are named.
func (c *statusCommand) write(all []status, named bool) error {
	if c.output == printers.JSON || c.output == printers.YAML {
		return printers.Document(c.program.Streams.Out, c.output, printers.List[status]("virtualMachines")(all))
	}
	out := bufio.NewWriter(c.program.Streams.Out)
	return errors.Join(c.writeTable(out, all, named), out.Flush())
}

// line is a row of the table: a reason why changes of a virtual machine are pending.
type line struct{ namespace, name, takes, fields, since, announced, reason string }

// printer prints lines.
func (c *statusCommand) printer() *printers.Printer[line] {
	return &printers.Printer[line]{
		Columns: []string{"NAMESPACE", "NAME", "TAKES", "FIELDS", "SINCE", "KUBEVIRT", "REASON"}, Wide: 2,
		Row: func(l *line) []string {
			return []string{l.namespace, l.name, l.takes, l.fields, l.since, l.announced, l.reason}
		},
		Namespaced: true, AllNamespaces: c.all,
	}
}

func (c *statusCommand) writeTable(out io.Writer, all []status, named bool) error {
	shown := slices.Clone(all)
	if !named {
		shown = slices.DeleteFunc(shown, func(s status) bool { return len(s.Pending) == 0 && !s.failed && s.RestartRequired == "" })
	}
	var lines []line
	for i := range shown {
		lines = append(lines, c.lines(&shown[i])...)
	}
	if len(lines) > 0 {
		if err := c.printer().Table(out, c.output, lines); err != nil {
			return err
		}
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

// lines returns a line for each reason.
func (c *statusCommand) lines(s *status) (lines []line) {
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
		return []line{{s.Namespace, s.Name, none, none, none, announced, text}}
	}
	for i := range s.Pending {
		change := &s.Pending[i]
		reason := change.Reason
		if change.WayOut != "" {
			reason += " " + change.WayOut
		}
		lines = append(lines, line{s.Namespace, s.Name, texts.OneLine(change.Takes), c.fields(change), age(change.Since), announced, texts.OneLine(reason)})
	}
	if s.Omitted > 0 {
		lines = append(lines, line{s.Namespace, s.Name, none, fmt.Sprintf("and %d more", s.Omitted), none, announced, none})
	}
	return lines
}

// fields lists the fields of a change, without the path of the template.
func (c *statusCommand) fields(change *v1alpha1.PendingChange) string {
	shown := change.Fields
	if c.output != printers.Wide {
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
