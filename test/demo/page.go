package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// width of the page, in columns.
const width = 100

// The colours of a terminal.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	blue  = "\x1b[34m"
	plain = "\x1b[0m"
)

// page writes the demo's output.
type page struct {
	out    io.Writer
	colour bool
	// cut limits what a command prints to a few lines; the zero value shows all of them.
	cut cut
	// also is a second page that gets the same.
	also *page
}

// excerpt is the number of lines that are left of an output that is cut.
const excerpt = 4

// cut selects lines of an output.
type cut struct {
	short bool
	// lines matches the lines that are kept; all lines match the zero value.
	lines *regexp.Regexp
}

// of returns the first lines that match, and whether there were others.
func (c cut) of(lines []string) (kept []string, others bool) {
	if !c.short {
		return lines, false
	}
	for _, l := range lines {
		if len(kept) < excerpt && (c.lines == nil || c.lines.MatchString(strings.TrimSuffix(l, "\n"))) {
			kept = append(kept, l)
		}
	}
	return kept, len(kept) < len(lines)
}

func (p *page) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return colour + text + plain
}

// each calls a function with the page and the second one.
func (p *page) each(write func(*page)) {
	for ; p != nil; p = p.also {
		write(p)
	}
}

func (p *page) line(text string) {
	p.each(func(p *page) { fmt.Fprintln(p.out, text) })
}

// emphasized writes a bold line.
func (p *page) emphasized(text string) {
	p.each(func(p *page) { fmt.Fprintln(p.out, p.paint(bold, text)) })
}

// heading opens a section.
func (p *page) heading(title string) {
	p.line("")
	p.emphasized(title)
	p.emphasized(strings.Repeat("-", len(title)))
}

// prose writes a paragraph.
func (p *page) prose(text string) {
	p.line("")
	for _, l := range wrap(strings.Join(strings.Fields(text), " "), width, "") {
		p.line(l)
	}
}

// checked writes what the demo has verified.
func (p *page) checked(format string, args ...any) {
	for i, l := range wrap(fmt.Sprintf(format, args...), width-9, "") {
		label := "checked: "
		if i > 0 {
			label = strings.Repeat(" ", len(label))
		}
		p.each(func(p *page) { fmt.Fprintln(p.out, p.paint(green, label)+l) })
	}
}

// prompt shows a command after the name of its user, on several lines if it is long.
func (p *page) prompt(user, command string) {
	p.line("")
	line, columns := user+"$ "+command, width
	if len(line) > width {
		columns -= len(" \\")
	}
	lines := wrap(line, columns, "    ")
	for i, l := range lines {
		end := ""
		if i < len(lines)-1 {
			end = " \\"
		}
		p.each(func(p *page) { fmt.Fprintln(p.out, p.paint(blue, l)+end) })
	}
}

// output shows what a command printed.
func (p *page) output(text string) {
	p.each(func(p *page) {
		lines, others := p.cut.of(slices.Collect(strings.Lines(text)))
		for _, l := range lines {
			for _, part := range wrap(strings.TrimRight(l, "\n"), width-2, "  ") {
				fmt.Fprintln(p.out, strings.TrimRight("  "+part, " "))
			}
		}
		if others {
			fmt.Fprintln(p.out, "  …")
		}
	})
}

// difference shows a unified diff.
func (p *page) difference(from, to string, lines []string) {
	p.line("")
	p.emphasized("  --- " + from)
	p.emphasized("  +++ " + to)
	p.each(func(p *page) {
		lines, others := p.cut.of(lines)
		for _, l := range lines {
			switch l[0] {
			case '+':
				l = p.paint(green, l)
			case '-':
				l = p.paint(red, l)
			}
			fmt.Fprintln(p.out, "  "+l)
		}
		if others {
			fmt.Fprintln(p.out, "  …")
		}
	})
}

// wrap breaks a line that is too long at spaces; what follows is indented.
func wrap(line string, columns int, indent string) []string {
	var lines []string
	for len([]rune(line)) > columns {
		runes := []rune(line)
		at := strings.LastIndex(string(runes[:columns+1]), " ")
		if strings.TrimSpace(line[:max(at, 0)]) == "" {
			break // nowhere to break
		}
		lines = append(lines, strings.TrimRight(line[:at], " "))
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}
