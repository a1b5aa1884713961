package main

import (
	"fmt"
	"io"
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
}

func (p *page) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return colour + text + plain
}

func (p *page) line(text string) { fmt.Fprintln(p.out, text) }

// heading opens a section.
func (p *page) heading(title string) {
	p.line("")
	p.line(p.paint(bold, title))
	p.line(p.paint(bold, strings.Repeat("-", len(title))))
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
		p.line(p.paint(green, label) + l)
	}
}

// prompt shows a command after the name of its user, on several lines if it is long.
func (p *page) prompt(user, command string) {
	p.line("")
	line, columns := user+"$ "+command, width
	if len(line) > width {
		columns -= len(" \\")
	}
	var lines []string
	for _, l := range wrap(line, columns, "    ") {
		lines = append(lines, p.paint(blue, l))
	}
	p.line(strings.Join(lines, " \\\n"))
}

// output shows what a command printed.
func (p *page) output(text string) {
	for l := range strings.Lines(text) {
		for _, part := range wrap(strings.TrimRight(l, "\n"), width-2, "  ") {
			p.line(strings.TrimRight("  "+part, " "))
		}
	}
}

// difference shows a unified diff.
func (p *page) difference(from, to string, lines []string) {
	p.line("")
	p.line(p.paint(bold, "  --- "+from))
	p.line(p.paint(bold, "  +++ "+to))
	for _, l := range lines {
		switch l[0] {
		case '+':
			l = p.paint(green, l)
		case '-':
			l = p.paint(red, l)
		}
		p.line("  " + l)
	}
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
