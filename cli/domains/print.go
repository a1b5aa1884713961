package domains

import (
	"bufio"
	"fmt"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cli/previews"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/texts"
)

// layers find the layer of a field of an instance.
type layers struct {
	instance map[string]any
	changes  []provenance.Change
}

func layersOf(vmi *v1.VirtualMachineInstance, verdict *effective.Verdict) (*layers, error) {
	instance, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vmi)
	if err != nil {
		return nil, err
	}
	return &layers{instance: instance, changes: verdict.Changes}, nil
}

// written is the layer of what the author of the virtual machine wrote.
const written = "written"

// of returns the layer that set a field, or a part of it. If nothing did, it is KubeVirt at run time.
func (l *layers) of(field string) string {
	for i := len(l.changes) - 1; i >= 0; i-- {
		path := strings.TrimPrefix(l.changes[i].Path, "spec.template.")
		if fieldpath.Within(path, field) || fieldpath.Within(field, path) {
			return l.changes[i].Layer
		}
	}
	steps := fieldpath.Split(field)
	if _, present := fieldpath.Get(l.instance, steps); present < len(steps) {
		return effective.RuntimeLayer
	}
	return written
}

// describe returns the source of a value and its layer.
func (p *preview) describe(source domain.Source) (from, layer string) {
	switch {
	case p.layers == nil:
		return "document", ""
	case source.Plugin != "":
		return pluginSource(source), pluginLayer
	case source.Field != "":
		return source.Field, p.layers.of(source.Field)
	case source.Assumption != "":
		return "assumption " + source.Assumption, effective.RuntimeLayer
	}
	return "virt-launcher", effective.RuntimeLayer
}

// pluginLayer is the layer of what virt-launcher writes when it calls Plugins.
const pluginLayer = "plugins"

// pluginSource names a hook, or the round trip through libvirtxml.
func pluginSource(source domain.Source) string {
	if strings.Contains(source.Plugin, "/") {
		return "plugin " + source.Plugin
	}
	return source.Plugin
}

func (p *preview) writeTable(out *bufio.Writer) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "ELEMENT\tVALUE\tSOURCE\tLAYER")
	p.document.Walk(func(path, value string, source domain.Source) {
		from, layer := p.describe(source)
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", texts.OneLine(path), texts.OneLine(value), texts.OneLine(from), texts.OneLine(layer))
	})
	if err := columns.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	columns = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "ASSUMPTION\tVALUE\tDECLARED")
	for _, a := range p.assumed {
		fmt.Fprintf(columns, "%s\t%s\t%s\n", a.Name, texts.OneLine(a.Value), yesNo(a.Declared))
	}
	if err := columns.Flush(); err != nil || p.plugins == nil {
		return err
	}
	fmt.Fprintln(out)
	return previews.WriteHooks(out, p.plugins)
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func (p *preview) writeXML(out *bufio.Writer) error {
	fmt.Fprintln(out, "<!-- assumed about the node:")
	for _, a := range p.assumed {
		fmt.Fprintf(out, "  %s: %s\n", a.Name, comment(a.Value))
	}
	if p.plugins != nil {
		fmt.Fprintln(out, "hooks of plugins:")
		for i := range p.plugins.Hooks {
			h := &p.plugins.Hooks[i]
			text := fmt.Sprintf("%s %s: %s", h.Plugin, h.Hook, h.Outcome)
			if h.Message != "" {
				text += ", " + h.Message
			}
			fmt.Fprintf(out, "  %s\n", comment(text))
		}
		if len(p.plugins.Lost) > 0 {
			fmt.Fprintf(out, "lost, because libvirtxml does not have it:\n  %s\n", comment(strings.Join(p.plugins.Lost, ", ")))
		}
	}
	fmt.Fprintln(out, "-->")
	return p.document.XML(out)
}

// comment is a text in one line that does not end a comment of XML.
func comment(text string) string { return strings.ReplaceAll(texts.OneLine(text), "--", "- -") }

// writeDifferences writes how a domain differs from another one.
func writeDifferences(out *bufio.Writer, other, p *preview) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "ELEMENT\tOTHER\tTHIS\tSOURCE\tLAYER")
	for _, d := range domain.Diff(other.document, p.document) {
		by, source := p, d.AfterSource
		if source == (domain.Source{}) && d.After == "" {
			by, source = other, d.BeforeSource
		}
		from, layer := by.describe(source)
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\t%s\n", texts.OneLine(d.Path), texts.OneLine(d.Before), texts.OneLine(d.After), texts.OneLine(from), texts.OneLine(layer))
	}
	return columns.Flush()
}
