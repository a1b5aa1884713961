// Package chart packages a Helm chart for a release.
//
// What enters: the folder of a chart, a version, values to set and annotations to add. What leaves: an archive that Helm
// installs, equal for equal input, and its metadata. Comments of values.yaml are kept. It never renders the chart.
package chart
