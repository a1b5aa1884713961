package printers_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/cli/printers"
)

type disk struct {
	Namespace, Name string
	Size            int
}

func printer(all bool) *printers.Printer[disk] {
	return &printers.Printer[disk]{
		Columns: []string{"NAMESPACE", "NAME", "SIZE"}, Wide: 1,
		Row:        func(d *disk) []string { return []string{d.Namespace, d.Name, fmt.Sprint(d.Size)} },
		Namespaced: true, AllNamespaces: all,
		Name:     func(d *disk) string { return "disk/" + d.Name },
		Document: printers.List[disk]("disks"),
	}
}

func TestPrinter(t *testing.T) {
	two := []disk{{"shop", "root", 10}, {"bank", "data-of-the-db", 2}}
	for _, c := range []struct {
		name, format string
		all          bool
		values       []disk
		want         string
	}{
		{"table", printers.Table, false, two, "NAME\nroot\ndata-of-the-db\n"},
		{"table of all namespaces", printers.Table, true, two, "NAMESPACE   NAME\nshop        root\nbank        data-of-the-db\n"},
		{"wide", printers.Wide, false, two, "NAME             SIZE\nroot             10\ndata-of-the-db   2\n"},
		{"names", printers.Name, false, two, "disk/root\ndisk/data-of-the-db\n"},
		{"YAML", printers.YAML, false, two[:1], "disks:\n- Name: root\n  Namespace: shop\n  Size: 10\n"},
		{"JSON without values", printers.JSON, false, nil, "{\n  \"disks\": []\n}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printer(c.all).Print(&out, c.format, c.values); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFormats: a printer offers and accepts what it has.
func TestFormats(t *testing.T) {
	bare := printer(false)
	bare.Wide, bare.Name, bare.Document = 0, nil, nil
	documented := printer(false)
	documented.Wide, documented.Name = 0, nil
	all := []string{printers.Table, printers.Wide, printers.YAML, printers.JSON, printers.Name}
	for _, c := range []struct {
		printer *printers.Printer[disk]
		want    []string
	}{
		{printer(false), all},
		{documented, []string{printers.Table, printers.YAML, printers.JSON}},
		{bare, []string{printers.Table}},
	} {
		if diff := cmp.Diff(c.want, c.printer.Formats()); diff != "" {
			t.Error(diff)
		}
		for _, format := range append(all, printers.SARIF) {
			err := c.printer.Print(io.Discard, format, nil)
			if slices.Contains(c.want, format) {
				if err != nil {
					t.Errorf("%s: %v", format, err)
				}
			} else if want := fmt.Sprintf("the output has no format %q: use one of ", format); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", format, err, want)
			}
		}
	}
}

func TestSpacing(t *testing.T) {
	for spacing, want := range map[printers.Spacing]string{printers.Kubectl: "a     b\n", printers.Narrow: "a  b\n"} {
		var out bytes.Buffer
		if err := printers.Rows(&out, spacing, [][]string{{"a", "b"}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}
