// The program gen writes what follows from the policies of the library: the page about them, and in the chart the
// copies that it installs and the schema of the values that choose them. It is run by go generate.
package main
