package pages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBlocks: fenced and indented blocks are found, also in lists, with the comments in front of them.
func TestBlocks(t *testing.T) {
	const page = `# Page
<!-- generated: x -->
<!-- end -->

<!-- not run: a reason -->
<!-- file: a.yaml -->

` + "```yaml\na: 1\n\nb: 2\n```" + `

<!-- run:
kubectl one
kubectl two
-->

1.  Item:

        kubectl three \
          --four

    A paragraph of the item.

    - Nested

      ` + "```text\n      five\n        six\n      ```" + `

Text

    kubectl seven

    kubectl eight
Text
    continued
`
	want := []Block{
		{Line: 9, Language: "yaml", Text: "a: 1\n\nb: 2\n", Notes: map[string]string{NotRun: "a reason", File: "a.yaml"}},
		{Line: 14, Text: "kubectl one\nkubectl two\n", Hidden: true},
		{Line: 21, Text: "kubectl three \\\n  --four\n"},
		{Line: 29, Language: "text", Text: "five\n  six\n"},
		{Line: 35, Text: "kubectl seven\n\nkubectl eight\n"},
	}
	got, err := Blocks(page)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, says := range map[string]string{
		"<!-- not-run: x -->\n":       `line 1: the comment "not-run: x" has none of the forms`,
		"a\n<!-- file: x -->\ntext\n": "line 3: the comment map[file:x] is not in front of a block",
		"<!-- file: x -->\n":          "the last comment map[file:x] is not in front of a block",
		"text\n```yaml\na\n":          "line 2: the block does not end",
		"<!-- run: x\n":               "line 1: the comment does not end",
	} {
		if _, err := Blocks(text); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

// TestCheck: a block without commands that run, or a reason, is an error.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		lane  Lane
		block Block
		says  string
	}{
		{Sandbox, Block{Text: "kubectl get vm\n"}, ""},
		{Nowhere, Block{Text: "kubectl get vm\n"}, "needs a comment `not run`"},
		{Nowhere, Block{Text: "kubectl get vm\n", Notes: map[string]string{NotRun: Reasons[0]}}, ""},
		{Sandbox, Block{Text: "kubectl get vm\n", Notes: map[string]string{NotRun: "it is slow"}}, `the reason "it is slow" is not one of Reasons`},
		{Sandbox, Block{Text: "some text\n"}, "does not begin with a command"},
		{Sandbox, Block{Text: "$ kubectl get vm\nnone\n"}, "are in a console block"},
		{Sandbox, Block{Language: "console", Text: "kubectl get vm\n"}, "are in a console block"},
		{Sandbox, Block{Language: "text", Text: "$ kubectl get vm\n"}, "begins with a command"},
		{Sandbox, Block{Language: "bash", Text: "kubectl get vm\n"}, `the language "bash" is unknown`},
		{Nowhere, Block{Language: "yaml", Text: "a: 1\n"}, "says what checks it"},
		{Nowhere, Block{Language: "yaml", Text: "a: 1\n", Notes: map[string]string{TestedBy: "test/pages/none_test.go"}}, "there is no test"},
		{Nowhere, Block{Language: "go", Text: "var x = 1\n"}, "which file has its lines"},
		{Nowhere, Block{Language: "go", Text: "type Lane string\n…\ntype Document struct {\n", Notes: map[string]string{From: "test/pages/documents.go"}}, ""},
		{Nowhere, Block{Language: "go", Text: "type Lane int\n", Notes: map[string]string{From: "test/pages/documents.go"}}, "does not have these lines"},
	} {
		err := Check(root, c.lane, &c.block)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.block, err, c.says)
		}
	}
}

// TestEveryBlock holds that each block of each page is checked, or says why not, and that each reason is used.
func TestEveryBlock(t *testing.T) {
	all, err := Documents(root)
	if err != nil {
		t.Fatal(err)
	}
	used, count := map[string]bool{}, map[Lane]int{}
	for _, d := range all {
		for i := range d.Blocks {
			b := &d.Blocks[i]
			if err := Check(root, d.Lane, b); err != nil {
				t.Errorf("%s:%d: %v", d.Path, b.Line, err)
			}
			used[b.Notes[NotRun]], used[b.Notes[RunsOnly]] = true, true
			count[d.Lane]++
		}
	}
	for _, reason := range Reasons {
		if !used[reason] {
			t.Errorf("no block has the reason %q", reason)
		}
	}
	if len(all) < 30 || count[Sandbox] < 100 || count[Offline] < 30 {
		t.Errorf("%d pages have the blocks %v", len(all), count)
	}
}
