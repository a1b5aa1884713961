package blocks

import (
	"strings"
	"testing"
)

// TestMarkdown: what is between the lines is replaced, in the block of the name and nowhere else.
func TestMarkdown(t *testing.T) {
	const others = "<!-- generated: others -->\nkept\n<!-- end -->\n"
	const begins, ends = "<!-- generated: rules -->\n", "<!-- end -->\n"
	for _, there := range []string{"", "old\n", "| old |\n|---|\n\n"} {
		for _, lines := range []string{"", "| new |\n"} {
			got, err := Markdown("# Page\n"+others+begins+there+ends+"below\n"+others, "rules", lines)
			if want := "# Page\n" + others + begins + lines + ends + "below\n" + others; err != nil || got != want {
				t.Errorf("%q: %v\n%s", there, err, got)
			}
		}
	}
	for _, page := range []string{"", begins, ends, ends + begins, "text " + begins + ends} {
		if got, err := Markdown(page, "rules", "new\n"); err == nil || !strings.HasPrefix(err.Error(), `there are no lines "<!-- generated: rules -->" and "<!-- end -->"`) {
			t.Errorf("%q became %q, %v", page, got, err)
		}
	}
}

// TestYAML: a block has the indentation of its first line.
func TestYAML(t *testing.T) {
	const before, after = "a:\n  # generated: x\n", "  # end\nb:\n"
	for _, there := range []string{"", "  old\n", "  old\n    older\n    # end\n"} {
		got, err := YAML(before+there+after, "x", "new:\n  newer")
		if want := before + "  new:\n    newer\n" + after; err != nil || got != want {
			t.Errorf("%q: %v\n%s", there, err, got)
		}
	}
	for _, text := range []string{"", before, after, before + "# end\n"} {
		if got, err := YAML(text, "x", "new"); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}
