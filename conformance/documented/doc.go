// Package documented holds tests of conformance to the pages that document their results. It reads the rows and the figures
// of a page, and writes the figures on demand.
package documented
