package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/virtward/virtward/cli/options"
)

// Reference returns a page for each command, by the names of their files. README.md lists them.
func Reference() map[string]string {
	root := newRoot(options.Program{Name: "kubectl virtward", Version: "VERSION"})
	pages := map[string]string{}
	var index strings.Builder
	index.WriteString("# Commands\n\n" + generated + "\nThese are the commands of the CLI. `--help` shows the same as their pages.\n\n| Command | What it does |\n|---|---|\n")
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd != root || cmd.Name() == "help" {
			return
		}
		if cmd != root {
			fmt.Fprintf(&index, "| [%s](%s) | %s |\n", cmd.CommandPath(), file(cmd), escaped(cmd.Short))
			pages[file(cmd)] = reference(cmd)
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(root)
	pages["README.md"] = index.String()
	return pages
}

const generated = "<!-- Generated from the help of the command: make generate writes it. -->\n"

// file is the name of the page of a command.
func file(cmd *cobra.Command) string {
	words := strings.Fields(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()))
	return strings.Join(words, "-") + ".md"
}

// reference is the page of a command.
func reference(cmd *cobra.Command) string {
	var page strings.Builder
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(&page, "# %s\n\n%s\n%s\n", cmd.CommandPath(), generated, paragraphs(text))
	if cmd.Runnable() {
		fmt.Fprintf(&page, "\n## Usage\n\n```text\n%s\n```\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(&page, "\n## Examples\n\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(strings.TrimRight(cmd.Example, "\n"), "  "), "\n  ", "\n"))
	}
	var children []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			children = append(children, fmt.Sprintf("| [%s](%s) | %s |\n", child.Name(), file(child), escaped(child.Short)))
		}
	}
	if len(children) > 0 {
		page.WriteString("\n## Commands\n\n| Command | What it does |\n|---|---|\n" + strings.Join(children, ""))
	}
	page.WriteString(flagTable("Flags", cmd.NonInheritedFlags()))
	page.WriteString(flagTable("Flags of all commands below "+cmd.Parent().CommandPath(), cmd.InheritedFlags()))
	parent := "[All commands](README.md)."
	if cmd.Parent() != cmd.Root() {
		parent = fmt.Sprintf("[%s](%s). ", cmd.Parent().CommandPath(), file(cmd.Parent())) + parent
	}
	page.WriteString("\n" + parent + "\n")
	return page.String()
}

// flagTable describes flags; it is empty if there are none.
func flagTable(title string, flags *pflag.FlagSet) string {
	var rows strings.Builder
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		name := "`--" + flag.Name + "`"
		if flag.Shorthand != "" {
			name = "`-" + flag.Shorthand + "`, " + name
		}
		value, usage := pflag.UnquoteUsage(flag)
		initial := flag.DefValue
		switch initial {
		case "", "false", "[]", "0", "0s":
			initial = ""
		default:
			if home, err := os.UserHomeDir(); err == nil {
				initial = strings.Replace(initial, home, "~", 1)
			}
			initial = "`" + initial + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", name, value, initial, strings.ReplaceAll(escaped(usage), "|", `\|`))
	})
	if rows.Len() == 0 {
		return ""
	}
	return "\n## " + title + "\n\n| Flag | Value | Default | What it does |\n|---|---|---|---|\n" + rows.String()
}

// paragraphs is a text of help in Markdown: lines that begin with two spaces are code.
func paragraphs(text string) string {
	var page strings.Builder
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		code := strings.HasPrefix(line, "  ")
		if code != inside && (code || line != "") {
			page.WriteString("```\n")
			inside = code
		}
		if !code {
			line = escaped(line)
		}
		page.WriteString(strings.TrimPrefix(line, "  ") + "\n")
	}
	if inside {
		page.WriteString("```\n")
	}
	return strings.TrimRight(page.String(), "\n")
}

// escaped escapes the special characters of Markdown.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "`", "\\`").Replace(text)
}
