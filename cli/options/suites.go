package options

import (
	"regexp"
	"strings"
)

// SelectCases parses --run: a regular expression for tests and, after a slash, one for cases.
func SelectCases(run string) (func(test, name string) bool, error) {
	forTests, forCases, _ := strings.Cut(run, "/")
	tests, err := regexp.Compile(forTests)
	if err != nil {
		return nil, Usagef("--run %s: %w", run, err)
	}
	cases, err := regexp.Compile(forCases)
	if err != nil {
		return nil, Usagef("--run %s: %w", run, err)
	}
	return func(test, name string) bool { return tests.MatchString(test) && cases.MatchString(name) }, nil
}
