package why

import (
	"fmt"
	"io"
	"strconv"

	"github.com/virtward/virtward/cli/explanation"
	"github.com/virtward/virtward/cli/printers"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/startup"
	"github.com/virtward/virtward/texts"
)

// Kind of a Report in JSON.
const Kind = "Why"

// State of a virtual machine.
type State string

// The states of a virtual machine.
const (
	Running   State = "Running"
	CanRun    State = "CanRun"
	CannotRun State = "CannotRun"
)

// Report says why a virtual machine does not run, or where it can. Its JSON form is documented, and fields are only ever added.
type Report struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Source     string             `json:"source"`
	Object     explanation.Object `json:"object"`
	State      State              `json:"state"`
	// Answer is one sentence, Field and Layer are behind it, and Change would help.
	Answer string `json:"answer"`
	Field  string `json:"field,omitempty"`
	Layer  string `json:"layer,omitempty"`
	Change string `json:"change,omitempty"`
	// Symptoms are what the cluster says about the virtual machine, the most important first.
	Symptoms []startup.Symptom `json:"symptoms,omitempty"`
	// Rejections are findings with which Virtward rejects it.
	Rejections []string `json:"rejections,omitempty"`
	// Creation are the reasons for which the API server does not create the pod.
	Creation []placement.Reason `json:"creation,omitempty"`
	// Groups are the reasons of all nodes together, and Nodes those of each.
	Groups []placement.Group `json:"groups,omitempty"`
	Nodes  []Node            `json:"nodes,omitempty"`
	// Fitting is the number of nodes that can run it.
	Fitting int `json:"fitting"`
	// Unknown are the objects that the virtual machine refers to and that are not in the files, each with its field. What they determine
	// is not checked.
	Unknown []string `json:"unknown,omitempty"`
	// Warnings are those of the evaluation, such as an instancetype that does not exist.
	Warnings []string `json:"warnings,omitempty"`
	// Assumptions say what was not known, Unread what the user may not read, and Remarks what is odd.
	Assumptions []string `json:"assumptions,omitempty"`
	Unread      []string `json:"unread,omitempty"`
	Remarks     []string `json:"remarks,omitempty"`

	podError string
}

// Node is whether a node can run the virtual machine.
type Node struct {
	Name    string             `json:"name"`
	Fits    bool               `json:"fits"`
	Reasons []placement.Reason `json:"reasons,omitempty"`
}

// add adds a placement.
func (r *Report) add(p *placement.Placement) {
	r.Creation, r.Groups, r.Fitting = p.Creation, p.Groups(), p.Fitting()
	r.Assumptions = append(r.Assumptions, p.Assumptions...)
	r.Unknown = append(r.Unknown, p.NotChecked...)
	for i := range p.Len() {
		r.Nodes = append(r.Nodes, Node{Name: p.Node(i), Fits: p.Fits(i), Reasons: p.Reasons(i)})
	}
}

// answer finds the one answer. The placement is nil if no node was checked.
func (r *Report) answer(p *placement.Placement) {
	r.State = CannotRun
	switch {
	case len(r.Symptoms) > 0 && r.Symptoms[0].Kind == startup.Running:
		r.State, r.Answer = Running, r.Symptoms[0].Text
	case p == nil && len(r.Symptoms) > 0:
		r.Answer, r.Change = r.Symptoms[0].Text, r.Symptoms[0].Change
	case len(r.Rejections) > 0 && len(r.Symptoms) == 0:
		r.Answer, r.Change = "Virtward rejects it: "+r.Rejections[0], "see kubectl virtward explain"
	case r.podError != "":
		r.Answer = "KubeVirt cannot make its pod: " + r.podError
	case p == nil:
		r.Answer = "it has no instance that could run: see kubectl virtward explain"
	case len(p.Creation) > 0:
		c := &p.Creation[0]
		who := "the API server does not create its pod: "
		if c.Plugin == placement.KubeVirt {
			who = "KubeVirt does not make its pod: "
		}
		r.Answer, r.Field, r.Layer, r.Change = who+c.Text, c.Field, c.Layer, c.Change
	case p.Len() == 0:
		r.Answer = "there are no nodes"
	case p.Fitting() == 0:
		r.nearest(p)
	case len(r.Symptoms) > 0 && r.Symptoms[0].Kind != startup.Stopped:
		r.Answer, r.Change = r.Symptoms[0].Text, r.Symptoms[0].Change
	default:
		r.State = CanRun
		r.Answer = fmt.Sprintf("%d of %s can run it", p.Fitting(), texts.Count(p.Len(), "node", "nodes"))
		if len(r.Unknown) > 0 {
			r.Answer += ", as far as it is known without " + texts.First(r.Unknown, 3)
		}
		if len(r.Symptoms) > 0 {
			r.Answer, r.Change = r.Symptoms[0].Text+"; "+r.Answer, r.Symptoms[0].Change
		}
	}
}

// nearest answers with the node that lacks the least.
func (r *Report) nearest(p *placement.Placement) {
	best := 0
	for i := range r.Nodes {
		if len(r.Nodes[i].Reasons) < len(r.Nodes[best].Reasons) {
			best = i
		}
	}
	for i := range r.Groups { // of several such nodes, the one that lacks the smallest amount
		if g := &r.Groups[i]; g.Only > 0 {
			for j := range r.Nodes {
				if r.Nodes[j].Name == g.Nearest && len(r.Nodes[j].Reasons) == 1 {
					best = j
				}
			}
			break
		}
	}
	node := &r.Nodes[best]
	reason := &node.Reasons[0]
	r.Field, r.Layer, r.Change = reason.Field, reason.Layer, reason.Change
	r.Answer = fmt.Sprintf("none of %s can run it. The nearest is %s: %s", texts.Count(p.Len(), "node", "nodes"), node.Name, reason.Text)
	if more := len(node.Reasons) - 1; more > 0 {
		r.Answer += ", and " + texts.Count(more, "other reason", "other reasons")
	}
}

// write writes the report for people.
func (r *Report) write(out io.Writer, table bool) error {
	line := func(format string, args ...any) { fmt.Fprintln(out, texts.OneLine(fmt.Sprintf(format, args...))) }
	line("%s: %s", r.Object, r.Answer)
	if r.Field != "" {
		by := "its author"
		if r.Layer != "" {
			by = r.Layer
		}
		line("field: %s, set by %s", r.Field, by)
	}
	if r.Change != "" {
		line("change: %s", r.Change)
	}
	for i, s := range r.Symptoms {
		if i > 0 || s.Text != r.Answer {
			line("%s: %s", s.Source, s.Text)
		} else {
			line("source: %s", s.Source)
		}
	}
	for i := range r.Creation {
		if c := &r.Creation[i]; i > 0 {
			line("also: %s: %s", c.Plugin, c.Text)
		}
	}
	for _, text := range r.Warnings {
		line("warning: %s", text)
	}
	for _, text := range r.Assumptions {
		line("assumed: %s", text)
	}
	for _, text := range r.Unread {
		line("not read: %s", text)
	}
	for _, text := range r.Remarks {
		line("remark: %s", text)
	}
	rows := r.groupRows()
	if table {
		rows = r.nodeRows()
	}
	if len(rows) < 2 {
		return nil
	}
	fmt.Fprintln(out)
	return printers.Rows(out, printers.Narrow, rows)
}

func cells(words ...string) []string {
	for i := range words {
		words[i] = texts.OneLine(words[i])
	}
	return words
}

func (r *Report) groupRows() [][]string {
	rows := [][]string{{"NODES", "ONLY", "NEAREST", "REASON THERE", "FIELD", "LAYER", "CHANGE"}}
	for i := range r.Groups {
		g := &r.Groups[i]
		rows = append(rows, cells(strconv.Itoa(g.Nodes), strconv.Itoa(g.Only), g.Nearest, g.Text, g.Field, g.Layer, g.Change))
	}
	return rows
}

func (r *Report) nodeRows() [][]string {
	rows := [][]string{{"NODE", "FITS", "PLUGIN", "REASON", "FIELD", "LAYER", "CHANGE"}}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		if n.Fits {
			rows = append(rows, cells(n.Name, "yes", "", "", "", "", ""))
		}
		for j := range n.Reasons {
			x := &n.Reasons[j]
			rows = append(rows, cells(n.Name, "no", x.Plugin, x.Text, x.Field, x.Layer, x.Change))
		}
	}
	return rows
}
