package ovf

import (
	"fmt"
	"strings"
)

//go:generate go run ./gen ../docs/ova.md

// Table is the mapping of devices and network adapters in Markdown, for the documentation.
func Table() string {
	var page strings.Builder
	page.WriteString("| Device (`ResourceType`) | KubeVirt | Dropped or rejected |\n|---|---|---|\n")
	for _, d := range devices() {
		types := strings.ReplaceAll(strings.Trim(fmt.Sprint(d.types), "[]"), " ", ", ")
		fmt.Fprintf(&page, "| %s (%s) | %s | %s |\n", d.name, types, d.becomes, d.problem)
	}
	page.WriteString("\n| Network adapter (`ResourceSubType`) | `model` |\n|---|---|\n")
	for _, m := range models {
		fmt.Fprintf(&page, "| `%s` | `%s` |\n", m.adapter, m.model)
	}
	page.WriteString("\n| Operating system | Preference |\n|---|---|\n")
	for _, row := range preferenceRows {
		fmt.Fprintf(&page, "| `%s` | `%s` |\n", strings.ReplaceAll(row.types, "|", "`, `"), row.preference)
	}
	return page.String()
}
