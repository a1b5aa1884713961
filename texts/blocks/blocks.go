package blocks

import (
	"fmt"
	"strings"
)

// Markdown returns a page with the lines of a block, which end with a line feed or are empty. The error says that the page has no
// such block.
func Markdown(page, name, lines string) (string, error) {
	return replace(page, "<!-- generated: "+name+" -->\n", "<!-- end -->\n", func(string) string { return lines })
}

// YAML returns a text with the lines of a block, which do not end with a line feed. They get the indentation of the line that begins
// the block. The error says that the text has no such block, or that its last line has another indentation.
func YAML(text, name, lines string) (string, error) {
	return replace(text, "# generated: "+name+"\n", "# end\n", func(indent string) string {
		return indent + strings.ReplaceAll(lines, "\n", "\n"+indent) + "\n"
	})
}

// replace replaces what is between the first line begins and the next line ends, which have the same indentation.
func replace(text, begins, ends string, block func(indent string) string) (string, error) {
	before, rest, found := strings.Cut(text, begins)
	indent := before[strings.LastIndexByte(before, '\n')+1:]
	_, after, ended := strings.Cut("\n"+rest, "\n"+indent+ends)
	if !found || !ended || strings.TrimSpace(indent) != "" {
		return "", fmt.Errorf("there are no lines %q and %q with the same indentation", strings.TrimSpace(begins), strings.TrimSpace(ends))
	}
	return before + begins + block(indent) + indent + ends + after, nil
}
