package answers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/virtward/virtward/cli/playground/answers"
	"github.com/virtward/virtward/cli/playground/lessons"
)

func learned(t *testing.T, lesson string, files []answers.File) *answers.Learned {
	t.Helper()
	return answerOf(t, &answers.Question{Files: files, Platforms: []answers.Platform{{}}, Lesson: lesson}).Lesson
}

// with returns the files of a lesson, with some of them replaced.
func with(l *lessons.Lesson, others ...lessons.File) (files []answers.File) {
	for _, f := range l.Files {
		if at := slices.IndexFunc(others, func(o lessons.File) bool { return o.Name == f.Name }); at >= 0 {
			f = others[at]
		}
		files = append(files, answers.File(f))
	}
	return files
}

// Each lesson is unsolved at its beginning, and solved by its solution, of which the page has no problem. Neither a policy that
// accepts or denies everything nor an empty file solves it.
func TestLessons(t *testing.T) {
	t.Parallel()
	all := lessons.All()
	if len(all) != 12 {
		t.Errorf("%d lessons", len(all))
	}
	for _, l := range all {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			if l.Title == "" || len(l.Text) < 2 || len(l.Hint) == 0 || len(l.Files) == 0 || len(l.Solution) == 0 {
				t.Fatalf("%+v", l)
			}
			if begin := learned(t, l.Name, with(&l)); begin.Solved || len(begin.Passed) == 0 && len(l.Check) < 2 {
				t.Errorf("at the beginning: %+v", begin)
			}
			solution := answerOf(t, &answers.Question{Files: with(&l, l.Solution...), Platforms: []answers.Platform{{}}, Lesson: l.Name})
			if !solution.Lesson.Solved || len(solution.Problems) > 0 {
				t.Errorf("the solution: %+v, %v", solution.Lesson, solution.Problems)
			}
			for _, f := range solution.Platforms[0].Unreadable {
				t.Errorf("%+v", f)
			}
			for _, changed := range l.Solution {
				for _, cheat := range cheats(changed) {
					if got := learned(t, l.Name, with(&l, lessons.File{Name: changed.Name, Text: cheat})); got.Solved {
						t.Errorf("solved by\n%s", cheat)
					}
				}
			}
		})
	}
}

// cheats are files that solve no lesson.
func cheats(f lessons.File) []string {
	all := []string{"", "# nothing\n", "kind: List\n"}
	if f.Name != lessons.PolicyFile {
		return all
	}
	head, _, _ := strings.Cut(f.Text, "spec:\n")
	for _, expression := range []string{`"true"`, `"false"`, "object.kind == 'VirtualMachine'"} {
		all = append(all, head+"spec:\n  enforcement: Deny\n  validations:\n    - expression: "+expression+"\n      message: 16Gi 9Gi 10Gi\n      fieldPath: spec.domain.memory.guest\n")
	}
	return all
}

// A lesson in Rego is not solved by a policy in CEL that does the same.
func TestLessonInRego(t *testing.T) {
	t.Parallel()
	l := lessons.Find("rego")
	policy := lessons.File{Name: lessons.PolicyFile, Text: lessons.Find("parameters").Solution[0].Text + "      fieldPath: spec.domain.memory.guest\n"}
	got := learned(t, l.Name, with(l, policy))
	if got.Solved || len(got.Missing) != 1 || got.Missing[0].Requirement != "the policy is in Rego" {
		t.Errorf("%+v", got)
	}
}

// The files of a learner do not replace those of the check, and their suites do not count.
func TestLessonsCheck(t *testing.T) {
	t.Parallel()
	l := lessons.Find("arm64")
	files := append(with(l),
		answers.File{Name: lessons.CheckFile, Text: "apiVersion: policy.virtward.io/v1alpha1\nkind: Suite\nmetadata: {name: check}\ntests: []\n"},
		answers.File{Name: "check-policy.yaml", Text: "# nothing\n"})
	if got := learned(t, l.Name, files); got.Solved || len(got.Missing) != 1 || len(got.Missing[0].Reasons) == 0 {
		t.Errorf("%+v", got)
	}
}

func TestUnknownLesson(t *testing.T) {
	t.Parallel()
	q := &answers.Question{Platforms: []answers.Platform{{}}, Lesson: "none"}
	if err := q.Check(); err == nil || err.Error() != `lesson: unknown lesson "none"` {
		t.Error(err)
	}
}
