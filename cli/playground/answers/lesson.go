package answers

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/cli/playground/lessons"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/policytest"
)

// Learned says whether the files of a question solve a lesson.
type Learned struct {
	Solved bool `json:"solved"`
	// Passed are the requirements that the files meet, and Missing those that they do not meet.
	Passed  []string  `json:"passed"`
	Missing []Missing `json:"missing"`
}

// Missing is a requirement of a lesson that the files do not meet.
type Missing struct {
	Requirement string `json:"requirement"`
	// Reasons say what was found instead.
	Reasons []string `json:"reasons,omitempty"`
}

func (l *Learned) miss(requirement string, reasons ...string) {
	l.Missing = append(l.Missing, Missing{Requirement: requirement, Reasons: reasons})
}

// learned checks whether the files of a question solve a lesson. The files of the check replace those of the question.
func (a *Answerer) learned(ctx context.Context, q *Question) (*Learned, error) {
	lesson := lessons.Find(q.Lesson)
	if lesson == nil {
		return nil, nil //nolint:nilnil // the question is about no lesson
	}
	runner, err := a.runner()
	if err != nil {
		return nil, err
	}
	found := &Learned{Passed: []string{}, Missing: []Missing{}}
	if hasRego(ctx, ofLesson(lesson.Files)) && !hasRego(ctx, q.Files) {
		found.miss("the policy is in Rego", "no policy in the files has a module")
	}
	if len(lesson.Mutants) > 0 {
		notices(ctx, runner, lesson, q.Files, found)
	} else {
		passes(ctx, runner, lesson, q.Files, found)
	}
	found.Solved = len(found.Missing) == 0
	return found, ctx.Err()
}

// passes runs the check with the files.
func passes(ctx context.Context, runner *policytest.Runner, lesson *lessons.Lesson, own []File, found *Learned) {
	files := slices.DeleteFunc(slices.Clone(own), func(f File) bool { return f.HasSuite() || lessons.IsOfCheck(f.Name) })
	files = append(files, ofLesson(lesson.Check)...)
	suites, problems := policytest.Load(folder(files), lessons.CheckFile)
	for _, p := range problems {
		found.miss("the files can be read", p.String())
	}
	for _, c := range casesOf(runner.Run(ctx, suites, policytest.Options{})) {
		switch {
		case c.Status == policytest.Passed:
			found.Passed = append(found.Passed, c.Name)
		case c.Problem != nil:
			found.miss(c.Name, c.Problem.String())
		default:
			found.miss(c.Name, c.Reasons...)
		}
	}
}

// notices runs the suites of the files with the policy of the lesson, and with each of its mutants.
func notices(ctx context.Context, runner *policytest.Runner, lesson *lessons.Lesson, own []File, found *Learned) {
	right := "the suite passes with the policy of the lesson"
	at := slices.IndexFunc(lesson.Files, func(f lessons.File) bool { return f.Name == lessons.PolicyFile })
	if passed, run := suitesPass(ctx, runner, own, lesson.Files[at].Text); !passed || run == 0 {
		found.miss(right)
		return
	}
	found.Passed = append(found.Passed, right)
	for _, mutant := range lesson.Mutants {
		comment, text, _ := strings.Cut(mutant.Text, "\n")
		notices := "the suite notices that " + strings.TrimPrefix(comment, "# ")
		if passed, _ := suitesPass(ctx, runner, own, text); passed {
			found.miss(notices, "all cases pass nevertheless")
		} else {
			found.Passed = append(found.Passed, notices)
		}
	}
}

// suitesPass reports whether all cases of the suites in files pass with a policy, and how many did.
func suitesPass(ctx context.Context, runner *policytest.Runner, own []File, policy string) (all bool, passed int) {
	files := slices.DeleteFunc(slices.Clone(own), func(f File) bool { return f.Name == lessons.PolicyFile })
	suites, problems := policytest.Load(folder(append(files, File{Name: lessons.PolicyFile, Text: policy})), root)
	if len(problems) > 0 {
		return false, 0
	}
	cases := casesOf(runner.Run(ctx, suites, policytest.Options{}))
	for _, c := range cases {
		if c.Status == policytest.Passed {
			passed++
		}
	}
	return passed == len(cases), passed
}

// ofLesson are the files of a lesson.
func ofLesson(all []lessons.File) (files []File) {
	for _, f := range all {
		files = append(files, File(f))
	}
	return files
}

func casesOf(report *policytest.Report) (cases []policytest.CaseOutcome) {
	for _, s := range report.Suites {
		for _, t := range s.Tests {
			cases = append(cases, t.Cases...)
		}
	}
	return cases
}

// hasRego reports whether a policy in files has a module in Rego.
func hasRego(ctx context.Context, files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		content, err := manifests.ReadParts(ctx, f.Name, strings.NewReader(f.Text))
		return err == nil && slices.ContainsFunc(content.Documents, func(d manifests.Document) bool {
			module, _, _ := unstructured.NestedString(d.Object.Object, "spec", "rego", "module")
			return module != ""
		})
	})
}
