// Package monitoring tests the alerts and the dashboards of the chart with Prometheus' own parser, engine and templates, in a module of
// its own. It renders the chart with bin/tools/helm, and starts no process.
package monitoring
