package pages

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	fenced  = regexp.MustCompile("(?m)^ *(```|~~~)")
	heading = regexp.MustCompile(`^#{1,6} (.*)$`)
	code    = regexp.MustCompile("`[^`]*`")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	markup  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// prose returns the lines of a page outside of blocks of code, and empty lines in their place.
func prose(page string) []string {
	lines, inside := strings.Split(page, "\n"), false
	for i, line := range lines {
		fence := fenced.MatchString(line)
		if inside || fence {
			lines[i] = ""
		}
		inside = inside != fence
	}
	return lines
}

// Title returns the first heading of a page.
func Title(page string) string {
	for _, line := range prose(page) {
		if found := heading.FindStringSubmatch(line); found != nil {
			return strings.ReplaceAll(found[1], "`", "")
		}
	}
	return ""
}

// Anchor returns the anchor that GitHub gives a heading.
func Anchor(title string) string {
	title = markup.ReplaceAllString(title, "$1")
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), ""), " ", "-")
}

// Anchors returns the anchors of a page.
func Anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, line := range prose(page) {
		if title := heading.FindStringSubmatch(line); title != nil {
			anchor, n := Anchor(title[1]), 0
			for unique := anchor; ; unique = fmt.Sprintf("%s-%d", anchor, n) {
				if !found[unique] {
					found[unique] = true
					break
				}
				n++
			}
		}
	}
	return found
}

// Link is a link of a page, by its line.
type Link struct {
	Line   int
	Target string
}

// Links returns the links of a page.
func Links(page string) (found []Link) {
	for i, line := range prose(page) {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
			found = append(found, Link{Line: i + 1, Target: match[1]})
		}
	}
	return found
}

// Dead returns why a link of a file leads nowhere; it is empty for a link that leads somewhere and for one to another site. read returns
// the text of a file.
func Dead(file, target string, read func(string) (string, error)) string {
	parsed, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case parsed.Scheme != "":
		return ""
	}
	if parsed.Path != "" {
		file = filepath.Join(filepath.Dir(file), parsed.Path)
	}
	if info, err := os.Stat(file); err != nil || info.IsDir() && parsed.Fragment == "" {
		if err != nil {
			return "no such file"
		}
		return ""
	}
	if parsed.Fragment == "" || !strings.HasSuffix(file, ".md") {
		return ""
	}
	page, err := read(file)
	if err != nil {
		return err.Error()
	}
	if !Anchors(page)[parsed.Fragment] {
		return "no such heading"
	}
	return ""
}
