package pages

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// others are names that Virtward's pages take from elsewhere: nothing in the project has them.
var others = []string{
	// KubeVirt's reasons of the condition LiveMigratable.
	"HypervPassthroughNotLiveMigratable", "PersistentReservationNotLiveMigratable",
	"MissingEndpoints",   // the API server's reason of the condition Available of an APIService
	"PublishTestResults", // a task of Azure Pipelines
	"TypedToVal",         // a function of Kubernetes' CEL libraries
}

// TestNames holds that reasons, conditions, kinds, values, benchmarks and tests that pages name exist: a name that is changed in
// the code stays in no text.
func TestNames(t *testing.T) {
	quoted := regexp.MustCompile("`([A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)`")
	found := map[string][]string{}
	for page, text := range everyPage(t) {
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			found[match[1]] = append(found[match[1]], strings.TrimPrefix(page, root+"/"))
		}
	}
	if len(found) < 250 {
		t.Fatalf("the pages have only %d names", len(found))
	}
	missing := maps.Clone(found)
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "bin" || name == "docs" || name == "node_modules" || name == ".git") {
			return fs.SkipDir
		}
		if !slices.Contains([]string{".go", ".yaml", ".tpl", ".json"}, filepath.Ext(path)) || filepath.Base(path) == "names_test.go" {
			return nil
		}
		source, err := os.ReadFile(path) //nolint:gosec // files of the repository
		for word := range strings.FieldsFuncSeq(string(source), between) {
			delete(missing, word)
			delete(missing, strings.TrimPrefix(word, "Benchmark")) // tables have the other part of the names
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		if _, ok := missing[name]; !ok {
			t.Errorf("%s need not be listed", name)
		}
		delete(missing, name)
	}
	for name, pages := range missing {
		t.Errorf("%s: nothing is called %s", strings.Join(slices.Compact(pages), ", "), name)
	}
}
