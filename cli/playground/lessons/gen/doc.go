// Command gen writes the page of the lessons: gen PAGE.
package main
