package lsp

import (
	"strings"

	"github.com/virtward/virtward/cli/lsp/analysis"
	"github.com/virtward/virtward/cli/lsp/protocol"
	"github.com/virtward/virtward/cli/lsp/text"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// codeLenses count above each virtual machine what denies it.
func codeLenses(s *server, d *document, _ *protocol.TextDocumentParams) any {
	lenses := []protocol.CodeLens{}
	for _, m := range d.result.Machines {
		rules := map[string]bool{}
		for _, f := range m.Rejections() {
			rules[f.Rule] = true
		}
		byPolicies := 0
		for rule := range rules {
			if strings.HasPrefix(rule, policies.RulePrefix) {
				byPolicies++
			}
		}
		var parts []string
		if byPolicies > 0 {
			parts = append(parts, texts.Count(byPolicies, "policy", "policies"))
		}
		if others := len(rules) - byPolicies; others > 0 {
			parts = append(parts, texts.Count(others, "built-in rule", "built-in rules"))
		}
		title := "admitted"
		if len(rules) > 0 {
			verb := " deny this"
			if len(rules) == 1 {
				verb = " denies this"
			}
			title = strings.Join(parts, " and ") + verb
		}
		at := diagnosticOf(d.Text, s.encoding, analysis.Problem{Position: m.Kind}).Range
		lenses = append(lenses, protocol.CodeLens{Range: text.Range{Start: at.Start, End: at.Start}, Command: protocol.Command{Title: title}})
	}
	return lenses
}

func severityOf(s validators.Severity) protocol.Severity {
	switch s {
	case validators.Deny:
		return protocol.SeverityError
	case validators.Audit:
		return protocol.SeverityInformation
	}
	return protocol.SeverityWarning
}

// tokenLength returns the length of the key or the value at the begin of a text: it ends at a blank, or at a colon or another
// mark of YAML that ends a key. A quoted one ends with its quote.
func tokenLength(rest string) int {
	if rest == "" {
		return 0
	}
	line := rest
	if i := strings.IndexAny(rest, "\r\n"); i >= 0 {
		line = rest[:i]
	}
	if line != "" && strings.ContainsRune(`"'`, rune(line[0])) {
		if i := strings.IndexByte(line[1:], line[0]); i >= 0 {
			return i + 2
		}
	}
	if i := strings.IndexAny(line, " \t,:]}"); i > 0 {
		return i
	}
	return len(line)
}
