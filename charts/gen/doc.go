// Command gen writes files of the chart: the Grafana dashboards from tables of their panels, and the table of values in its README and
// the descriptions in its schema from the comments of values.yaml. go generate runs it.
package main
