package previews

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/texts"
)

// WriteHooks writes a table of what became of each hook, and then what the domain loses.
func WriteHooks(w io.Writer, result *plugins.Result) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "PLUGIN\tHOOK\tOUTCOME\tMESSAGE")
	for i := range result.Hooks {
		h := &result.Hooks[i]
		fmt.Fprintf(columns, "%s\t%s\t%s\t%s\n", texts.OneLine(h.Plugin), h.Hook, h.Outcome, texts.OneLine(h.Message))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	for _, lost := range result.Lost {
		if _, err := fmt.Fprintf(w, "lost: %s, which libvirtxml does not have\n", texts.OneLine(lost)); err != nil {
			return err
		}
	}
	return nil
}
