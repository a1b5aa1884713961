// Package processes is the table of the processes that the chart runs, and of their service accounts.
//
// What enters: nothing. What leaves: the rows. The guard of Virtward's accounts and the page about accounts are generated from them, the
// sandbox runs them, and tests compare them with the chart, the commands of the server and the pages.
package processes
