package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

const (
	// schemaVersion is that of Grafana 11. Later releases migrate it.
	schemaVersion = 39
	// runbook is replaced by the value metrics.prometheusRule.runbookURL.
	runbook = "https://github.com/virtward/virtward/blob/main/docs/runbook.md"
	// columns is the width of a dashboard.
	columns = 24
)

// object is an object of JSON, whose keys are sorted.
type object = map[string]any

// source refers to the data source that the reader selects.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// render returns the classic JSON model of a dashboard.
func (d *dashboard) render() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(object{
		"annotations":          object{"list": []any{}},
		"description":          d.description,
		"editable":             true,
		"fiscalYearStartMonth": 0,
		"graphTooltip":         1, // the time under the pointer is marked in all panels
		"id":                   nil,
		"links":                []any{dashboardLink(object{"type": "dashboards", "title": "Virtward", "tags": []string{"virtward"}, "asDropdown": true, "keepTime": true})},
		"panels":               d.panels(),
		"refresh":              "1m",
		"schemaVersion":        schemaVersion,
		"tags":                 []string{"virtward"},
		"templating":           object{"list": d.templating()},
		"time":                 object{"from": "now-6h", "to": "now"},
		"timepicker":           object{},
		"timezone":             "browser",
		"title":                "Virtward / " + d.title,
		"uid":                  "virtward-" + d.name,
		"version":              1,
	})
	return text.Bytes(), err
}

// templating returns the data source and the variables.
func (d *dashboard) templating() []any {
	list := []any{object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "hide": 0, "regex": "", "multi": false, "includeAll": false, "current": object{"text": "default", "value": "default"}, "options": []any{}}}
	for _, v := range d.variables {
		values := fmt.Sprintf("label_values(%s, %s)", v.metric, v.name)
		list = append(list, object{
			"name": v.name, "label": v.label, "type": "query", "datasource": source,
			"query": object{"query": values, "refId": v.name}, "definition": values,
			"multi": true, "includeAll": true, "allValue": ".*", "current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
			"refresh": 2, "sort": 1, "hide": 0, "regex": "", "options": []any{},
		})
	}
	return list
}

// panels returns the rows and their panels, placed from left to right.
func (d *dashboard) panels() []any {
	var all []any
	id, y := 0, 0
	add := func(x, width, height int, p object) {
		id++
		p["id"], p["gridPos"] = id, object{"x": x, "y": y, "w": width, "h": height}
		all = append(all, p)
	}
	for _, r := range d.rows {
		add(0, columns, 1, object{"type": "row", "title": r.title, "collapsed": false, "panels": []any{}})
		y++
		x, tallest := 0, 0
		for i := range r.panels {
			p := &r.panels[i]
			if x+p.width > columns {
				x, y, tallest = 0, y+tallest, 0
			}
			height := 8
			if p.kind == kindStat {
				height = 4
			}
			add(x, p.width, height, p.render())
			x, tallest = x+p.width, max(tallest, height)
		}
		y += tallest
	}
	return all
}

// dashboardLink returns a link with all fields that Grafana's schema requires.
func dashboardLink(fields object) object {
	all := object{"type": "link", "tags": []string{}, "icon": "", "tooltip": "", "asDropdown": false, "includeVars": false, "keepTime": false, "targetBlank": false}
	maps.Copy(all, fields)
	return all
}

// render returns a panel without its place.
func (p *panel) render() object {
	links := []any{}
	for _, alert := range p.alerts {
		links = append(links, dashboardLink(object{"title": "Runbook: " + alert, "url": runbook + "#" + strings.ToLower(alert), "targetBlank": true}))
	}
	targets := make([]any, len(p.queries))
	for i, q := range p.queries {
		target := object{"datasource": source, "editorMode": "code", "expr": q.expr, "refId": string(rune('A' + i)), "range": true, "instant": false}
		if p.kind != kindSeries {
			target["range"], target["instant"] = false, true
		}
		if p.kind == kindTable {
			target["format"] = "table"
		} else {
			target["legendFormat"] = q.legend
		}
		targets[i] = target
	}
	all := object{
		"type": p.kind, "title": p.title, "description": p.description, "datasource": source, "links": links, "targets": targets,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": []any{}}, "options": p.options(),
	}
	if p.kind == kindTable {
		all["transformations"] = []any{object{"id": "organize", "options": object{
			"excludeByName": object{"Time": true, "Value": p.values == ""}, "indexByName": object{}, "renameByName": object{"Value": p.values},
		}}}
	}
	return all
}

// defaults returns how values are shown.
func (p *panel) defaults() object {
	steps := []any{object{"color": "green", "value": nil}}
	if p.warning != nil {
		steps = append(steps, object{"color": "red", "value": *p.warning})
	}
	if p.low {
		steps = []any{object{"color": "red", "value": nil}, object{"color": "green", "value": *p.warning}}
	}
	all := object{"unit": p.unit, "min": 0, "thresholds": object{"mode": "absolute", "steps": steps}, "mappings": []any{}}
	switch p.kind {
	case kindStat:
		delete(all, "min")
		all["color"] = object{"mode": "thresholds"}
		if p.zero {
			all["noValue"] = "0"
		}
	case kindSeries:
		custom := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		if p.stacked {
			custom["fillOpacity"], custom["stacking"] = 40, object{"group": "A", "mode": "normal"}
		}
		if p.warning != nil {
			custom["thresholdsStyle"] = object{"mode": "dashed"}
		}
		all["color"], all["custom"] = object{"mode": "palette-classic"}, custom
	}
	return all
}

// options returns the options of the visualization.
func (p *panel) options() object {
	switch p.kind {
	case kindStat:
		return object{"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value", "reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}}
	case kindTable:
		return object{"showHeader": true, "cellHeight": "sm"}
	}
	return object{
		"legend":  object{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"lastNotNull", "max"}},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}
}
