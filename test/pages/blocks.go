package pages

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Block is a block of code, or commands in a comment.
type Block struct {
	// Line is that of its first line in the page.
	Line int
	// Language is that of a fenced block; empty for an indented one.
	Language string
	// Text is its content without indentation. It ends with a line feed.
	Text string
	// Hidden: it is a comment, which readers do not see.
	Hidden bool
	// Notes are the texts of the comments in front of it, by their first words.
	Notes map[string]string
}

// The first words of comments.
const (
	NotRun   = "not run"
	RunsOnly = "runs only"
	File     = "file"
	From     = "from"
	TestedBy = "tested by"
	With     = "with"
	run      = "run"
)

// notes are the first words of comments that apply to a block.
var notes = []string{NotRun, RunsOnly, File, From, TestedBy, With}

// fence opens and closes a block.
const fence = "```"

// marker matches the marker of an item of a list, with the spaces around it.
var marker = regexp.MustCompile(`^ *(?:[-*]|\d+\.)( +)`)

// Blocks returns the blocks of a page in their order. The error says which line has an unknown form.
func Blocks(page string) ([]Block, error) {
	r := &reader{lines: strings.Split(page, "\n")}
	for r.at < len(r.lines) {
		if err := r.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", r.at+1, err)
		}
	}
	if len(r.notes) > 0 {
		return nil, fmt.Errorf("the last comment %v is not in front of a block", r.notes)
	}
	return r.found, nil
}

// reader reads a page line by line.
type reader struct {
	lines []string
	at    int
	// lists are the columns of the content of the items that the line is in.
	lists []int
	// blank: the line before is empty.
	blank bool
	notes map[string]string
	found []Block
}

// content is the column of the text of the item that the line is in.
func (r *reader) content() int {
	if len(r.lists) == 0 {
		return 0
	}
	return r.lists[len(r.lists)-1]
}

// next reads one line of text, a comment or a block.
func (r *reader) next() error {
	line := r.lines[r.at]
	text := strings.TrimLeft(line, " ")
	column := len(line) - len(text)
	switch {
	case text == "":
		r.blank = true
		r.at++
		return nil
	case strings.HasPrefix(text, "<!--"):
		return r.comment()
	case strings.HasPrefix(text, fence):
		return r.fenced(column, strings.TrimPrefix(text, fence))
	}
	if r.blank {
		for column < r.content() {
			r.lists = r.lists[:len(r.lists)-1]
		}
		if column >= r.content()+4 {
			r.indented(r.content() + 4)
			return nil
		}
	}
	if len(r.notes) > 0 {
		return fmt.Errorf("the comment %v is not in front of a block", r.notes)
	}
	if item := marker.FindStringSubmatch(line); item != nil {
		for column < r.content() {
			r.lists = r.lists[:len(r.lists)-1]
		}
		r.lists = append(r.lists, len(item[0]))
	}
	r.blank = false
	r.at++
	return nil
}

// comment reads a comment, which can have several lines.
func (r *reader) comment() error {
	start := r.at
	var lines []string
	for ended := false; !ended; r.at++ {
		if r.at == len(r.lines) {
			r.at = start
			return fmt.Errorf("the comment does not end")
		}
		lines = append(lines, r.lines[r.at])
		ended = strings.Contains(r.lines[r.at], "-->")
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimLeft(strings.Join(lines, "\n"), " "), "<!--"), "-->")
	words, rest, found := strings.Cut(strings.TrimSpace(text), ":")
	rest = strings.TrimSpace(rest)
	switch {
	case found && words == run:
		r.found = append(r.found, Block{Line: start + 1, Text: rest + "\n", Hidden: true})
	case found && slices.Contains(notes, words):
		if r.notes == nil {
			r.notes = map[string]string{}
		}
		r.notes[words] = rest
	case text == " end " || strings.HasPrefix(strings.ToLower(text), " generated"):
	default:
		r.at = start
		return fmt.Errorf("the comment %q has none of the forms of test/pages/doc.go", strings.TrimSpace(text))
	}
	r.blank = true
	return nil
}

// fenced reads a block between fences.
func (r *reader) fenced(column int, language string) error {
	block := Block{Line: r.at + 2, Language: language}
	start := r.at
	for r.at++; ; r.at++ {
		if r.at == len(r.lines) {
			r.at = start
			return fmt.Errorf("the block does not end")
		}
		if strings.TrimSpace(r.lines[r.at]) == fence {
			break
		}
		block.Text += without(r.lines[r.at], column) + "\n"
	}
	r.at++
	r.add(block)
	return nil
}

// indented reads a block whose lines begin at a column.
func (r *reader) indented(column int) {
	block := Block{Line: r.at + 1}
	var lines []string
	for ; r.at < len(r.lines); r.at++ {
		line := r.lines[r.at]
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, strings.Repeat(" ", column)) {
			break
		}
		lines = append(lines, without(line, column))
	}
	block.Text = strings.TrimRight(strings.Join(lines, "\n"), "\n ") + "\n"
	r.add(block)
}

func (r *reader) add(block Block) {
	block.Notes, r.notes = r.notes, nil
	r.found = append(r.found, block)
	r.blank = true
}

// without returns a line without the spaces before a column.
func without(line string, column int) string {
	return line[min(column, len(line)-len(strings.TrimLeft(line, " "))):]
}

// IsCommands reports whether a block has commands.
func (b *Block) IsCommands() bool {
	return b.Hidden || slices.Contains([]string{"", "sh", "console"}, b.Language)
}

// words replaces the words of the comment `with`.
func (b *Block) words(text string) string {
	for _, pair := range strings.Fields(b.Notes[With]) {
		word, value, _ := strings.Cut(pair, "=")
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(word)+`\b`).ReplaceAllLiteralString(text, value)
	}
	return text
}
