package pages

import (
	"regexp"
	"strings"
)

// Example is a command of a page, and what the page shows of its output.
type Example struct {
	Line    int
	Command string
	Output  []string
}

// Examples returns the commands of a block. Without a prompt, all of it is one script.
func (b *Block) Examples() (found []Example) {
	text := strings.TrimSuffix(b.words(b.Text), "\n")
	if b.Hidden || !strings.HasPrefix(text, prompt) {
		return []Example{{Line: b.Line, Command: text}}
	}
	continued := false
	for i, line := range strings.Split(text, "\n") {
		switch command, isCommand := strings.CutPrefix(line, prompt); {
		case isCommand:
			found = append(found, Example{Line: b.Line + i, Command: command})
		case continued:
			found[len(found)-1].Command += "\n" + line
		default:
			found[len(found)-1].Output = append(found[len(found)-1].Output, line)
		}
		continued = strings.HasSuffix(line, "\\") && (continued || strings.HasPrefix(line, prompt))
	}
	for i := range found { // an empty line in front of the next command
		if shown := found[i].Output; len(shown) > 0 && shown[len(shown)-1] == "" {
			found[i].Output = shown[:len(shown)-1]
		}
	}
	return found
}

// Shows reports whether the page shows what a command printed.
func (e *Example) Shows(printed string) bool { return pattern(e.Output).MatchString(plain(printed)) }

// String is what the page shows of the output.
func (e *Example) String() string { return strings.Join(e.Output, "\n") }

// prompt is what begins the line of a command in a console block.
const prompt = "$ "

// dots are what a page leaves out: any text in a line, or any lines.
const dots = "…"

var (
	spaces = regexp.MustCompile(`\s+`)
	// span is a time that differs from run to run, such as an age. A word that has it must have another one in its place.
	span = regexp.MustCompile(`\b(\d+(\.\d+)?(ms|s|m|h|d))+\b`)
)

// pattern matches the output that a page shows.
func pattern(lines []string) *regexp.Regexp {
	var text strings.Builder
	text.WriteString("^")
	for _, line := range lines {
		if strings.TrimSpace(line) == dots {
			text.WriteString(`([^\n]*\n)*?`)
			continue
		}
		line = spaces.ReplaceAllString(strings.TrimSpace(line), " ")
		end := 0
		for _, found := range span.FindAllStringIndex(line, -1) {
			text.WriteString(literal(line[end:found[0]]) + span.String())
			end = found[1]
		}
		text.WriteString(literal(line[end:]) + `\n`)
	}
	return regexp.MustCompile(text.String() + "$")
}

// literal matches a text, in which dots are any text.
func literal(text string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(text), dots, `[^\n]*`)
}

// plain is an output as pattern matches it: without the width of columns and empty lines at the end.
func plain(output string) string {
	var text strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(output), "\n") {
		text.WriteString(strings.TrimSpace(spaces.ReplaceAllString(line, " ")) + "\n")
	}
	return text.String()
}
