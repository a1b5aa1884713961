package lessons

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:generate go run ./gen ../../../docs/lessons.md

//go:embed [0-9]*
var embedded embed.FS

// CheckFile is the suite of a check, and PolicyFile the policy of a lesson.
const (
	CheckFile  = "check.yaml"
	PolicyFile = "policy.yaml"
)

// IsOfCheck reports whether a file has a name of the check.
func IsOfCheck(name string) bool { return strings.HasPrefix(name, "check") }

// Names of the parts of a lesson.
const (
	textFile       = "lesson.md"
	mutantsFolder  = "mutants"
	solutionFolder = "solution"
	hintHeading    = "\n## Hint\n"
)

// Lesson is a task with the files to begin with.
type Lesson struct {
	// Name is the name of its folder without the number, such as first-policy.
	Name  string `json:"name"`
	Title string `json:"title"`
	// Text and Hint are paragraphs, with code in backquotes.
	Text []string `json:"text"`
	Hint []string `json:"hint"`
	// Files are the files to begin with.
	Files []File `json:"files"`

	// Check are the files of the check. Mutants are policies with a fault, whose first line says which. Solution are the files of
	// a solution that differ. A learner sees none of them.
	Check    []File `json:"-"`
	Mutants  []File `json:"-"`
	Solution []File `json:"-"`
}

// File is a file of a lesson.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// All are the lessons, in their order. Do not change them.
func All() []Lesson { return all() }

var all = sync.OnceValue(load)

func load() []Lesson {
	folders, err := fs.ReadDir(embedded, ".")
	if err != nil {
		panic(err) // it is embedded
	}
	var found []Lesson
	for _, folder := range folders {
		_, name, _ := strings.Cut(folder.Name(), "-")
		l := Lesson{Name: name, Mutants: filesIn(path.Join(folder.Name(), mutantsFolder)), Solution: filesIn(path.Join(folder.Name(), solutionFolder))}
		for _, f := range filesIn(folder.Name()) {
			switch {
			case f.Name == textFile:
				l.Title, l.Text, l.Hint = parse(f.Text)
			case IsOfCheck(f.Name):
				l.Check = append(l.Check, f)
			default:
				l.Files = append(l.Files, f)
			}
		}
		slices.SortStableFunc(l.Files, func(a, b File) int { return place(a.Name) - place(b.Name) })
		found = append(found, l)
	}
	return found
}

// Names are the names of the lessons, in their order.
func Names() (names []string) {
	for _, l := range All() {
		names = append(names, l.Name)
	}
	return names
}

// Find returns the lesson with a name; nil without one.
func Find(name string) *Lesson {
	at := slices.IndexFunc(All(), func(l Lesson) bool { return l.Name == name })
	if at < 0 {
		return nil
	}
	return &All()[at]
}

// filesIn are the files of an embedded folder, which may not exist.
func filesIn(folder string) (files []File) {
	entries, err := fs.ReadDir(embedded, folder)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		text, err := fs.ReadFile(embedded, path.Join(folder, entry.Name()))
		if err != nil {
			panic(err) // it is embedded
		}
		files = append(files, File{Name: entry.Name(), Text: string(text)})
	}
	return files
}

// place orders the files: what the learner changes comes first.
func place(name string) int {
	at := slices.Index([]string{"exception.yaml", "suite.yaml", "policy.yaml", "vm.yaml"}, name)
	if at < 0 {
		return 100
	}
	return at
}

// parse returns the title, the paragraphs of the text and those of the hint.
func parse(text string) (title string, paragraphs, hint []string) {
	heading, rest, _ := strings.Cut(text, "\n")
	before, after, _ := strings.Cut(rest, hintHeading)
	return strings.TrimPrefix(heading, "# "), paragraphsOf(before), paragraphsOf(after)
}

func paragraphsOf(text string) (all []string) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		all = append(all, strings.Join(strings.Fields(part), " "))
	}
	return all
}
