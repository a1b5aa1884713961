package pages

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Lane is where the commands of a page run.
type Lane string

// The lanes. What a page shows offline, it shows on a sandbox too: Offline costs less, and runs in the unit tests.
const (
	// Offline is TestDocumentation of cli: only the CLI, without a cluster.
	Offline Lane = "offline"
	// Sandbox is TestPages of test/controlplane/cmd/sandbox: an own folder and a control plane that other pages have used before.
	Sandbox Lane = "sandbox"
	// Nowhere is for pages without blocks of commands or YAML.
	Nowhere Lane = "nowhere"
)

// Document is a page, and where its commands run.
type Document struct {
	// Path is below the root of the repository.
	Path string
	Lane Lane
	// Folder is where its commands run, below the root.
	Folder string
	// Slow pages need several seconds each of waiting and of processor time. They run in soaks only.
	Slow   bool
	Blocks []Block
}

// Runs reports whether a page has commands or YAML.
func (d *Document) Runs() bool {
	return slices.ContainsFunc(d.Blocks, func(b Block) bool { return b.IsCommands() || b.Language == "yaml" })
}

// lanes are those of pages that do not run on the sandbox, or are slow.
var lanes = map[string]Document{
	"CONTRIBUTING.md":               {Lane: Nowhere},
	"docs/adding-a-hypervisor.md":   {Lane: Nowhere},
	"docs/ci.md":                    {Lane: Offline},
	"docs/internals/conformance.md": {Lane: Nowhere},
	"docs/explain-output.md":        {Lane: Offline, Folder: "cli/testdata"},
	"docs/explain-schema.md":        {Lane: Offline, Folder: "cli/testdata"},
	"docs/explain.md":               {Lane: Offline, Folder: "cli/testdata"},
	"docs/nodes.md":                 {Lane: Offline},
	"docs/offline.md":               {Lane: Offline},
	"docs/oci.md":                   {Lane: Nowhere},
	"docs/ova.md":                   {Lane: Offline, Folder: "cli/testdata"},
	"docs/performance.md":           {Lane: Nowhere},
	"docs/plugins.md":               {Lane: Offline},
	"docs/policy-eval.md":           {Lane: Offline},
	"docs/policy-lint.md":           {Lane: Offline},
	"docs/policy-tests.md":          {Lane: Offline},
	"docs/rule-lookup.md":           {Lane: Offline, Folder: "cli/testdata"},
	"docs/what-if.md":               {Lane: Offline, Folder: "cli/testdata"},
	"docs/why.md":                   {Lane: Offline},
	"examples/README.md":            {Lane: Offline},

	"docs/backup-and-restore.md":                 {Lane: Sandbox, Slow: true},
	"docs/golden-images.md":                      {Lane: Sandbox, Slow: true},
	"docs/policy-exceptions.md":                  {Lane: Sandbox, Slow: true},
	"docs/policy-rights.md":                      {Lane: Sandbox, Slow: true},
	"docs/rollouts.md":                           {Lane: Sandbox, Slow: true},
	"docs/runbook.md":                            {Lane: Sandbox, Slow: true},
	"docs/switching-off.md":                      {Lane: Sandbox, Slow: true},
	"docs/template-api.md":                       {Lane: Sandbox, Slow: true},
	"docs/template-approval.md":                  {Lane: Sandbox, Slow: true},
	"docs/template-capture.md":                   {Lane: Sandbox, Slow: true},
	"docs/templates.md":                          {Lane: Sandbox, Slow: true},
	"docs/upgrade.md":                            {Lane: Sandbox, Slow: true},
	"docs/virtual-images.md":                     {Lane: Sandbox, Slow: true},
	"docs/virtual-images-glance.md":              {Lane: Sandbox, Slow: true},
	"charts/virtward/README.md":                  {Lane: Sandbox, Slow: true},
	"charts/virtward-common-templates/README.md": {Lane: Sandbox, Slow: true},
}

// generated is the page of the rules, which cli/catalogue writes and tests.
const generated = "docs/rules.md"

// Documents returns the pages with blocks. README.md is the first one, because the metrics of the sandbox are tested after it, and
// docs/sandbox.md the last one, because it ends processes.
func Documents(root string) (found []Document, err error) {
	paths := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	for _, pattern := range []string{"docs/*.md", "docs/internals/*.md", "charts/*/README.md", "hypervisors/*/README.md", "integrations/*/README.md", "examples/README.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			path, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			paths = append(paths, filepath.ToSlash(path))
		}
	}
	var last []Document
	for _, path := range paths {
		if path == generated {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			return nil, err
		}
		d, special := lanes[path]
		if !special {
			d.Lane = Sandbox
		}
		d.Path = path
		if d.Blocks, err = Blocks(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case len(d.Blocks) == 0 && special:
			return nil, fmt.Errorf("%s has a lane, and no blocks", path)
		case len(d.Blocks) == 0:
		case path == "docs/sandbox.md":
			last = append(last, d)
		default:
			found = append(found, d)
		}
	}
	return append(found, last...), nil
}

// Reasons are why commands of a page do not run, or run and print something else.
var Reasons = []string{
	"it builds for minutes",
	"it needs all of the source",
	"it needs containers, which the sandbox does not run",
	"it needs components of others, which the sandbox does not have",
	"it needs a file or the variables of your CI",
	"it removes or replaces Virtward, which other pages need",
	"it shows a fault, which a test with the fault checks",
	"it finds something, and exits with 1",
	"it shows a cluster with many objects",
	"it is for files on the machines of the API servers",
	"README.md runs the same commands with the images of the sandbox",
	"it is a part of an object, which a file of examples has",
	"it changes this machine",
	"it needs an answer on a terminal",
}

// begins matches the first line of commands, and of text that is not one.
var begins = regexp.MustCompile(`^(\$ )?(kubectl|kubectl-virtward|helm|make|go|git|export|echo|sed|curl|apt-get|sudo|diff|virtward-sandbox|VIRTWARD_SOAK=\S+|\.ci/\w+|kind|cosign|grep) `)

// Check returns what is wrong with the form of a block of a page in a lane.
func Check(root string, lane Lane, b *Block) error { //nolint:cyclop // a line for each form
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, kind := range []string{NotRun, RunsOnly} {
		if reason, found := b.Notes[kind]; found && !slices.Contains(Reasons, reason) {
			fault("the reason %q is not one of Reasons", reason)
		}
	}
	_, notRun := b.Notes[NotRun]
	path, tested := b.Notes[TestedBy]
	if tested {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil || !strings.HasSuffix(path, "_test.go") {
			fault("there is no test %s", path)
		}
	}
	source, from := b.Notes[From]
	if from {
		if content, err := os.ReadFile(filepath.Join(root, source)); err != nil || !has(string(content), b.Text) {
			fault("%s does not have these lines (%v)", source, err)
		}
	}
	_, isFile := b.Notes[File]
	checked := from || tested || isFile
	switch {
	case b.IsCommands():
		if !b.Hidden && !begins.MatchString(b.Text) {
			fault("it does not begin with a command: name its language, such as text")
		}
		if strings.HasPrefix(b.Text, prompt) != (b.Language == "console") && !b.Hidden {
			fault("commands with their output are in a console block, and have the prompt %q", prompt)
		}
		if lane == Nowhere && !notRun && !tested {
			fault("it needs a comment `not run`, or its page a lane")
		}
	case b.Language == "yaml":
		if lane == Nowhere && !checked {
			fault("it needs a comment that says what checks it, or its page a lane")
		}
	case b.Language == "go":
		if !checked {
			fault("it needs a comment that says which file has its lines")
		}
	case slices.Contains([]string{"text", "diff", "promql"}, b.Language):
		if begins.MatchString(b.Text) {
			fault("it begins with a command, but has the language %s", b.Language)
		}
	default:
		fault("the language %q is unknown", b.Language)
	}
	return errors.Join(faults...)
}

// has reports whether a file has the lines of a block, with any indentation. A line of dots in the block is any lines.
func has(file, block string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(block) {
		switch strings.TrimSpace(line) {
		case "":
			pattern.WriteString(`\n`)
			continue
		case dots:
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(`[ \t]*` + literal(strings.TrimSpace(line)) + `\n`)
	}
	return regexp.MustCompile(pattern.String()).MatchString(file)
}
