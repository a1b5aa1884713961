// Command gen writes files from the policies of the library: their page, their copies in the chart, and the schema of
// the chart's values. go generate runs it.
package main
