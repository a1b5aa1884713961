package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/virtward/virtward/cli/playground/lessons"
)

const introduction = `# Lessons

<!-- Generated from cli/playground/lessons: make generate writes it. -->

Twelve lessons teach policies, and the virtual machines that they evaluate. Each has a task, files to begin with, and requirements that
the [playground](playground.md) checks while you type:

<!-- not run: it needs an answer on a terminal -->

    kubectl virtward playground --lesson first-policy

The page keeps in your browser which lessons you have solved. A lesson is solved when all of its requirements are met: the
cases of a suite that you do not see.

`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen PAGE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page(lessons.All())), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "writing the page of the lessons:", err)
		os.Exit(1)
	}
}

// page is the page of the lessons, in Markdown.
func page(all []lessons.Lesson) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("| Lesson | Name |\n|---|---|\n")
	for _, l := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | `%s` |\n", l.Title, anchor(l.Title), l.Name)
	}
	for _, l := range all {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nHint: %s\n", l.Title, strings.Join(l.Text, "\n\n"), strings.Join(l.Hint, "\n\n"))
	}
	return b.String()
}

// anchor is the fragment of a heading.
func anchor(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") }
