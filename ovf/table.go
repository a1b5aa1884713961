package ovf

import (
	"fmt"
	"strings"

	"github.com/virtward/virtward/texts"
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
	page.WriteString("\n| Operating system | Preference | Requires |\n|---|---|---|\n")
	for _, row := range preferenceRows {
		preference := "`" + row.preference + "`"
		if row.guessed {
			preference += ": `Guessed`"
		}
		types := strings.ReplaceAll(strings.Join(row.types, "`, `"), "|", `\|`)
		fmt.Fprintf(&page, "| `%s` | %s | %s, %d MiB |\n", types, preference, texts.Count(row.cpus, "CPU", "CPUs"), row.memoryMiB)
	}
	return page.String()
}
