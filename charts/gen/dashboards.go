package main

// dashboard is a page of Grafana.
type dashboard struct {
	// name is the name of the file, and the end of the uid.
	name, title, description string
	variables                []variable
	rows                     []row
}

// variable is a label whose values the reader selects. It is all values by default.
type variable struct {
	name, label string
	// metric has the label of this name.
	metric string
}

// row is a heading with its panels.
type row struct {
	title  string
	panels []panel
}

// panel shows queries. Its kind is a visualization of Grafana.
type panel struct {
	kind               string
	title, description string
	unit               string
	// width is the number of columns, of 24.
	width   int
	queries []query
	// alerts have a section in the runbook, to which the panel links.
	alerts []string
	// warning is the value from which the panel is red, or below which it is, if low is set; nil means none.
	warning *float64
	low     bool
	// stacked adds the lines, so that their top is the sum.
	stacked bool
	// values is the heading of the values of a table; empty leaves them out.
	values string
	// zero shows 0 without a series.
	zero bool
}

// query is an expression, and what its series are called. A table has the labels as columns instead.
type query struct {
	expr, legend string
}

// The visualizations.
const (
	kindSeries = "timeseries"
	kindStat   = "stat"
	kindTable  = "table"
)

// The units, by Grafana's names.
const (
	unitCount    = "short"
	unitRequests = "reqps"
	unitRate     = "cps"
	unitSeconds  = "s"
	unitBytes    = "bytes"
	unitShare    = "percentunit"
)

// dashboards returns all dashboards of the chart.
func dashboards() []dashboard {
	return []dashboard{admission(), policies(), rollouts(), images(), nodes()}
}

// series returns a panel of half of the width, with lines over time.
func series(title, description, unit string, queries ...query) panel {
	return panel{kind: kindSeries, title: title, description: description, unit: unit, width: 12, queries: queries}
}

// stat returns a panel with a number.
func stat(title, description, unit, expr string) panel {
	return panel{kind: kindStat, title: title, description: description, unit: unit, width: 6, queries: []query{{expr, title}}}
}

// table returns a panel with the present series. Values is the heading of their values; empty leaves them out.
func table(title, description, expr, values string) panel {
	return panel{kind: kindTable, title: title, description: description, unit: unitCount, width: 12, queries: []query{{expr, ""}}, values: values}
}

// quantiles returns the median and the 90th and 99th percentile of a histogram, by labels.
func quantiles(histogram, labels, legend string) []query {
	var queries []query
	by := "le"
	if labels != "" {
		by += ", " + labels
		legend += " "
	}
	for _, q := range []struct{ value, name string }{{"0.5", "50 %"}, {"0.9", "90 %"}, {"0.99", "99 %"}} {
		queries = append(queries, query{"histogram_quantile(" + q.value + ", sum by (" + by + ") (rate(" + histogram + "[$__rate_interval])))", legend + q.name})
	}
	return queries
}

// alerting links to sections of the runbook.
func (p panel) alerting(alerts ...string) panel {
	p.alerts = alerts
	return p
}

// over is red from a value.
func (p panel) over(value float64) panel {
	p.warning = &value
	return p
}

// below is red below a value.
func (p panel) below(value float64) panel {
	p.warning, p.low = &value, true
	return p
}

// orZero shows 0 without a series: some metrics begin with their first event.
func (p panel) orZero() panel {
	p.zero = true
	return p
}

// sum stacks the lines, so that their top is the sum.
func (p panel) sum() panel {
	p.stacked = true
	return p
}
