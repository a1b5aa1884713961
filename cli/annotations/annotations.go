package annotations

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/virtward/virtward/cli/sarif"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// Write writes a workflow command for each result. A result without a file has its location in the message.
func Write(w io.Writer, results []sarif.Result) error {
	out := bufio.NewWriter(w)
	for i := range results {
		if _, err := out.WriteString(command(&results[i]) + "\n"); err != nil {
			return err
		}
	}
	return out.Flush()
}

// command returns ::error file=vm.yaml,line=12,col=7,title=arm64-disk-bus::message.
func command(r *sarif.Result) string {
	message := r.Text
	var properties []string
	if r.File != "" {
		properties = append(properties, "file="+property(r.File), "line="+strconv.Itoa(max(r.Line, 1)), "col="+strconv.Itoa(max(r.Column, 1)))
	} else {
		message = r.Name + ": " + message
	}
	properties = append(properties, "title="+property(r.Rule))
	return "::" + level(r.Severity) + " " + strings.Join(properties, ",") + "::" + data(message)
}

func level(severity validators.Severity) string {
	switch severity {
	case validators.Deny:
		return "error"
	case validators.Audit:
		return "notice"
	}
	return "warning"
}

// property escapes the value of a property, in which a colon or a comma would end it.
func property(text string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(text))
}

// data escapes a message. It is one line.
func data(text string) string { return strings.ReplaceAll(texts.OneLine(text), "%", "%25") }
