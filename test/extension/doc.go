// Package extension adds made-up entries to the tables of Virtward, in a copy of the tree, and uses them. Its lists of edits are the recipes
// of CONTRIBUTING.
//
// What enters: the files that git tracks. What leaves: nothing; no file of the tree is written. A short test holds that the edits
// still apply, and how many files they need. The soak tests generate, build and run.
package extension
