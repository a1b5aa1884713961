// Package library embeds the policies of Virtward's library, each in a folder with its suite.
//
// Input: none. Output: the policies as objects, as YAML, and their files, so that programs can show, install and test
// them without the source tree. A policy is active only after a user installs it. The page and the copies in the chart
// are generated from this package.
package library
