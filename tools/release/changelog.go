package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// changes are the subjects of commits of one kind, in the words of Artifact Hub.
type changes struct {
	kind     string
	subjects []string
}

// kinds of changes, by the verbs that begin their subjects. A verb without a kind means a change of what existed.
var kinds = []struct{ kind, verbs string }{
	{"added", "Add Accept Allow Install Let Offer Permit Provide Serve Support"},
	{"changed", ""},
	{"fixed", "Correct Fix Repair"},
	{"removed", "Delete Drop Remove"},
}

// internal are the verbs of commits that concern developers only.
const internal = "Benchmark Describe Document Format Fuzz Generate Lint Measure Merge Move Rename Reword Run Split Start Test Wait"

// writeChangelog lists the commits since the tag before this version.
func (b *build) writeChangelog(ctx context.Context) error {
	arguments := []string{"log", "--no-merges", "--format=%s", b.commit}
	since := "the first commit"
	if before, err := b.git(ctx, "describe", "--tags", "--abbrev=0", "--match=v*", "--exclude="+b.version, b.commit); err == nil {
		arguments[len(arguments)-1] = before + ".." + b.commit
		since = before
	}
	log, err := b.git(ctx, arguments...)
	if err != nil {
		return err
	}
	b.changes = classify(strings.Split(log, "\n"))
	var page strings.Builder
	fmt.Fprintf(&page, "# Changes of %s\n\nCommit %s of %s. These are the changes since %s that concern users; the latest is first.\n",
		b.version, b.commit[:12], b.at.Format("2006-01-02"), since)
	for _, section := range b.changes {
		fmt.Fprintf(&page, "\n## %s%s\n\n", strings.ToUpper(section.kind[:1]), section.kind[1:])
		for _, subject := range section.subjects {
			fmt.Fprintf(&page, "- %s\n", subject)
		}
	}
	return os.WriteFile(b.file(changelogFile), []byte(page.String()), 0o644)
}

// classify sorts subjects by kind, and keeps their order. A subject is listed once.
func classify(subjects []string) (sections []changes) {
	byKind := map[string][]string{}
	seen := map[string]bool{}
	for _, subject := range subjects {
		verb, _, _ := strings.Cut(subject, " ")
		if verb == "" || seen[subject] || hasWord(internal, verb) {
			continue
		}
		seen[subject] = true
		byKind[kindOf(verb)] = append(byKind[kindOf(verb)], subject)
	}
	for _, k := range kinds {
		if len(byKind[k.kind]) > 0 {
			sections = append(sections, changes{k.kind, byKind[k.kind]})
		}
	}
	return sections
}

func kindOf(verb string) string {
	for _, k := range kinds {
		if hasWord(k.verbs, verb) {
			return k.kind
		}
	}
	return "changed"
}

func hasWord(words, word string) bool {
	return strings.Contains(" "+words+" ", " "+word+" ")
}
