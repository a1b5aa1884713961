// Package lessons has the lessons of the playground: a text, files to begin with, and a check that decides whether the files of a
// learner solve it. It reads no files but its own, and keeps nothing.
//
// A lesson is a folder:
//
//	lesson.md      its title, its text, and a hint
//	*.yaml         the files to begin with
//	check.yaml     a suite: the files are a solution if all of its cases pass. Their names say what a solution does
//	check-*.yaml   other files of the check, which the files of the learner cannot replace
//	mutants        policies with a fault, for lessons about suites: the suite of the learner must notice each of them
//	solution       the files of a solution that differ from those to begin with, for tests
package lessons
