// Package library holds the policies that Virtward brings along, each in a folder with its suite.
//
// What enters: nothing. What leaves: the policies, as objects and as they are written, and their files, so that they
// can be shown, installed and tested without a copy of the source. None of them is in force before somebody installs
// it. The pages and the copies in the chart are generated from here.
package library
