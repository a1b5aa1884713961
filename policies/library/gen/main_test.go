package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/policies/library"
)

const (
	pageFile = "../../../docs/policy-library.md"
	chart    = "../../../charts/virtward"
	schema   = chart + "/values.schema.json"
)

// Generated files are up to date, and files of removed policies are deleted.
func TestGenerated(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "library")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"library/gone.yaml": "old", "library/memory-cap.yaml": "old", "values.schema.json": text(t, schema),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(filepath.Join(dir, "page.md"), dir); err != nil {
		t.Fatal(err)
	}
	for generated, committed := range map[string]string{"page.md": pageFile, "values.schema.json": schema} {
		if diff := cmp.Diff(text(t, committed), text(t, filepath.Join(dir, generated))); diff != "" {
			t.Errorf("%s is out of date; run: go generate ./policies/library (-committed +generated):\n%s", committed, diff)
		}
	}
	if diff := cmp.Diff(folderOf(t, filepath.Join(chart, "library")), folderOf(t, folder)); diff != "" {
		t.Errorf("the chart's copies are out of date; run: go generate ./policies/library (-committed +generated):\n%s", diff)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func folderOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, file := range files {
		content[file.Name()] = text(t, filepath.Join(folder, file.Name()))
	}
	return content
}

func TestRewriteFindsNothing(t *testing.T) {
	const want = "there are no properties of library.policies below a $comment that says that they are generated"
	for _, content := range []string{"", "{}", heading, end} {
		if _, err := rewrite([]byte(content), library.All()); err == nil || err.Error() != want {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// The schema of a value has all constraints of the parameter's schema, at every depth, and nothing else.
func TestChoice(t *testing.T) {
	entry, _ := library.Find("disk-bus-virtio")
	got, err := json.Marshal(choice(&entry))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"additionalProperties":false,"properties":{"enforcement":{"enum":["Audit","Warn","Deny"]},` +
		`"params":{"additionalProperties":false,"properties":{"buses":{"items":{"enum":["virtio","sata","scsi","usb"],"type":"string"},"maxItems":4,"minItems":1,"type":"array"}},"type":"object"}},"type":"object"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if entry, _ := library.Find("mac-address-permission"); choice(&entry)["properties"].(map[string]any)["params"] != nil {
		t.Error("a policy without parameters accepts some")
	}
}

// The page has a row and a section for each policy, in the same order, and its links exist.
func TestPage(t *testing.T) {
	page := page(library.All())
	var names []string
	for _, entry := range library.All() {
		names = append(names, entry.Name)
	}
	for what, pattern := range map[string]string{"rows": `(?m)^\| \[([a-z-]+)\]\(#`, "chapters": `(?m)^## ([a-z-]+)$`} {
		var found []string
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
			found = append(found, match[1])
		}
		if diff := cmp.Diff(names, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, match := range regexp.MustCompile(`\]\(([^#)]+)\)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(pageFile), match[1])); err != nil {
			t.Errorf("a link is broken: %v", err)
		}
	}
	row := "| [memory-cap](#memory-cap) | VMs have limited memory | resources | high | CEL | yes | `max` (`\"64Gi\"`) |\n"
	if !strings.Contains(page, row) {
		t.Errorf("the row %s is missing", row)
	}
}
