// Package annotations writes findings as workflow commands of GitHub, which show them in the files of a pull request.
//
// Its input is the results of a SARIF log. Its output is one line for each. No text of a user adds a line or a property.
package annotations
