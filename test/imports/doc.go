// Package imports reads which packages import which.
//
// Input: the source of this module, by `go list`. Output: the table of imports in CONTRIBUTING.md, and what the tests of this
// package assert: the pure packages import nothing impure, also not through others.
//
// It never builds a package.
package imports

//go:generate go run ./gen ../../CONTRIBUTING.md
